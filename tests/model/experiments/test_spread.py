"""What is clear beside the spread of the seeds, and what they leave open."""

import math
from statistics import fmean, stdev

import pytest

from model.experiments.spread import above, order, spread


@pytest.mark.parametrize(
    ("these", "those", "least", "expected"),
    [
        ((1.0, 1.1, 0.9), (2.0, 2.1, 1.9), 0.1, "lower"),
        ((2.0, 2.1, 1.9), (1.0, 1.1, 0.9), 0.1, "higher"),
        ((1.0, 1.0), (2.0, 2.0), 0.1, "open"),  # two seeds
        ((1.0,), (2.0,), 0.1, "open"),
        ((1.0, 1.5, 0.5), (2.0, 2.5, 1.5), 0.1, "open"),  # every seed is lower, but by less than twice their spread
        ((1.0, 1.01, 0.99), (1.02, 1.03, 1.01), 0.1, "alike"),
        ((1.0, 1.1, 0.9), (1.0, 1.1, 0.9), 0.1, "open"),  # they may differ by a tenth
        ((1.0, 1.0, 1.0), (1.05, 1.05, 1.05), 0.1, "alike"),
        ((1.0, 1.0, 1.0), (math.inf, math.inf, math.inf), 0.1, "lower"),  # all diverged
        ((1.0, 1.0, 1.0), (math.inf, 1.0, 1.0), 0.1, "open"),
        ((math.inf,) * 3, (math.inf,) * 3, 0.1, "alike"),
        ((0.0,) * 3, (0.0,) * 3, 0.0, "alike"),
        ((1.0,) * 3, (1.0 + 1e-9,) * 3, 0.0, "lower"),
        ((math.nan, 1.0, 1.0), (2.0, 2.0, 2.0), 0.1, "open"),
    ],
)
def test_two_numbers_are_apart_alike_or_open(these, those, least, expected) -> None:
    assert order(these, those, least) == expected
    opposite = {"lower": "higher", "higher": "lower"}.get(expected, expected)
    assert order(those, these, least) == opposite


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.6, 0.6, 0.6), True),
        ((0.4, 0.4, 0.4), False),
        ((0.6, 0.6), None),
        ((0.9, 0.6, 0.6), None),  # 0.7 ± 0.35
        ((0.5, 0.5, 0.5), None),
        ((math.nan, 0.9, 0.9), None),
        ((math.inf, math.inf, math.inf), None),
    ],
)
def test_a_number_is_above_a_limit_below_it_or_open(values, expected) -> None:
    assert above(values, 0.5) is expected


def test_more_seeds_decide_what_three_do_not() -> None:
    """The spread does not shrink with the seeds: only the weight of one that was unlucky does."""
    assert above((0.9, 0.6, 0.6), 0.5) is None
    assert above((0.9, *[0.6] * 9), 0.45) is None
    assert above((0.9, *[0.6] * 9), 0.4) is True


def test_the_spread_is_that_of_the_sample() -> None:
    values = (1.0, 2.0, 4.0)
    assert spread(values) == pytest.approx(math.sqrt(sum((each - fmean(values)) ** 2 for each in values) / 2))
    assert spread(values) == pytest.approx(stdev(values))
    assert spread((3.0,)) == 0.0
    assert spread((math.inf, 1.0)) == math.inf
