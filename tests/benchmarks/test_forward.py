"""What recording costs, with bounds far enough away to hold on a busy machine: the targets are in forward.py."""

from __future__ import annotations

import pytest

from tests.benchmarks import forward, results, subjects

TINY, SMALL = subjects.SIZES


@pytest.mark.benchmark
def test_recording_takes_little_longer_than_the_bare_forward() -> None:
    seconds = forward.times(subjects.vitrine(SMALL), subjects.tokens(SMALL, 512), 5)
    assert results.ratio(seconds, "recorded", "bare") < 1.5


@pytest.mark.benchmark
def test_recording_a_long_input_fits_in_memory() -> None:
    memory = forward.peaks("Vitrine", SMALL, 1024, ["bare", "recorded"])
    assert memory["recorded"] - memory["bare"] <= forward.MOST_EXTRA


@pytest.mark.benchmark
def test_keeping_all_maps_takes_the_memory_of_the_maps() -> None:
    """The measuring itself: scores, scaled, masked and weights of 12 attentions of 4 heads have a known size."""
    memory = forward.peaks("Vitrine", TINY, 512, ["recorded", "all maps"])
    maps = 4 * 12 * TINY.n_heads * 512**2 * 4 / forward.MB
    assert memory["all maps"] - memory["recorded"] == pytest.approx(maps, rel=0.1)
