"""Decoding of the recurrent network: greedy and by beam, against loops that read everything anew for each token."""

from __future__ import annotations

import pytest
import torch

from model.inference.decoding import greedy
from tests.model.examples import recurrent
from tests.model.inference.test_beam_search import assert_best_of_all
from tests.model.inference.test_beam_search import compare as compare_beam
from tests.model.inference.test_decoding import END, SOURCES, compare, context, ending, naive


@pytest.mark.unchecked
@pytest.mark.parametrize("seed", range(3))
def test_a_batch_writes_what_the_naive_loop_writes(seed: int) -> None:
    compare(recurrent(seed), extra=seed)


def test_a_draft_changes_nothing() -> None:
    model = ending(recurrent(1))
    with torch.no_grad():
        expected, _steps = naive(model, SOURCES[0], 8)
        for draft in (expected, [*expected[:2], 5, 6, 7], [9, 9]):
            ids, _values, _tokens = greedy(context(model, SOURCES[:1]), ends=[END], limits=[8], draft=draft)
            assert ids[0] == expected


@pytest.mark.unchecked
@pytest.mark.parametrize("penalty", [0.0, 0.6])
def test_a_beam_that_holds_everything_finds_the_best_of_all(penalty: float) -> None:
    assert_best_of_all(ending(recurrent(2, target_vocabulary=6)), penalty)


@pytest.mark.unchecked
@pytest.mark.parametrize(("beam", "penalty"), [(1, 0.6), (3, 0.6)])
def test_a_batch_finds_what_the_plain_search_finds(beam: int, penalty: float) -> None:
    compare_beam(ending(recurrent(0)), beam, penalty)
