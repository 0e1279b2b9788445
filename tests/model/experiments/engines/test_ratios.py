"""Ratios of times: their intervals against many drawn samples, and noise that hides a difference."""

from __future__ import annotations

import numpy as np
import pytest

from model.experiments.engines.ratios import ratio
from model.experiments.engines.timing import Times, summary


def test_a_clear_difference_is_clear_and_one_within_the_noise_is_not() -> None:
    clear = ratio(Times(2.0, 1.9, 2.1, 9), Times(1.0, 0.95, 1.05, 9))
    assert clear.value == 2.0
    assert 1.8 < clear.low < 2 < clear.high < 2.3
    hidden = ratio(Times(1.1, 0.7, 1.5, 5), Times(1.0, 0.6, 1.4, 5))
    assert hidden.low < 1 < hidden.high


@pytest.mark.parametrize("slower", [1.0, 1.5])
def test_the_interval_holds_the_true_ratio_of_noisy_runs(slower: float) -> None:
    draw = np.random.default_rng(0)
    held = 0
    for _sample in range(200):
        runs = draw.normal(1.0, 0.1, (2, 25))
        found = ratio(summary((slower * runs[0]).tolist()), summary(runs[1].tolist()))
        held += found.low <= slower <= found.high
    assert held > 180
