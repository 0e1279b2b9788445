"""What a run leaves to be drawn."""

import math

import pytest

from model.training.live.runs import Curves


@pytest.mark.parametrize(("count", "most", "kept"), [(0, 3, []), (3, 3, [1, 2, 3]), (4, 3, [1, 3]), (10, 3, [1, 5, 9])])
def test_an_overview_is_even_and_short(count, most, kept):
    curves = Curves(["rate", "loss"])
    curves.add(0, {"rate": 1.0})  # as a run begins
    for step in range(1, count + 1):
        curves.add(step, {"rate": 1.0, "loss": 10.0 * step})
    assert curves.overview("loss", most) == [10.0 * step for step in kept]


def test_an_overview_leaves_out_what_was_not_measured():
    curves = Curves(["loss"])
    for step, loss in enumerate([1.0, None, 2.0, math.nan]):
        curves.add(step, {"loss": loss})
    assert curves.overview("loss", 4) == [1.0, 2.0]


def test_curves_stand_at_the_newest_step_however_thin_they_are():
    curves = Curves(["loss"], budget=4 * 8)
    for step in range(12):
        curves.add(step, {"loss": 1.0})
        assert curves.newest_step == step
    assert len(curves.get("loss")[0]) < 12
