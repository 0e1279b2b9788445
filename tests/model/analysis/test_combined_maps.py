"""Average, maximum and rollout against the same in float64, and against what must hold of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from model.analysis.attention_maps import Maps, Quantity, average, maximum, rollout
from model.capture.trace import record
from tests.model.analysis.test_attention_maps import traced
from tests.model.examples import one_stack

HEADS = [(0, 1), (1, 0), (1, 1)]


def by_hand(layers: list[np.ndarray]) -> np.ndarray:
    """Abnar and Zuidema (2020), section 4: mix with the identity, rows to 1, multiply, the last layer leftmost."""
    joined = np.eye(len(layers[0]))
    for weights in layers:
        mixed = 0.5 * weights + 0.5 * np.eye(len(weights))
        joined = (mixed / mixed.sum(axis=1, keepdims=True)) @ joined
    return joined


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_rollout_is_the_product_in_float64(kind):
    trace = traced()
    weights = trace.attention(kind).double().numpy()
    found = rollout(Maps(trace, kind), HEADS)
    assert np.allclose(found, by_hand([weights[0, 1], (weights[1, 0] + weights[1, 1]) / 2]), atol=1e-6)
    assert np.allclose(found.sum(dim=-1), 1, atol=1e-6)
    assert not np.allclose(found, by_hand([weights[0].mean(axis=0), weights[1].mean(axis=0)]), atol=1e-3)
    if kind == "decoder":
        assert float(found.triu(1).abs().max()) == 0  # nothing comes from the future


def test_rollout_of_two_tokens_computed_on_paper():
    """W₁ = [[1, 0], [½, ½]], W₂ = [[1, 0], [1, 0]]: Ã₂ Ã₁ = [[1, 0], [½, ½]] · [[1, 0], [¼, ¾]] = [[1, 0], [⅝, ⅜]]."""

    class Two(Maps):
        def __init__(self):
            self.kind, self.queries, self.paths, self.trace = "decoder", 2, ["a"], {"a.query": torch.zeros(1)}

        def of(self, layer, heads):
            return torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [1.0, 0.0]]])[layer][None]

    assert rollout(Two(), [(0, 0), (1, 0)]).tolist() == [[1, 0], [0.625, 0.375]]
    assert rollout(Two(), [(1, 0)]).tolist() == [[1, 0], [0.5, 0.5]]
    assert rollout(Two(), [(0, 0), (1, 0)], residual=False).tolist() == [[1, 0], [1, 0]]


def test_cross_attention_has_no_rollout():
    with pytest.raises(ValueError, match="two texts"):
        rollout(Maps(traced(), "cross"), HEADS)


@pytest.mark.parametrize("quantity", list(Quantity))
def test_average_and_maximum_are_those_of_the_chosen_heads(quantity):
    maps = Maps(traced(), "cross", quantity)
    chosen = np.stack([maps.of(layer, slice(head, head + 1))[0].double().numpy() for layer, head in HEADS])
    assert np.allclose(average(maps, HEADS), chosen.mean(axis=0), atol=1e-6)
    assert np.allclose(maximum(maps, HEADS), chosen.max(axis=0), atol=1e-6)


def test_no_heads_are_a_sentence():
    with pytest.raises(ValueError, match="at least one"):
        maximum(Maps(traced(), "cross"), [])


def test_one_layer_of_one_head_alone_is_that_head():
    model = one_stack("encoder-only")
    with torch.inference_mode(), record(model) as trace:
        model(torch.tensor([[5, 6, 7, 3]]))
    assert torch.equal(average(Maps(trace, "encoder"), [(1, 0)]), trace.attention("encoder")[1, 0])
