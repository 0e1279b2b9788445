"""Texts in the fields of a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from model.runtime.locks import RLock


@dataclass
class InputTexts:
    """typed: text by its field; none where a field is as it began. edits: number of changes of each field: of two texts
    the one of the later edit counts, whichever way it comes. lock: held while both are written, for a moment only.
    by_model: texts by the model that was shown with them. by_hand: fields whose text was typed, and not
    written by a button. of_training: model of a training, and the source that it was begun on, which nobody typed.
    masks: positions of the masks in the text that was last traced, and the chosen one. query_given: a position was
    chosen before any text was traced.
    """

    typed: dict[str, str] = field(default_factory=dict)
    edits: dict[str, int] = field(default_factory=dict)
    lock: RLock = field(default_factory=partial(RLock, "texts"), repr=False, compare=False)
    by_model: dict[str, tuple[str, str]] = field(default_factory=dict)
    by_hand: set[str] = field(default_factory=set)
    of_training: tuple[str, str] = ("", "")
    masks: tuple[list[int], int] | None = None
    query_given: bool = False

    def __getitem__(self, field: str) -> str:
        """Text that was typed into a field."""
        return self.typed[field]
