"""Question of a step: numbers of its answer."""

from __future__ import annotations

from viz.pages.lessons.question import alike


def test_numbers_that_are_compared_have_one_unit_and_as_many_decimals():
    assert alike([0.00116, 7.6e-4]) == ["0.00116", "0.00076"]
    assert alike([12.34, 0.5]) == ["12.3", "0.5"]
    assert alike([0.993, -0.01]) == ["0.993", "−0.010"]
    assert alike([0.0, 0.0]) == ["0", "0"]
