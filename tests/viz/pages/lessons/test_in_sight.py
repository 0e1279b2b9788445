"""The figure that a step is about: the one that it names, that its state chooses, that its question is answered by."""

from __future__ import annotations

import pytest

from model.lessons.lesson import parse
from tests.model.lessons.test_lesson import HEAD
from viz.pages.lessons.in_sight import figures_of

HINTS = "hints: [a, b]\n```\n"


@pytest.mark.parametrize(
    ("state", "blocks", "first"),
    [
        ("/attention?query=1", "", None),
        ("/attention?query=1", "```question\nkind: key\n" + HINTS, "head_large"),
        ("/attention?query=1", "```question\nkind: head\nof: entropy\n" + HINTS, "heads_all"),
        ("/attention?below=steps", "```question\nkind: change\nof: entropy\nchange: unscaled\n" + HINTS, "stages"),
        ("/attention?below=steps", "```light\ncontrol: More\nfigure: heads\n```\n", "heads"),
        (
            "/training?training=reverse&training_step=9",
            "```question\nkind: step\nof: loss\nvalue: 3\n" + HINTS,
            "curves_loss",
        ),
    ],
)
def test_a_step_names_its_figure_or_its_state_or_its_question_does(state, blocks, first):
    lesson = parse(f"{HEAD}## A\n```state\n{state}\n```\n{blocks}", "a.en.md")
    step = lesson.steps[0]
    assert next(iter(figures_of(step, step.state)), None) == first
