"""Reader: for whom a figure is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model.analysis.pieces import Pieces


@dataclass(frozen=True)
class Reader:
    """Language of a figure's texts; groups: by side of the text, the pieces that are shown as one token; difference:
    compared values are drawn as differences from the pinned ones.
    """

    language: str = "en"
    groups: Mapping[str, Pieces] = field(default_factory=dict)
    difference: bool = False
