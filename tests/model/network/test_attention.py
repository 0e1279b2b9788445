"""Attention against torch's, computed step by step and in the quickest way."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from model.network.attention import MultiHeadAttention
from model.network.kernels import plain_kernels
from model.network.masks import Mask
from tests.model.examples import config


def attention(n_heads=4, dtype=torch.float64, **options) -> MultiHeadAttention:
    """Every weight random, biases too."""
    module = MultiHeadAttention(config(n_heads=n_heads, **options)).to(dtype)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.25)
    return module.eval()


def torchs(ours: MultiHeadAttention, n_heads: int) -> nn.MultiheadAttention:
    """torch's module with the weights of ours."""
    module = nn.MultiheadAttention(16, n_heads, batch_first=True, dtype=torch.float64)
    projections = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
        module.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
        module.out_proj.weight.copy_(ours.output.weight)
        module.out_proj.bias.copy_(ours.output.bias)
    return module


@pytest.mark.parametrize("is_explicit", [False, True])
@pytest.mark.parametrize("n_heads", [1, 2, 8])
@pytest.mark.parametrize("is_causal", [False, True])
def test_it_is_torchs_multihead_attention(n_heads, is_causal, is_explicit):
    ours = attention(n_heads)
    theirs = torchs(ours, n_heads)
    x = torch.randn(3, 5, 16, dtype=torch.float64, requires_grad=True)
    memory = x if is_causal else torch.randn(3, 7, 16, dtype=torch.float64)
    keys = torch.ones(3, memory.shape[1], dtype=torch.bool)
    keys[1, 3:] = False
    hidden = torch.ones(5, 5, dtype=torch.bool).triu(1) if is_causal else None
    with plain_kernels(is_explicit):
        result = ours(x, memory, Mask(keys=keys, causal=is_causal))
    expected, _ = theirs(x, memory, memory, key_padding_mask=~keys, attn_mask=hidden)
    assert_close(result, expected, rtol=0, atol=1e-10)
    slope = torch.randn_like(result)
    (ours_gradient,) = torch.autograd.grad(result, x, slope)
    (their_gradient,) = torch.autograd.grad(expected, x, slope)
    assert_close(ours_gradient, their_gradient, rtol=0, atol=1e-10)


def test_the_stages_are_equation_1():
    """One head, two queries, three keys, by hand."""
    module = attention(n_heads=8)  # two channels a head
    query, key = [[1.0, 2.0], [0.5, -1.0]], [[3.0, 0.0], [-1.0, 1.0], [2.0, 2.0]]
    scores = module.scores(torch.tensor([query]), torch.tensor([key]))[0]
    for i, (a, b) in enumerate(query):
        for j, (c, d) in enumerate(key):
            assert float(scores[i, j]) == pytest.approx(a * c + b * d)
    scaled = module.scaled(scores)
    assert_close(scaled, scores / math.sqrt(2))
    visible = torch.tensor([[True, True, False], [False, False, False]])
    masked = module.masked(scaled, visible)
    assert masked.tolist()[0][2] == -math.inf
    assert masked.tolist()[1] == [-math.inf] * 3
    weights = module.weights(masked, visible)
    exponentials = [math.exp(float(scaled[0, j])) for j in range(2)]
    expected = [exponentials[0] / sum(exponentials), exponentials[1] / sum(exponentials), 0.0]
    assert weights[0].tolist() == pytest.approx(expected)
    assert weights[1].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("is_explicit", [False, True])
def test_without_the_scale_it_is_attention_to_larger_queries(is_explicit):
    plain, scaled = attention(scale_attention=False), attention()
    scaled.load_state_dict(plain.state_dict())
    with torch.no_grad():
        for parameter in scaled.query.parameters():
            parameter.mul_(math.sqrt(4))  # four channels a head
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    with plain_kernels(is_explicit):
        assert_close(plain(x, x, Mask(causal=True)), scaled(x, x, Mask(causal=True)))


@pytest.mark.parametrize("is_explicit", [False, True])
def test_attention_dropout_drops_weights_while_training_only(is_explicit):
    module = attention(attention_dropout=0.5, dtype=torch.float32)
    x = torch.randn(2, 6, 16)
    with plain_kernels(is_explicit):
        assert torch.equal(module(x, x, Mask()), module(x, x, Mask()))
        module.train()
        assert not torch.equal(module(x, x, Mask()), module(x, x, Mask()))
