"""What the benchmark of decoding compares writes as many tokens on both sides.

No bound on time: the shape checks of the test run cost ours more than the arithmetic of one token.
"""

from __future__ import annotations

import pytest

from tests.benchmarks import decoding


@pytest.mark.benchmark
@pytest.mark.parametrize("beam", [1, 4])
def test_both_write_as_much_as_they_may(beam: int) -> None:
    for decoder in (decoding.vitrine(new=6), decoding.marian(new=6)):
        assert [len(text) for text in decoder(decoding.sources(2), beam)] == [6, 6]
