"""Claim 13: without positions a set, with positions a sequence."""

import pytest
import torch

from model.analysis.positions import order_difference, reversed_order, token_states
from tests.model.examples import network, one_stack

IDS, ORDER = [4, 5, 6, 7, 2], [3, 2, 1, 0, 4]


def test_all_but_special_tokens_are_reversed():
    assert reversed_order([True, False, False, True, False]) == [0, 4, 2, 3, 1]
    assert reversed_order([]) == []


@pytest.mark.parametrize("make", [network, lambda **options: one_stack("encoder-only", **options)])
def test_an_encoder_without_positions_notices_no_order(make):
    assert order_difference(make(position="none"), IDS, ORDER).max() < 1e-5
    for position in ("sinusoidal", "learned", "rotary", "alibi"):
        assert order_difference(make(position=position), IDS, ORDER).max() > 1e-3


def test_a_causal_mask_tells_the_order_too():
    assert order_difference(one_stack("decoder-only", position="none"), IDS, ORDER).max() > 1e-3


def test_the_difference_is_that_of_the_states_by_hand():
    model = network()
    states = token_states(model, IDS)
    with torch.inference_mode():
        assert torch.equal(states, model.encode(torch.tensor([IDS]))[0])
    moved = token_states(model, [IDS[place] for place in ORDER])
    expected = [float((states[place] - moved[i]).abs().max()) for i, place in enumerate(ORDER)]
    assert order_difference(model, IDS, ORDER).tolist() == pytest.approx(expected)
