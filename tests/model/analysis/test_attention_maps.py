"""Maps head by head against the model's own, what values make of them, and average, maximum and rollout of heads."""

import threading
from itertools import product

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from model.analysis import attention_maps as module
from model.analysis.attention_maps import Maps, Quantity, average, maximum, rollout
from model.runtime import cancellation, memory
from tests.model.examples import network, one_stack, traced

MODELS = {
    "plain": network,
    "alibi": lambda: network(position="alibi"),
    "shared keys": lambda: network(position="rotary", n_key_value_heads=1),
    "unscaled": lambda: network(scale_attention=False),
}
HEADS = [(0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        *product(MODELS.values(), ("encoder", "decoder", "cross")),
        (lambda: one_stack("decoder-only", position="alibi"), "decoder"),
    ],
)
def test_head_by_head_is_what_the_model_computes(monkeypatch, make, kind):
    """As if every map were too large to keep, and two too large to be in memory together."""
    monkeypatch.setattr(module, "LARGEST_MAP", 0)
    monkeypatch.setattr(module, "AT_ONCE", 1)
    trace = traced(make())
    maps = Maps(trace, kind)
    assert (maps.layers, maps.heads) == (2, 2)
    groups = list(maps.groups())
    assert [(layer, heads.start) for layer, heads in groups] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    weights = torch.cat([maps.weights(layer, heads) for layer, heads in groups]).view(2, 2, maps.queries, maps.keys)
    assert_close(weights, trace.attention(kind))
    assert list(maps.row(1, 1, 2)) == trace.maps_of(maps.paths[1])
    for name, row in maps.row(1, 1, 2).items():
        assert_close(row, trace[f"{maps.paths[1]}.{name}"][1, 2])


LONG_TEXT = torch.randint(5, 11, (1, 24), generator=torch.Generator().manual_seed(0))
PADDED = torch.cat([LONG_TEXT[:, :15], torch.zeros(1, 9, dtype=torch.long)], dim=1)
WHOLE = {
    "causal": (lambda: one_stack("decoder-only"), (LONG_TEXT,), "decoder"),
    "rotary, in a window": (lambda: one_stack("decoder-only", position="rotary", window=5), (LONG_TEXT,), "decoder"),
    "ALiBi": (lambda: one_stack("decoder-only", position="alibi"), (LONG_TEXT,), "decoder"),
    "padded": (network, (PADDED, LONG_TEXT, PADDED != 0), "encoder"),
    "to padded keys": (network, (PADDED, LONG_TEXT, PADDED != 0), "cross"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_head_on_demand_is_its_map_of_the_whole_pass_in_float64(monkeypatch, name):
    """Of a long text no pass keeps its maps: each is computed of what the fused pass recorded, when it is looked at."""
    make, ids, kind = WHOLE[name]
    model = make().double()
    whole = traced(model, ids=ids, maps=True)
    monkeypatch.setattr(module, "LARGEST_MAP", 0)
    maps = Maps(traced(model, ids=ids), kind)
    assert not maps.recorded
    assert not whole[f"{maps.paths[0]}.visible"].all()
    for layer, head in product(range(maps.layers), range(maps.heads)):
        found = maps.computed(layer, slice(head, head + 1))[0]
        assert found.dtype == torch.float64
        assert_close(found, whole[f"{maps.paths[layer]}.weights"][head], rtol=0, atol=1e-12)
        assert_close(found.sum(dim=-1), torch.ones(maps.queries, dtype=torch.float64), rtol=0, atol=1e-12)
        assert bool((found[~whole[f"{maps.paths[layer]}.visible"]] == 0).all())


def test_one_head_that_does_not_fit_is_refused_with_the_numbers(monkeypatch):
    maps = Maps(traced(one_stack("decoder-only"), ids=(LONG_TEXT,)), "decoder")
    maps.require_room()
    monkeypatch.setattr(memory, "available", lambda device: maps.memory - 1)
    with pytest.raises(ValueError, match=r"24 × 24 tokens takes 0\.0 GB .* are free: choose a shorter text"):
        maps.require_room()


def test_what_nobody_waits_for_ends_at_the_next_head():
    maps, stale = Maps(traced(network()), "encoder"), threading.Event()
    with cancellation.watch(stale):
        groups = maps.groups()
        next(groups)
        stale.set()
        with pytest.raises(cancellation.SupersededError):
            next(groups)


def test_small_maps_are_those_that_the_trace_keeps():
    trace = traced(network())
    maps = Maps(trace, "cross")
    assert list(maps.groups()) == [(0, slice(0, 2)), (1, slice(0, 2))]
    assert maps.computed(1, slice(0, 2)).data_ptr() == trace["decoder.layers.1.cross_attention.weights"].data_ptr()


@pytest.mark.parametrize("name", ["plain", "shared keys"])
def test_value_weighted_maps_are_norms_of_what_each_key_adds(name):
    """‖w·v‖ and ‖w·v·Wᴼ‖, a vector at a time in float64; together the vectors are the attention's output."""
    trace = traced(MODELS[name]())
    path = "decoder.layers.1.cross_attention"
    weights, values = trace[f"{path}.weights"].double(), trace.values(path).double()
    output = trace.module(path).output
    plain, projected = (
        Maps(trace, "cross", quantity).of(1, slice(0, 2)) for quantity in (Quantity.VALUE, Quantity.OUTPUT)
    )
    summed = output.bias.detach().double().repeat(3, 1)
    for head, query, key in np.ndindex(2, 3, 5):
        added = weights[head, query, key] * values[head, key]
        assert float(plain[head, query, key]) == pytest.approx(float(added.norm()), rel=1e-5)
        written = output.weight[:, head * 8 : (head + 1) * 8].detach().double() @ added
        assert float(projected[head, query, key]) == pytest.approx(float(written.norm()), rel=1e-5)
        summed[query] += written
    assert_close(summed, trace[f"{path}.output"].double(), atol=1e-5, rtol=1e-5)


def by_hand(layers: list[np.ndarray]) -> np.ndarray:
    """Abnar and Zuidema (2020), section 4: mix with the identity, rows to 1, multiply, the last layer leftmost."""
    joined = np.eye(len(layers[0]))
    for weights in layers:
        mixed = 0.5 * weights + 0.5 * np.eye(len(weights))
        joined = (mixed / mixed.sum(axis=1, keepdims=True)) @ joined
    return joined


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_rollout_is_the_product_in_float64(kind):
    trace = traced(network())
    weights = trace.attention(kind).double().numpy()
    mixed = rollout(Maps(trace, kind), HEADS)
    assert np.allclose(mixed, by_hand([weights[0, 1], (weights[1, 0] + weights[1, 1]) / 2]), atol=1e-6)
    assert not np.allclose(mixed, by_hand([weights[0].mean(axis=0), weights[1].mean(axis=0)]), atol=1e-3)


def test_rollout_of_two_tokens_computed_on_paper():
    """W₁ = [[1, 0], [½, ½]], W₂ = [[1, 0], [1, 0]]: Ã₂ Ã₁ = [[1, 0], [½, ½]] · [[1, 0], [¼, ¾]] = [[1, 0], [⅝, ⅜]]."""

    class Two(Maps):
        def __init__(self):
            self.kind, self.queries, self.paths, self.trace = "decoder", 2, ["a", "b"], {"a.query": torch.zeros(1)}

        def of(self, layer, heads):
            return torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [1.0, 0.0]]])[layer][None]

    assert rollout(Two(), [(0, 0), (1, 0)]).tolist() == [[1, 0], [0.625, 0.375]]
    assert rollout(Two(), [(1, 0)]).tolist() == [[1, 0], [0.5, 0.5]]
    assert rollout(Two(), [(0, 0), (1, 0)], residual=False).tolist() == [[1, 0], [1, 0]]


@pytest.mark.parametrize("quantity", list(Quantity))
def test_average_and_maximum_are_those_of_the_chosen_heads(quantity):
    maps = Maps(traced(network()), "cross", quantity)
    chosen = np.stack([maps.of(layer, slice(head, head + 1))[0].double().numpy() for layer, head in HEADS])
    assert np.allclose(average(maps, HEADS), chosen.mean(axis=0), atol=1e-6)
    assert np.allclose(maximum(maps, HEADS), chosen.max(axis=0), atol=1e-6)


def test_cross_attention_has_no_rollout_and_no_heads_no_maximum():
    maps = Maps(traced(network()), "cross")
    with pytest.raises(ValueError, match="two texts"):
        rollout(maps, HEADS)
    with pytest.raises(ValueError, match="at least one"):
        maximum(maps, [])
