"""Question of a step: numbers of its answer."""

from __future__ import annotations

import pytest

from model.capture.interventions import read_changes
from model.checkpoints.load import open_checkpoint
from model.lessons.check import CHECKPOINTS
from model.lessons.questions import Question
from model.lessons.state import State, Subject
from viz.pages.lessons.question import alike, most_first


def test_numbers_that_are_compared_have_one_unit_and_as_many_decimals():
    assert alike([0.00116, 7.6e-4]) == ["0.00116", "0.00076"]
    assert alike([12.34, 0.5]) == ["12.3", "0.5"]
    assert alike([0.993, -0.01]) == ["0.993", "−0.010"]
    assert alike([0.0, 0.0]) == ["0", "0"]


def test_what_is_said_to_a_guess_has_the_guess_and_all_experts_whose_probabilities_are_one():
    state = State.read("/feed_forward?stack=decoder&layer=0&query=2&source=3hello")
    subject = Subject.of(open_checkpoint(CHECKPOINTS / "experts"), state)
    answer = Question("expert", ("a", "b"), stack="decoder", query=2).answer(subject)
    assert sum(answer.measures) == pytest.approx(1)
    order = most_first(Question("expert", ("a", "b")), answer, None)
    assert sorted(order) == [0, 1, 2, 3]
    assert [answer.measures[place] for place in order] == sorted(answer.measures, reverse=True)
    assert most_first(Question("key", ("a", "b")), answer, order[-1]) == order
    taken = f"decoder.0.expert.{answer.right}:remove"
    without = Question("expert", ("a", "b"), stack="decoder", query=2).answer(
        subject.with_changes(*read_changes(taken))
    )
    assert without.measures[answer.right] == 0
    assert sum(without.measures) == pytest.approx(1)
