"""Random numbers of a stretch of work are its own, whatever other threads draw."""

import pytest
import torch

from model.network.attention import MultiHeadAttention
from model.network.dropout import dropout
from model.network.masks import Mask
from model.runtime.random import fork_rng, seeded
from tests.model.examples import config

CPU = torch.device("cpu")


@pytest.mark.parametrize("length", [8, 80])
@pytest.mark.parametrize("mask", [Mask(causal=True), Mask(keys=torch.zeros(1, 80, dtype=torch.bool))], ids=str)
def test_dropout_draws_from_its_own_seed_and_leaves_torchs_own(length, mask):
    """On long texts too, where torch's fused attention would draw from the whole process's generator."""
    if mask.keys is not None:
        mask = Mask(keys=mask.keys[:, :length])
    attention = MultiHeadAttention(config(attention_dropout=0.5)).train()
    x = torch.randn(1, length, 16)
    before = torch.get_rng_state()
    with fork_rng("one", CPU):
        first = attention(x, x, mask), dropout(x, 0.5, True)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    with fork_rng("one", CPU):
        torch.rand(5)  # another thread's
        second = attention(x, x, mask), dropout(x, 0.5, True)
    assert all(torch.equal(*pair) for pair in zip(first, second, strict=True))
    with fork_rng("two", CPU):
        assert not torch.equal(dropout(x, 0.5, True), first[1])


def test_a_seeded_stretch_is_torchs_own_with_that_seed():
    torch.manual_seed(4)
    expected = torch.rand(3)
    after = torch.rand(3)
    torch.manual_seed(4)
    torch.rand(3)
    with seeded(4, CPU):
        assert torch.equal(torch.rand(3), expected)
    assert torch.equal(torch.rand(3), after)
