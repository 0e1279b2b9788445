"""Maps computed head by head against the model's own, and what values make of them against sums of vectors."""

from __future__ import annotations

import pytest
import torch

from model.analysis import attention_maps as module
from model.analysis.attention_maps import Maps, Quantity
from model.capture.trace import Trace, record
from tests.model.examples import network, one_stack

OPTIONS = [{}, {"position": "alibi"}, {"position": "rotary", "n_key_value_heads": 1}, {"scale_attention": False}]


def traced(**options) -> Trace:
    model = network(**options)
    with torch.inference_mode(), record(model) as trace:
        model(torch.tensor([[5, 6, 7, 3, 9]]), torch.tensor([[1, 4, 12]]))
    return trace


@pytest.fixture
def head_by_head(monkeypatch):
    """As if every map were too large to keep, and two too large to be in memory together."""
    monkeypatch.setattr(module, "KEPT_MAP", 0)
    monkeypatch.setattr(module, "AT_ONCE", 1)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("options", OPTIONS)
def test_head_by_head_is_what_the_model_computes(head_by_head, options, kind):
    trace = traced(**options)
    maps = Maps(trace, kind)
    assert (maps.layers, maps.heads) == (2, 2)
    groups = list(maps.groups())
    assert [(layer, heads.start) for layer, heads in groups] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    found = torch.cat([maps.weights(layer, heads) for layer, heads in groups]).view(2, 2, maps.queries, maps.keys)
    torch.testing.assert_close(found, trace.attention(kind))
    for name, row in maps.row(1, 1, 2).items():
        torch.testing.assert_close(row, trace[f"{maps.paths[1]}.{name}"][1, 2])
    assert list(maps.row(1, 1, 2)) == trace.maps_of(maps.paths[1])


def test_small_maps_are_those_that_the_trace_keeps():
    trace = traced()
    maps = Maps(trace, "cross")
    assert list(maps.groups()) == [(0, slice(0, 2)), (1, slice(0, 2))]
    assert maps.computed(1, slice(0, 2)).data_ptr() == trace["decoder.layers.1.cross_attention.weights"].data_ptr()


@pytest.mark.parametrize("options", [{}, {"n_key_value_heads": 1}])
def test_value_weighted_maps_are_norms_of_what_each_key_adds(options):
    """‖w·v‖ and ‖w·v·Wᴼ‖, a vector at a time in float64."""
    trace = traced(**options)
    path = "decoder.layers.1.cross_attention"
    weights, values = trace[f"{path}.weights"].double(), trace.values(path).double()
    output = trace.network.get_submodule(path).output.weight.detach().double()
    plain, projected = (
        Maps(trace, "cross", quantity).of(1, slice(0, 2)) for quantity in (Quantity.VALUE, Quantity.OUTPUT)
    )
    for head in range(2):
        part = output[:, head * 8 : (head + 1) * 8]
        for query in range(3):
            for key in range(5):
                added = weights[head, query, key] * values[head, key]
                assert float(plain[head, query, key]) == pytest.approx(float(added.norm()), rel=1e-5)
                assert float(projected[head, query, key]) == pytest.approx(float((part @ added).norm()), rel=1e-5)


def test_what_all_keys_add_is_the_attentions_output():
    """The parts whose norms are shown sum to the recorded output: they are all of it, but for the bias."""
    trace = traced()
    path = "encoder.layers.0.self_attention"
    attention = trace.network.get_submodule(path)
    parts = attention.output.weight.unflatten(1, (2, 8))
    summed = torch.einsum("hqk,hkc,dhc->qd", trace[f"{path}.weights"], trace.values(path), parts)
    torch.testing.assert_close(summed + attention.output.bias, trace[f"{path}.output"], atol=1e-5, rtol=1e-5)


def test_a_model_of_one_stack_has_maps_too(head_by_head):
    model = one_stack("decoder-only", position="alibi")
    with torch.inference_mode(), record(model) as trace:
        model(torch.tensor([[5, 6, 7, 3]]))
    torch.testing.assert_close(Maps(trace, "decoder").weights(0, slice(1, 2))[0], trace.attention("decoder")[0, 1])
