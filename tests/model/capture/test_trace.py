"""What a trace holds: every quantity by its name, equal to an independent computation.

What it must not hold is in test_trace_isolation.py.
"""

import gc
import math
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from model.capture.trace import Trace, record
from model.network.attention import MAPS
from tests.model import examples
from tests.model.examples import network

SOURCE = torch.tensor([[5, 6, 7, 3, 3, 9, 1, 2, 10]])  # no length equals a width of the network
TARGET = torch.tensor([[1, 4, 12, 4, 8, 6, 7]])
PARTS = "query key value visible scores scaled masked weights heads output".split()
STATISTICS = "input mean std output".split()
PLAIN = [part for part in MAPS if part not in ("capped", "biased")]  # of a model that adds nothing to its scores
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-12}


def traced(model, **options) -> Trace:
    return examples.traced(model, **({"ids": (SOURCE, TARGET)} | options))


def sublayer(path: str, kind: str, placement: str) -> list[str]:
    """The names of one sublayer with its norm and residual, in order of computation."""
    parts = PARTS if kind.endswith("attention") else ["hidden", "activation", "output"]
    own = [f"{path}.{kind}.{part}" for part in parts]
    norm = [f"{path}.{kind}_block.norm.{part}" for part in STATISTICS]
    residual = [f"{path}.{kind}_block.residual"]
    return own + residual + norm if placement == "post" else norm + own + residual


def expected_names(placement: str) -> list[str]:
    """Every name that a two-layer encoder-decoder leaves, written out from the paper's figure 1."""
    kinds = {
        "encoder": ["self_attention", "feed_forward"],
        "decoder": ["self_attention", "cross_attention", "feed_forward"],
    }
    names = []
    for stack, sublayers in kinds.items():
        names += [f"{stack}.embedding.{part}" for part in ("tokens", "positions", "output")]
        for layer in range(2):
            for kind in sublayers:
                names += sublayer(f"{stack}.layers.{layer}", kind, placement)
        names += [f"{stack}.norm.{part}" for part in STATISTICS] if placement == "pre" else []
    return [*names, "output.logits"]


@pytest.mark.parametrize("maps", [False, True])
@pytest.mark.parametrize("options", [{}, {"norm_placement": "pre"}, {"position": "learned"}, {"bias": False}])
def test_names_are_complete_and_in_order_of_computation(options, maps):
    trace = traced(network(**options), maps=maps)
    assert trace.names() == expected_names(options.get("norm_placement", "post"))
    assert all(name in trace for name in trace.names())
    assert "encoder.layers.0.cross_attention.query" not in trace


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("placement", ["post", "pre"])
def test_maps_on_demand_are_those_of_the_explicit_path(placement, dtype):
    model = network(norm_placement=placement).to(dtype)
    demanded, recorded = traced(model), traced(model, maps=True)
    names = recorded.names()
    assert sum(name.endswith(MAPS) for name in names) == 6 * len(PLAIN)
    for name in names:
        assert_close(demanded[name], recorded[name], rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
    for kind in PATHS:
        assert_close(demanded.attention(kind), recorded.attention(kind), rtol=0, atol=TOLERANCES[dtype])


def test_without_maps_nothing_of_the_size_of_a_map_is_kept():
    squares = {(9, 9), (7, 7), (7, 9)}
    source_real = torch.tensor([[True] * 8 + [False]])
    trace, full = traced(network(), ids=(SOURCE, TARGET, source_real)), traced(network(), maps=True)
    assert squares.isdisjoint(tuple(tensor.shape[-2:]) for tensor in trace._tensors.values())
    assert squares <= {tuple(tensor.shape[-2:]) for tensor in full._tensors.values()}
    assert not trace._maps
    masks = [mask.keys for mask in trace._masks.values() if mask.keys is not None]
    assert {tuple(keys.shape) for keys in masks} == {(1, 9)}


def test_a_map_is_kept_once_asked_for_unless_it_is_large(monkeypatch):
    name = "decoder.layers.0.cross_attention.weights"
    trace = traced(network())
    assert trace[name] is trace[name]
    monkeypatch.setattr("model.capture.trace.LARGEST_MAP", 2 * 7 * 9 - 1)
    trace = traced(network())
    assert trace[name] is not trace[name]
    assert_close(trace[name], trace[name], rtol=0, atol=0)


PATHS = {
    "encoder": "encoder.layers.{}.self_attention",
    "decoder": "decoder.layers.{}.self_attention",
    "cross": "decoder.layers.{}.cross_attention",
}


@pytest.mark.parametrize(("kind", "path"), PATHS.items())
def test_weights_are_the_softmax_of_scaled_products(kind, path):
    model = network().double().requires_grad_(False)
    trace = traced(model)
    for layer in range(2):
        here = path.format(layer)
        query, key, value = (trace[f"{here}.{part}"] for part in ("query", "key", "value"))
        scores = torch.einsum("hqc,hkc->hqk", query, key)
        assert_close(trace[f"{here}.scores"], scores)
        assert_close(trace[f"{here}.scaled"], scores / math.sqrt(8))
        visible = torch.ones(scores.shape[1:]).bool()
        visible = visible.tril() if kind == "decoder" else visible
        assert torch.equal(trace[f"{here}.visible"], visible)
        masked = torch.where(visible, scores / math.sqrt(8), torch.tensor(-math.inf, dtype=torch.float64))
        assert torch.equal(trace[f"{here}.masked"].isneginf(), masked.isneginf())
        weights = F.softmax(masked, dim=-1)
        assert_close(trace[f"{here}.weights"], weights, rtol=0, atol=1e-12)
        assert_close(trace.attention(kind)[layer], weights, rtol=0, atol=1e-12)
        assert_close(trace[f"{here}.heads"], weights @ value, rtol=0, atol=1e-12)
        side_by_side = torch.cat(list(trace[f"{here}.heads"]), dim=-1)
        assert_close(trace[f"{here}.output"], model.get_submodule(here).output(side_by_side))


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_norms_residuals_and_units_follow_from_one_another(placement):
    model = network(norm_placement=placement).double().requires_grad_(False)
    trace = traced(model)
    assert len(trace.norm_paths()) == (10 if placement == "post" else 12)
    for path in trace.norm_paths():
        norm, x = model.get_submodule(path), trace[f"{path}.input"]
        assert_close(trace[f"{path}.output"], F.layer_norm(x, (16,), norm.weight, norm.bias, norm.eps))
        assert_close(trace[f"{path}.mean"], x.sum(dim=-1) / 16)
        assert_close(trace[f"{path}.std"], x.var(dim=-1, unbiased=False).sqrt())
    path = "decoder.layers.1"
    before = trace["decoder.layers.1.cross_attention_block." + ("norm.output" if placement == "post" else "residual")]
    written = trace[f"{path}.feed_forward.output"]
    assert_close(trace[f"{path}.feed_forward_block.residual"], before + written, rtol=0, atol=0)
    hidden = trace[f"{path}.feed_forward.hidden"]
    assert_close(trace[f"{path}.feed_forward.activation"], hidden.clamp(min=0), rtol=0, atol=0)
    assert hidden.min() < 0
    tokens, positions = trace["decoder.embedding.tokens"], trace["decoder.embedding.positions"]
    assert_close(tokens, model.decoder.embedding.tokens.weight[TARGET[0]] * 4)
    assert_close(trace["decoder.embedding.output"], tokens + positions, rtol=0, atol=0)


@pytest.mark.parametrize("maps", [False, True])
def test_logits_are_those_of_an_ordinary_forward(maps):
    model = network()
    plain = model(SOURCE, TARGET)[0]
    assert_close(traced(model, maps=maps)["output.logits"], plain, rtol=0, atol=1e-5 if maps else 0)
    assert_close(model(SOURCE, TARGET)[0], plain, rtol=0, atol=0)


def test_an_unknown_name_is_a_key_error_that_says_where_to_look():
    trace = traced(network())
    for name in ("weights", "", "encoder.layers.9.self_attention.weights", "encoder.norm.mean", "output.logits.mean"):
        with pytest.raises(KeyError, match=r"is not a quantity of this trace; names\(\) lists them"):
            trace[name]
        assert name not in trace


def test_a_quantity_has_the_tokens_that_its_stack_reads():
    trace, stacks = traced(network()), ("encoder.embedding.output", "decoder.embedding.output")
    trace.source_tokens, trace.target_tokens = list("abcdefghi"), list("1234567")
    assert [trace.tokens_of(name) for name in stacks] == [trace.source_tokens, trace.target_tokens]
    trace.target_tokens = []  # of one stack
    assert [trace.tokens_of(name) for name in stacks] == [trace.source_tokens] * 2


def test_traces_of_one_model_look_its_parts_up_once_and_let_it_go(monkeypatch):
    model, asked = network(), []
    find = type(model).get_submodule
    monkeypatch.setattr(type(model), "get_submodule", lambda self, path: asked.append(path) or find(self, path))
    for _ in range(2):
        with record(model) as trace:
            model(torch.tensor([[3, 4]]), torch.tensor([[1, 5]]))
        assert trace.attention("encoder").shape[-2:] == (2, 2)
    assert sorted(asked) == sorted(set(asked))
    gone = weakref.ref(model)
    del model, trace
    gc.collect()
    assert gone() is None
