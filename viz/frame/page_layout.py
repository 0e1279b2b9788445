"""The layout of a page, from which the script and the channel draw it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from viz.ui.parts import Views

if TYPE_CHECKING:
    from model.inference.text_model import TextModel


@dataclass(frozen=True)
class PageLayout:
    """Layout of a page as the script arranged it: with these controls, in this language, of this model.

    trained: a training is shown, and `model` is the one that it began with. page: whose first line is drawn; "": none.
    """

    model: TextModel
    trained: bool
    views: Views
    language: str
    page: str = ""
