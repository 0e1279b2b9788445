"""What the benchmark of decoding compares writes as many tokens on both sides, and ours is not the slower one."""

from __future__ import annotations

import pytest

from tests.benchmarks import decoding


@pytest.mark.benchmark
@pytest.mark.parametrize("beam", [1, 4])
def test_both_write_as_much_as_they_may(beam: int) -> None:
    pytest.importorskip("transformers")
    for decoder in (decoding.vitrine(new=6), decoding.marian(new=6)):
        assert [len(text) for text in decoder(decoding.sources(2), beam)] == [6, 6]


@pytest.mark.benchmark
def test_a_single_text_is_written_no_slower_than_by_marian() -> None:
    """With a bound far enough away to hold on a busy machine: the targets are in decoding.py."""
    pytest.importorskip("transformers")
    seconds = decoding.times({"Marian": decoding.marian(new=12), "Vitrine": decoding.vitrine(new=12)}, 1, 1, 5)
    assert decoding.ratio(seconds) > 0.9
