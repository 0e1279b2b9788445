"""Smoothing against a plain loop; thinning by what must survive."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from model.analysis.downsample import BLOCK, outline, smoothed


@pytest.mark.parametrize("count", [0, 1, 5, BLOCK, 3 * BLOCK + 7])
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.98])
def test_smoothing_is_the_recursion_step_by_step(count, keep):
    values = np.random.default_rng(1).normal(5, 1, count)
    expected, average = [], 0.0
    for step, value in enumerate(values, start=1):
        average = keep * average + (1 - keep) * value
        expected.append(average / (1 - keep**step))
    assert_allclose(smoothed(values, keep), expected, rtol=1e-12)


def test_what_is_constant_stays_so():
    assert_allclose(smoothed(np.full(300, 2.5), 0.99), 2.5, rtol=1e-12)


@pytest.mark.parametrize("keep", [-0.1, 1.0])
def test_a_weight_that_cannot_be_is_named(keep):
    with pytest.raises(ValueError, match=str(keep)):
        smoothed(np.ones(3), keep)


@pytest.mark.parametrize("count", [3, 400, 401, 9999])
def test_spikes_and_both_ends_survive_thinning(count):
    xs, ys = np.arange(float(count)), np.random.default_rng(2).normal(size=count)
    ys[count // 3], ys[2 * count // 3] = 50, -50
    places, values = outline(xs, ys, 400)
    assert len(places) <= 400
    assert (np.diff(places) > 0).all()
    assert_array_equal(values, ys[places.astype(int)])
    assert (places[0], places[-1]) == (0, count - 1)
    assert {values.max(), values.min()} == {ys.max(), ys.min()}
    if count > 400:
        assert len(places) > 250


def test_too_few_points_are_refused():
    with pytest.raises(ValueError, match="most"):
        outline(np.ones(9), np.ones(9), 3)
