"""What a session has its training watch: the target of the text that is in the fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model.text.tokenizer import Tokens
    from model.training.live.camera import Probe


@dataclass
class Watching:
    """wish: the number of a training, and what this session would have it watch. untyped: the number of a training, a
    source, and its target where none is typed. rewrite: the model in training is asked to write that.
    """

    wish: tuple[int, Probe] | None = None
    untyped: tuple[int, str, Tokens] | None = None
    rewrite: bool = False
