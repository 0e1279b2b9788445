"""Every kernel of attention gives what equation 1 gives step by step: heads, gradients, zeros where nothing is seen."""

from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from model.fast import attention as kernels
from model.fast.attention import added_mask, choose_kernel, fused, products, project
from model.network.attention import MultiHeadAttention
from model.network.kernels import plain_kernels
from model.network.masks import Mask
from tests.model.network.test_attention import attention

WAYS = {"fused": fused, "step by step": MultiHeadAttention.attend, "products": products}
HALF = [torch.float16, torch.bfloat16]


def by(way: str):
    """A block in which attention takes this way to the heads."""
    return patch.object(kernels, "choose_kernel", lambda *_: WAYS[way])


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
def test_every_kernel_gives_the_same(dtype, tolerance, case, seed):
    batch, heads, queries, keys, mask = case
    torch.manual_seed(seed)
    module = attention(heads, dtype)
    x = torch.randn(batch, queries, 16, dtype=dtype, requires_grad=True)
    memory = torch.randn(batch, keys, 16, dtype=dtype, requires_grad=True)
    inputs = (x, memory, *module.parameters())
    results, slope = [], torch.randn(batch, queries, 16, dtype=dtype)
    for way, compiling in [*((way, False) for way in WAYS), ("products", True)]:
        with by(way), patch.object(torch.compiler, "is_compiling", lambda compiling=compiling: compiling):
            result = module(x, memory, mask)
        results.append((result, *torch.autograd.grad(result, inputs, slope)))
    for in_one, step_by_step, in_products, compiled in zip(*results, strict=True):
        largest = max(1.0, float(step_by_step.detach().abs().max()))
        for found in (in_one, in_products, compiled):
            assert found.isfinite().all()
            assert_close(found, step_by_step, rtol=0, atol=tolerance * largest)


OPTIONS = [{}, {"position": "rotary"}, {"position": "alibi"}, {"n_key_value_heads": 2}, {"scale_attention": False}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_products_and_what_is_compiled_serve_every_kind_of_attention(options):
    module = attention(n_heads=4, **options).train()
    x = torch.randn(3, 5, 16, dtype=torch.float64, requires_grad=True)
    padded = Mask(keys=torch.arange(5) < torch.tensor([[5], [3], [0]]), causal=True)
    windowed = Mask(keys=torch.arange(5) < torch.tensor([[5], [4], [5]]), causal=True, window=3)
    assert added_mask(windowed, 5, 5, x) is not None  # no query looks nowhere: products are taken indeed
    compiling = patch.object(torch.compiler, "is_compiling", lambda: True)
    for mask, quick in ((padded, compiling), (windowed, by("products"))):
        inputs, results = (x, *module.parameters()), []
        for context in (plain_kernels(), quick):
            with context:
                result = module(x, x, mask)
            results.append((result, *torch.autograd.grad(result.square().sum(), inputs)))
        for stepwise, other in zip(*results, strict=True):
            assert_close(other, stepwise, rtol=0, atol=1e-12 * max(1.0, float(stepwise.detach().abs().max())))


@pytest.mark.parametrize(("dtype", "length"), [(torch.float32, 64), (torch.bfloat16, 65), (torch.float32, 65)])
def test_only_short_texts_are_trained_in_products(dtype, length):
    module = attention(dtype=dtype)
    query = torch.zeros(1, 4, length, 4, dtype=dtype)
    assert choose_kernel(module, query, query) == fused
    short = (dtype, length) != (torch.float32, 65)
    assert choose_kernel(module.train(), query, query) == (products if short else fused)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [*HALF, torch.float32, torch.float64])
@pytest.mark.parametrize("is_causal", [False, True])
def test_a_query_with_nothing_to_look_at_gets_zeros(way, dtype, is_causal):
    module = attention(n_heads=2, dtype=dtype)
    query, key, value = (torch.randn(3, 2, 4, 8).to(dtype).requires_grad_() for _ in range(3))
    real = torch.tensor([[True] * 4, [False] * 4, [False, True, True, True]])
    heads = WAYS[way](module, query, key, value, Mask(keys=real, causal=is_causal))
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
def test_the_kernels_agree_in_half_precision(dtype):
    module, x, mask = attention(dtype=dtype), torch.randn(2, 6, 16).to(dtype), Mask(causal=True)
    quick = module(x, x, mask)
    with plain_kernels():
        assert_close(module(x, x, mask), quick, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("options", [{}, {"position": "rotary"}, {"qk_norm": True}, {"n_key_value_heads": 2}])
def test_one_product_gives_queries_keys_and_values_and_their_gradients(options, monkeypatch):
    module = attention(n_heads=4, **options).train()
    x = torch.randn(2, 5, 16, dtype=torch.float64, requires_grad=True)
    inputs = (x, *(each for part in (module.query, module.key, module.value) for each in part.parameters()))
    monkeypatch.setattr(module.query, "forward", None)  # cannot be called: the product is taken indeed
    found = project(module, x, x, None)
    monkeypatch.undo()
    slopes = [torch.randn_like(each) for each in found]
    for one, other in zip(found, module.project(x, x, None), strict=True):
        assert_close(one, other)
    quick = torch.autograd.grad(found, inputs, slopes)
    for one, other in zip(quick, torch.autograd.grad(module.project(x, x, None), inputs, slopes), strict=True):
        assert_close(one, other)
