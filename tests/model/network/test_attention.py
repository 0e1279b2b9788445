"""Attention against torch's, and the fused path against the explicit one."""

import math
from contextlib import contextmanager
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from model.network.attention import MultiHeadAttention, explicit_attention
from model.network.masks import Mask
from tests.model.examples import config

PATHS = ["fused", "explicit", "products"]
HALF = [torch.float16, torch.bfloat16]


@contextmanager
def path_of(is_explicit: bool):
    token = explicit_attention.set(is_explicit)
    try:
        yield
    finally:
        explicit_attention.reset(token)


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
    with path_of(is_explicit):
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
    with path_of(is_explicit):
        assert_close(plain(x, x, Mask(causal=True)), scaled(x, x, Mask(causal=True)))


@st.composite
def cases(draw):
    """Batch, heads, lengths and a mask: padding anywhere, whole rows too; lengths that differ."""
    batch, queries, keys = draw(st.integers(1, 3)), draw(st.integers(1, 7)), draw(st.integers(1, 7))
    row = st.lists(st.booleans(), min_size=keys, max_size=keys)
    real = draw(st.none() | st.lists(row, min_size=batch, max_size=batch))
    mask = Mask(keys=None if real is None else torch.tensor(real), causal=draw(st.booleans()))
    return batch, draw(st.sampled_from([1, 2, 4])), queries, keys, mask


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@settings(max_examples=60)
@given(cases(), st.integers(0, 2**32 - 1))
def test_every_path_gives_the_same(dtype, tolerance, case, seed):
    batch, heads, queries, keys, mask = case
    torch.manual_seed(seed)
    module = attention(heads, dtype)
    x = torch.randn(batch, queries, 16, dtype=dtype, requires_grad=True)
    memory = torch.randn(batch, keys, 16, dtype=dtype, requires_grad=True)
    inputs = (x, memory, *module.parameters())
    results, slope = [], torch.randn(batch, queries, 16, dtype=dtype)
    for path, compiling in [*((path, False) for path in PATHS), ("products", True)]:
        module.quickest = lambda query, key, path=path: getattr(module, path)
        with patch.object(torch.compiler, "is_compiling", lambda compiling=compiling: compiling):
            result = module(x, memory, mask)
        results.append((result, *torch.autograd.grad(result, inputs, slope)))
    for fused, step_by_step, in_products, compiled in zip(*results, strict=True):
        largest = max(1.0, float(step_by_step.detach().abs().max()))
        for found in (fused, in_products, compiled):
            assert found.isfinite().all()
            assert_close(found, step_by_step, rtol=0, atol=tolerance * largest)


@pytest.mark.parametrize("options", [{}, {"position": "rotary"}, {"position": "alibi"}, {"n_key_value_heads": 2}])
def test_what_is_compiled_is_the_same_self_attention(options):
    module = attention(n_heads=4, **options).train()
    x = torch.randn(3, 5, 16, dtype=torch.float64, requires_grad=True)
    mask = Mask(keys=torch.arange(5) < torch.tensor([[5], [3], [0]]), causal=True)
    inputs, results = (x, *module.parameters()), []
    for context in (path_of(True), patch.object(torch.compiler, "is_compiling", lambda: True)):
        with context:
            result = module(x, x, mask)
        results.append((result, *torch.autograd.grad(result.square().sum(), inputs)))
    for stepwise, compiled in zip(*results, strict=True):
        assert_close(compiled, stepwise, rtol=0, atol=1e-12 * max(1.0, float(stepwise.detach().abs().max())))


@pytest.mark.parametrize(("dtype", "length"), [(torch.float32, 64), (torch.bfloat16, 65), (torch.float32, 65)])
def test_only_short_texts_are_trained_in_products(dtype, length):
    module = attention(dtype=dtype)
    query = torch.zeros(1, 4, length, 4, dtype=dtype)
    assert module.quickest(query, query) == module.fused
    short = (dtype, length) != (torch.float32, 65)
    assert module.train().quickest(query, query) == (module.products if short else module.fused)


@pytest.mark.parametrize("options", [{"position": "alibi"}, {"n_key_value_heads": 2}, {"scale_attention": False}])
def test_products_serve_every_kind_of_attention(options):
    module = attention(n_heads=4, **options)
    x = torch.randn(2, 6, 16, dtype=torch.float64)
    mask = Mask(keys=torch.arange(6) < torch.tensor([[6], [4]]), causal=True, window=3)
    expected = module(x, x, mask)
    module.quickest = lambda query, key: module.products
    assert mask.added(6, 6, x) is not None  # no query looks nowhere: products are taken indeed
    assert_close(module(x, x, mask), expected)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("dtype", [*HALF, torch.float32, torch.float64])
@pytest.mark.parametrize("is_causal", [False, True])
def test_a_query_with_nothing_to_look_at_gets_zeros(path, dtype, is_causal):
    module = attention(n_heads=2, dtype=dtype)
    query, key, value = (torch.randn(3, 2, 4, 8).to(dtype).requires_grad_() for _ in range(3))
    real = torch.tensor([[True] * 4, [False] * 4, [False, True, True, True]])
    heads = getattr(module, path)(query, key, value, Mask(keys=real, causal=is_causal))
    assert heads.dtype == dtype
    assert heads.isfinite().all()
    assert torch.equal(heads[1], torch.zeros_like(heads[1]))
    assert bool((heads[2, :, 0] == 0).all()) == is_causal  # sees only the padding before it
    assert heads[0].abs().min() > 0
    for gradient in torch.autograd.grad(heads, (query, key, value), torch.ones_like(heads)):
        assert gradient.isfinite().all()
        assert torch.equal(gradient[1], torch.zeros_like(gradient[1]))
        assert gradient[0].abs().max() > 0


@pytest.mark.parametrize("dtype", HALF)
def test_the_paths_agree_in_half_precision(dtype):
    module = attention(dtype=dtype)
    x = torch.randn(2, 6, 16).to(dtype)
    fused = module(x, x, Mask(causal=True))
    with path_of(True):
        assert_close(module(x, x, Mask(causal=True)), fused, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("is_explicit", [False, True])
def test_attention_dropout_drops_weights_while_training_only(is_explicit):
    module = attention(attention_dropout=0.5, dtype=torch.float32)
    x = torch.randn(2, 6, 16)
    with path_of(is_explicit):
        assert torch.equal(module(x, x, Mask()), module(x, x, Mask()))
        module.train()
        assert not torch.equal(module(x, x, Mask()), module(x, x, Mask()))
