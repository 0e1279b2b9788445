"""Progress in a lesson: what its score counts."""

from __future__ import annotations

from types import SimpleNamespace

import streamlit as st

from viz.i18n.catalogue import speaking
from viz.pages.lessons import progress
from viz.pages.lessons.progress import HINTS, Progress, score_words


def test_the_parts_of_a_score_are_all_questions_each_once(monkeypatch):
    """Whoever tries again after the answer was shown, or guesses right in the end, changes no first guess."""
    known = Progress("tiny")
    known.note(0, True, scored=True)
    known.note(0, False, scored=True)  # another guess after the right one
    known.note(1, False, scored=True)
    known.note(1, True, scored=True)
    known.hints[2] = HINTS
    known.note(2, None, scored=True)
    known.hints.pop(2)
    known.note(2, True, scored=True)
    known.note(3, False, scored=True)
    known.note(4, None, scored=False)
    monkeypatch.setattr(st, "session_state", {progress.PROGRESS: known})
    steps = [SimpleNamespace(question=question) for question in [*"abcdef", None]]
    with speaking("en"):
        words = score_words(SimpleNamespace(name="tiny", steps=steps))
    right = "1 of 6 right at the first guess, without a hint"
    others = ["1 right after a hint or another guess", "1 shown", "1 wrong", "1 not scored", "1 not answered"]
    assert words == " · ".join([right, *others])
