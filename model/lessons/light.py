"""Light of a step: a token, a head, a cell, a control or a figure that its text speaks of, lit on the page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from model.capture.trace import AttentionKind
from model.lessons.state import State, Subject
from model.message import InputError

FIGURE = "figure"  # which is no brighter, and brought into sight
KINDS = ("token", "head", "cell", "control", FIGURE)
LONGEST = 60  # characters of a label


@dataclass(frozen=True)
class Light:
    """Something that is lit up. what: the token as it is written, layer.head, query.key, the control's label, or the
    figure's name, as in the lines that its menu copies as Python.
    """

    kind: str
    what: str

    @classmethod
    def read(cls, line: str) -> Light:
        """Light of a line: kind: what.

        Raises:
            ValueError: there is no such kind, or what is lit up cannot be.
        """
        kind, colon, what = (part.strip() for part in line.partition(":"))
        if kind not in KINDS or not colon or not 0 < len(what) <= LONGEST:
            raise InputError(
                "{line!r} lights nothing: it must be one of {names}, a colon, and what",
                line=line[:60],
                names=", ".join(KINDS),
            )
        if kind in ("head", "cell"):
            first, point, second = what.partition(".")
            if not point or not all(each.isascii() and each.isdigit() and len(each) < 6 for each in (first, second)):
                raise InputError("{kind} ({what!r}) must be two numbers with a point, from 0", kind=kind, what=what)
        return cls(kind, what)

    @property
    def place(self) -> tuple[int, int]:
        """Layer and head, or query and key."""
        first, _point, second = self.what.partition(".")
        return int(first), int(second)

    def require(self, subject: Subject, state: State) -> None:
        """What is lit up is there; of a control or a figure only the page knows.

        Raises:
            ValueError: the texts have no such token or cell, or the model no such head.
        """
        kind = cast("AttentionKind", state.parameters.get("attention") or subject.attentions[-1])
        target = subject.target or subject.source
        if self.kind == "token":
            labels = [label.strip("▁ ") for label in (*subject.source.labels, *target.labels)]
            if self.what not in labels:
                raise InputError("the token {what!r} is in neither text", what=self.what)
        elif self.kind == "head":
            self._within(subject.maps(kind))
        elif self.kind == "cell":
            queries = subject.source if kind == "encoder" else target
            keys = subject.source if kind in ("encoder", "cross") else target
            self._within((len(queries), len(keys)))

    def _within(self, counts: tuple[int, int]) -> None:
        if any(number >= count for number, count in zip(self.place, counts, strict=True)):
            first, second = counts
            raise InputError(
                "{kind} ({what}) is not there: there are {first} × {second}, from 0",
                kind=self.kind,
                what=self.what,
                first=first,
                second=second,
            )
