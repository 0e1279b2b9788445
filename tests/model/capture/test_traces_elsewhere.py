"""Traces, what-if changes and the fused kernel on a device that is not the CPU: the same numbers, all of them there.

The device is a pretended one (tests/pretended_device.py), once with float64, as CUDA, and once without, as MPS.
"""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from model.analysis.checks import checks
from model.capture.interventions import Causal, Cells, Intervention, PaddingSeen, Window, intervening
from model.capture.trace import record
from model.fast.attention import fused
from model.inference.copies import vary
from model.network.attention import MultiHeadAttention, for_each_head
from model.network.masks import Mask
from tests.model.elsewhere import KINDS, OPTIONS, alike, elsewhere, model_of, trace_of
from tests.model.examples import config
from tests.pretended_device import NAME


@pytest.mark.parametrize(
    ("kind", "options"), [*zip(KINDS, OPTIONS[2:], strict=True), *zip(KINDS[:2], OPTIONS, strict=False)]
)
def test_every_quantity_of_a_trace(pretended, kind, options):
    model = model_of(kind, **options)
    other = elsewhere(model)
    ours, theirs = trace_of(model), trace_of(other)
    assert theirs.names() == ours.names()
    for name in theirs.names():
        assert theirs[name].device.type == NAME, name
        assert_close(theirs[name].cpu(), ours[name], rtol=1e-4, atol=1e-5)
    assert all(check.passed for check in checks(theirs))
    ids = [torch.tensor([row, row[::-1]], device=other.device) for row in ([3, 4, 5, 6], [3, 4, 2])]
    inputs = ids if kind == "encoder-decoder" else ids[:1]
    real = [torch.tensor([[True] * each.shape[1], [True] * 2 + [False] * (each.shape[1] - 2)]) for each in inputs]
    with torch.inference_mode(), record(other.network, maps=True) as trace:
        other.network(*inputs, *(each.to(other.device) for each in real))
    assert all(check.passed for check in checks(trace))
    assert all(check.passed for check in checks(trace.example(1)))


CHANGES: list[list[Intervention]] = [
    [Causal("decoder", False), Window("decoder", 2), PaddingSeen("decoder")],
    [Cells("decoder", False, 1, None), Cells("decoder", True, 0, 2, 0, None)],
    [Cells("decoder", False, None, 0, 1, 1)],
]


@pytest.mark.parametrize("changes", CHANGES)
def test_every_change_to_masks(pretended, changes):
    model = model_of("decoder-only", n_key_value_heads=1, position="alibi")
    found = []
    for each in (model, elsewhere(model)):
        with intervening(each.network, changes):
            trace = trace_of(each)
        found.append({name: trace[name] for name in trace.names()} | {"checks": [c.cells for c in checks(trace)]})
    alike(found[1], found[0])


@pytest.mark.parametrize("position", ["rotary", "alibi", "none"])
def test_every_other_position(pretended, position):
    model = model_of("encoder-decoder", position="sinusoidal")
    found = [
        trace_of(vary(each, position=position, position_base=500.0, max_length=40))["output.logits"]
        for each in (model, elsewhere(model))
    ]
    alike(found[1], found[0])


def naive(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """A kernel that is at its worst: where nothing may be seen, its output and its gradients are NaN."""
    key, value = (for_each_head(each, query.shape[1]) for each in (key, value))
    scores = query @ key.mT * scale
    if attn_mask is None:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
    boolean = attn_mask.dtype == torch.bool
    scores = torch.where(attn_mask, scores, -torch.inf) if boolean else scores + attn_mask
    return scores.softmax(dim=-1) @ value


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("position", ["alibi", "rotary"])
def test_a_query_that_sees_nothing_gets_zeros_from_whatever_kernel(monkeypatch, position, dtype):
    """With a window and padding, and a mask of no key at all."""
    monkeypatch.setattr(F, "scaled_dot_product_attention", naive)
    attention = MultiHeadAttention(config(position=position, n_key_value_heads=1), causal=True).to(NAME, dtype)
    x = torch.randn(2, 6, 16).to(NAME, dtype).requires_grad_()
    real = torch.tensor([[True] * 6, [True] * 2 + [False] * 4])
    mask = Mask(keys=real.to(NAME), causal=True, window=2)
    attention(x, x, mask)[real.to(NAME)].sum().backward()
    gradients = [x.grad, *(each.grad for each in attention.parameters())]
    assert all(bool(each.isfinite().all()) for each in gradients)
    query, (key, value) = attention.query(x), attention.keys_and_values(x)
    blind = fused(attention, query, key, value, mask)[1, :, 3:]
    assert blind.abs().max() == 0
    assert_close(
        fused(attention, query, key, value, mask), attention.attend(query, key, value, mask), rtol=0.02, atol=0.02
    )
    nothing = fused(attention, query, key, value, Mask(keys=torch.zeros(2, 6, dtype=torch.bool, device=NAME)))
    assert nothing.abs().max() == 0
