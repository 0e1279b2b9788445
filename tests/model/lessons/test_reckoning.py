"""Minutes of a lesson are reckoned from its texts, figures and questions, in both languages."""

from __future__ import annotations

import pytest

from model.lessons.reckoning import CHARACTERS, FIGURE, QUESTION, WORDS, fits, minutes_alone
from tests.model.lessons.test_lesson import QUESTION as ASKED
from tests.model.lessons.test_lesson import STATE, lesson


def test_texts_figures_and_questions_take_their_time_and_notes_none():
    notes = "```notes\n" + "word " * 300 + "\n```\n"
    words = lesson(f"## One\n{STATE}\n{'word ' * 90}\n\n{notes}\n## Two\n\n{'**One** two: ' * 45}\n\n{ASKED}")
    assert minutes_alone(words) == pytest.approx(180 / WORDS + FIGURE + QUESTION)
    characters = lesson(f"## 一\n{STATE}\n{'这是 Transformer，好。' * 30}\n")
    assert minutes_alone(characters) == pytest.approx(150 / CHARACTERS + 30 / WORDS + FIGURE)


def test_minutes_fit_to_a_third():
    words = lesson(f"## One\n{STATE}\n{'word ' * (9 * WORDS)}\n")
    assert [fits(minutes, words) for minutes in (6, 7, 12, 13, 14)] == [False, True, True, True, False]
