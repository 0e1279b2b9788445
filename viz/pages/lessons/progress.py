"""Progress of a visitor in a lesson: hints, guesses, and what is scored of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import streamlit as st

from viz.i18n.catalogue import _

if TYPE_CHECKING:
    from model.lessons.lesson import Lesson

PROGRESS = "lesson_progress"  # in the session state
HINTS = 3  # a nudge, a suggestion, the answer


@dataclass
class Progress:
    """Progress in one lesson. hints: how many are shown, by step. first: whether the first guess was right, without a
    hint, by step; None where nothing is scored. later: steps of which a later guess was right, before the answer was
    shown. revealed: those whose answer was shown. guesses: the last ones, by the keys of their fields, which Streamlit
    forgets when another step is open.
    """

    lesson: str
    hints: dict[int, int] = field(default_factory=dict)
    first: dict[int, bool | None] = field(default_factory=dict)
    later: set[int] = field(default_factory=set)
    revealed: set[int] = field(default_factory=set)
    guesses: dict[str, int | float] = field(default_factory=dict)

    def note(self, number: int, verdict: bool | None, scored: bool) -> None:
        """A guess at a step's question was judged, or its answer is shown. verdict: None, nobody has guessed."""
        hints = self.hints.get(number, 0)
        self.first.setdefault(number, bool(verdict) and not hints if scored else None)
        if hints == HINTS:
            self.revealed.add(number)
        elif verdict and number not in self.revealed:
            self.later.add(number)

    def outcome(self, number: int) -> str:
        """Outcome of a step's question."""
        if number not in self.first:
            return "unanswered"
        if self.first[number] is None:
            return "undecided"
        if self.first[number]:
            return "first"
        if number in self.later:
            return "later"
        return "shown" if number in self.revealed else "wrong"

    def forget_guess(self, number: int, key: str) -> None:
        """The step's question is open again; what was scored stays. In a callback."""
        self.hints.pop(number, None)
        self.guesses.pop(key, None)
        st.session_state[key] = None


def progress(lesson: Lesson) -> Progress:
    """Progress in this lesson; that in another is forgotten."""
    known: Progress | None = st.session_state.get(PROGRESS)
    if known is None or known.lesson != lesson.name:
        known = st.session_state[PROGRESS] = Progress(lesson.name)
    return known


def forget_progress() -> None:
    """Another visit of a lesson begins: nothing of it is answered. In a callback, or before widgets are drawn."""
    known: Progress | None = st.session_state.pop(PROGRESS, None)
    for key in known.guesses if known else ():
        st.session_state.pop(key, None)


def score_words(lesson: Lesson) -> str:
    """Score of a lesson, whose parts are all of its questions; "" where none was answered or shown."""
    known = progress(lesson)
    numbers = [number for number, step in enumerate(lesson.steps) if step.question is not None]
    outcomes = Counter(map(known.outcome, numbers))
    if outcomes["unanswered"] + outcomes["undecided"] == len(numbers):
        return ""
    words = _("{right} of {all} right at the first guess, without a hint")
    more = {
        "later": _("{count} right after a hint or another guess"),
        "shown": _("{count} shown"),
        "wrong": _("{count} wrong"),
        "undecided": _("{count} not scored"),
        "unanswered": _("{count} not answered"),
    }
    first = words.format(right=outcomes["first"], all=len(numbers))
    others = [each.format(count=outcomes[name]) for name, each in more.items() if outcomes[name]]
    return " · ".join([first, *others])
