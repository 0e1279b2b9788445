"""Ours and the plain loops train the same network: what the benchmark compares is the same work."""

from __future__ import annotations

import pytest

from tests.benchmarks import results, training
from tests.benchmarks.training_networks import CHARACTERS, SETTINGS, Setting


@pytest.mark.benchmark
@pytest.mark.parametrize("setting", SETTINGS, ids=["characters", "translation"])
def test_the_losses_follow_the_same_curve(setting: Setting) -> None:
    curves = training.losses(setting)
    assert curves["float32"] == pytest.approx(curves["plain"], abs=1e-3)
    assert curves["bfloat16"] == pytest.approx(curves["plain"], abs=2e-2)


@pytest.mark.benchmark
def test_training_is_no_slower_than_a_plain_loop() -> None:
    """With a bound far enough away to hold on a busy machine: the targets are in training.py."""
    seconds = training.times(training.subjects(CHARACTERS), 2, 7)
    assert results.ratio(seconds, "plain", "float32") > 0.75
