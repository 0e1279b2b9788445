"""The checks of a trace: true on a real one, each false when what it states is broken."""

import math

import pytest
import torch
from torch import nn

from model.analysis.checks import Check, checks
from model.capture.interventions import Causal, Cells, PaddingSeen
from model.capture.trace import Trace
from tests.model import examples
from tests.model.examples import network

SOURCE = torch.tensor([[5, 6, 7, 3, 9], [9, 3, 0, 0, 0]])  # 0 is padding
TARGET = torch.tensor([[1, 4, 12, 8], [1, 2, 0, 0]])
PADDED, UNPADDED = (SOURCE, TARGET, SOURCE != 0, TARGET != 0), (SOURCE[:1], TARGET[:1])
NAMES = ["rows", "future", "padding", "hidden", "fused", "norm"]
ATTENTIONS = ["encoder.layers.1.self_attention", "decoder.layers.0.self_attention", "decoder.layers.1.cross_attention"]


def traced(model, *changes, maps=False, ids=PADDED) -> Trace:
    return examples.traced(model, *changes, maps=maps, ids=ids)


def failed(trace: Trace) -> list[str]:
    return [check.name for check in checks(trace) if not check.passed]


def error_of(trace: Trace, name: str) -> float:
    return next(check.error for check in checks(trace) if check.name == name)


class Broken(nn.Module):
    """A softmax that was tampered with: `change` gets its output, which it may write into."""

    def __init__(self, weights: nn.Module, change) -> None:
        super().__init__()
        self.inner, self.change = weights, change

    def forward(self, masked, visible):
        weights = self.inner(masked, visible).clone()
        self.change(weights)
        return weights


def break_weights(trace: Trace, path: str, change) -> None:
    attention = trace.network.get_submodule(path)
    attention.weights = Broken(attention.weights, change)


def break_tensor(trace: Trace, name: str, place: tuple[int, ...], by: float) -> None:
    trace._tensors[name] = trace._tensors[name].clone()
    trace._tensors[name][place] += by


@pytest.mark.parametrize("maps", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("placement", ["post", "pre"])
def test_they_pass_on_a_real_trace(placement, dtype, maps):
    batch = traced(network(norm_placement=placement).to(dtype), maps=maps)
    for trace in (batch, batch.example(1), traced(network().to(dtype), maps=maps, ids=UNPADDED)):
        made = checks(trace)
        assert [check.name for check in made] == NAMES
        assert not failed(trace), made
        assert error_of(trace, "future") == error_of(trace, "padding") == 0
        of = {check.name: (check.modules, check.all_modules) for check in made}
        norms = len(trace.norm_paths())
        assert (of["rows"], of["fused"], of["norm"]) == ((6, 6), (6, 6), (norms, norms))


LEAKS = [
    (Causal("decoder", False), "future", "decoder.layers.{}.self_attention.weights", None),
    (Cells("decoder", True, 0, 1, layer=1, head=0), "future", "decoder.layers.1.self_attention.weights", (0, 0, 1)),
    (Cells("decoder", True, 3, 2, layer=0), "padding", "decoder.layers.0.self_attention.weights", (None, 3, 2)),
    (PaddingSeen("encoder"), "padding", "encoder.layers.{}.self_attention.weights", None),
]


@pytest.mark.parametrize(("change", "name", "tensor", "cell"), LEAKS)
def test_what_an_intervention_shows_fails_and_says_where_and_by_how_much(change, name, tensor, cell):
    trace = traced(network(), change).example(1)
    (check,) = [check for check in checks(trace) if not check.passed]
    assert check.name == name
    assert check.tensor in [tensor.format(layer) for layer in range(2)]
    weights = trace[check.tensor]
    if cell is None:
        later, padding = torch.ones_like(weights).triu(1) > 0, torch.arange(weights.shape[-1]).expand_as(weights) > 1
        expected = weights[later if name == "future" else padding]
    else:
        expected = weights[slice(None) if cell[0] is None else cell[0], *cell[1:]]
    assert check.error == float(expected.max()) > 0


def test_a_cell_that_was_hidden_from_outside_is_compared_too():
    made = {check.name: check for check in checks(traced(network(), Cells("cross", False, 2, 1), ids=UNPADDED))}
    assert (made["hidden"].cells, made["padding"].cells) == (2 * 2, 0)
    assert all(check.passed for check in made.values())


def test_a_query_that_may_look_nowhere_adds_up_to_nothing():
    made = {check.name: check for check in checks(traced(network(), Cells("decoder", False, 0, 0), ids=UNPADDED))}
    assert (made["rows"].error, made["rows"].passed) == (1.0, False)
    assert made["rows"].tensor == "decoder.layers.0.self_attention.weights"


def test_a_window_hides_no_padding():
    made = {check.name: check for check in checks(traced(network(window=2), ids=UNPADDED))}
    assert made["padding"].cells == 0
    assert made["hidden"].cells == 2 * 2 * (4 * 3 + 3)  # beyond the neighbours: of five sources, of four targets before
    assert all(check.passed for check in made.values())


def test_every_layer_head_and_kind_is_compared():
    trace = traced(network()).example(1)  # two real source tokens of five, two real target tokens of four
    layers, heads, n, m = 2, 2, 5, 4
    hidden_in_decoder = 2 + 1  # padding at positions 2 and 3, from the queries that do not come before it
    cells = {
        "rows": layers * heads * (n + m + m),
        "future": layers * heads * (m * (m - 1) // 2),
        "padding": layers * heads * (n * 3 + hidden_in_decoder + m * 3),
        "hidden": 0,
        "fused": layers * (n + m + m) * 16,
        "norm": (4 * n + 6 * m) * 16,
    }
    assert {check.name: check.cells for check in checks(trace)} == cells
    unpadded = {check.name: check.cells for check in checks(traced(network(), ids=UNPADDED))}
    assert unpadded == cells | {"padding": 0}


def lose(weights):
    weights *= 1.001


def look_ahead(weights):
    """Rows still add up."""
    weights[0, 1, 2] += 1e-7
    weights[0, 1, 0] -= 1e-7


def look_at_padding(weights):
    weights[1, 3, 2 if weights.shape[-1] == 4 else 4] += 1e-7  # hidden, and not in the future


def spoil(weights):
    """Whatever comes after it."""
    weights[0, 0, 0] = math.nan


@pytest.mark.parametrize(
    ("path", "change", "names", "by"),
    [
        *((path, lose, ["rows", "fused"], 0.001) for path in ATTENTIONS),
        (ATTENTIONS[1], look_ahead, ["future"], 1e-7),
        *((path, look_at_padding, ["padding"], 1e-7) for path in ATTENTIONS),
        *((path, spoil, ["rows", "fused"], math.nan) for path in ATTENTIONS),
    ],
)
def test_weights_that_are_wrong_fail(path, change, names, by):
    trace = traced(network())
    trace = trace.example(1) if change is look_at_padding else trace
    break_weights(trace, path, change)
    assert set(names) <= set(failed(trace))
    assert change is spoil or failed(trace) == names
    assert error_of(trace, names[0]) == pytest.approx(by, rel=0.01, nan_ok=True)


@pytest.mark.parametrize("maps", [False, True])
def test_heads_that_are_not_weights_times_values_fail(maps):
    trace = traced(network(), maps=maps)
    break_tensor(trace, "decoder.layers.1.cross_attention.heads", (0, 1, 3, 5), 0.001)
    assert failed(trace) == ["fused"]
    assert error_of(trace, "fused") == pytest.approx(0.001, rel=0.02)


def test_a_scale_that_the_kernel_did_not_use_fails():
    trace = traced(network())
    trace.network.decoder.layers[0].cross_attention.scaled.factor = 0.9
    assert failed(trace) == ["fused"]


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_a_norm_that_is_not_the_formula_fails(placement):
    path = "decoder.layers.1.feed_forward_block.norm"
    trace = traced(network(norm_placement=placement))
    break_tensor(trace, f"{path}.output", (0, 2, 7), 0.01)
    assert failed(trace) == ["norm"]
    assert error_of(trace, "norm") == pytest.approx(0.01, rel=0.02)
    trace = traced(network(norm_placement=placement))
    trace.network.get_submodule(path).eps = 0.1
    assert failed(trace) == ["norm"]


# Faults beside what is very large or not finite, in every precision; and where no kernel ran.

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
HEADS, NORM = "decoder.layers.1.cross_attention.heads", "decoder.layers.1.feed_forward_block.norm"


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_wrong_entry_of_a_head_fails_beside_a_very_large_head(dtype):
    """Each head is judged by its own size: the second one's values are 10,000 times as large, and right."""
    model = network().to(dtype)
    with torch.no_grad():
        model.decoder.layers[1].cross_attention.value.weight[8:] *= 1e4  # of the second head
    trace = traced(model)
    assert not failed(trace)
    assert float(trace[HEADS][1].abs().max()) > 1e4
    assert float(trace[HEADS][0].abs().max()) < 10
    break_tensor(trace, HEADS, (0, 0, 3, 5), 0.01 if dtype in DTYPES[:2] else 0.3)
    assert failed(trace) == ["fused"]


def with_large_scores(dtype: torch.dtype, times: float) -> Trace:
    """A pass with maps, the queries of the last cross-attention enlarged."""
    model = network().to(dtype)
    with torch.no_grad():
        for parameter in model.decoder.layers[1].cross_attention.query.parameters():
            parameter *= times
    return traced(model, maps=True, ids=UNPADDED)


def test_heads_that_are_far_too_small_fail_wherever_the_scores_themselves_are_small_enough():
    """‖q‖ ‖k‖ / √d_k would excuse any weights, and the scores do not."""
    trace = with_large_scores(torch.bfloat16, 6.0)
    query, key = (trace[f"{ATTENTIONS[2]}.{part}"].double() for part in ("query", "key"))
    norms = query.norm(dim=-1) * key.norm(dim=-1).amax(dim=-1, keepdim=True)
    assert norms.amin() / 8**0.5 > 43  # from where six half epsilons are more than 1
    assert (query @ key.mT)[0].abs().amax() / 8**0.5 < 30
    assert not failed(trace)
    trace._tensors[HEADS] = trace._tensors[HEADS] / 8
    assert failed(trace) == ["fused"]


@pytest.mark.parametrize("dtype", DTYPES[2:])
def test_queries_of_which_rounding_explains_any_weights_are_not_compared(dtype):
    trace = with_large_scores(dtype, 3e3)
    fused = {check.name: check for check in checks(trace)}["fused"]
    assert (fused.modules, fused.all_modules, fused.passed) == (5, 6, True)
    assert fused.cells == (2 * 5 + 3 * 4) * 16
    break_tensor(trace, HEADS, (0, 0, 3, 5), math.inf)
    assert failed(trace) == ["fused"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_wrong_entry_of_a_norm_fails_beside_a_very_large_position(dtype):
    trace = traced(network().to(dtype))
    with torch.no_grad():
        norm = trace.network.get_submodule(NORM)
        trace._norm_inputs[NORM] = trace._norm_inputs[NORM].clone()
        trace._norm_inputs[NORM][:, 0, 3] = 3e4  # where other features are far smaller
        trace._tensors[f"{NORM}.output"] = norm(trace._norm_inputs[NORM])
    assert not failed(trace)
    break_tensor(trace, f"{NORM}.output", (0, 2, 7), 0.01 if dtype in DTYPES[:2] else 0.2)
    assert failed(trace) == ["norm"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [HEADS, f"{NORM}.output"])
def test_what_is_not_finite_is_no_measure_of_others(name, dtype):
    """One infinite number must not excuse all others, nor itself."""
    trace = traced(network().to(dtype))
    break_tensor(trace, name, (0, 0, 0, 0) if name == HEADS else (0, 0, 0), math.inf)
    assert failed(trace) == ["fused" if name == HEADS else "norm"]


@pytest.mark.parametrize("kind", ["layer", "rms"])
@pytest.mark.parametrize(("scale", "dtypes"), [(1.0, DTYPES[:2]), (4.0, DTYPES[:2]), (1e-3, DTYPES)])
def test_epsilon_beside_the_deviation_is_not_epsilon_beside_the_variance(kind, scale, dtypes):
    """In half precision the two differ by less than a digit, unless the deviation is small."""
    for dtype in dtypes:
        trace = traced(network(norm=kind).to(dtype))
        norm, x = trace.network.get_submodule(NORM), trace._norm_inputs[NORM]
        x = (x.double() / x.double().std(dim=-1, keepdim=True) * scale).to(dtype)
        trace._norm_inputs[NORM] = x
        trace._tensors[f"{NORM}.output"] = norm(x).detach()
        assert not failed(trace)
        exactly = x.double() - (x.double().mean(dim=-1, keepdim=True) if kind == "layer" else 0)
        other = exactly / (exactly.square().mean(dim=-1, keepdim=True).sqrt() + norm.eps) * norm.weight.double()
        trace._tensors[f"{NORM}.output"] = (other + (0 if norm.bias is None else norm.bias.double())).to(dtype).detach()
        assert failed(trace) == ["norm"]


def test_only_what_a_kernel_computed_is_compared():
    """Relative biases are added step by step, which leaves cross-attention; in training, heads are plain products."""
    model = network(position="relative")
    called = {check.name: check for check in checks(traced(model))}["fused"]
    assert (called.modules, called.all_modules, called.cells) == (2, 6, 2 * 4 * 16)
    training = {check.name: check for check in checks(traced(network().train()))}["fused"]
    assert (training.modules, training.cells, training.possible) == (0, 0, False)
    explicit = {check.name: check for check in checks(traced(model, maps=True))}["fused"]
    assert explicit.modules == 6
    assert explicit.passed


def test_only_what_torch_computes_by_a_fused_kernel_is_called_fused(monkeypatch):
    """Where torch itself goes step by step there is no second way."""
    monkeypatch.setattr(torch, "_fused_sdp_choice", lambda *arguments, **named: 0)
    for maps in (False, True):
        fused = {check.name: check for check in checks(traced(network(), maps=maps))}["fused"]
        assert (fused.cells, fused.possible) == (0, False)


def test_a_cell_that_one_head_alone_may_see_is_compared_head_by_head():
    trace = traced(network(), Cells("decoder", False, 2, 1, layer=0, head=1), maps=True)
    assert not failed(trace)


def test_a_network_that_computes_nan_fails_every_check_it_reaches():
    model = network()
    with torch.no_grad():
        model.decoder.embedding.tokens.weight[4] = math.nan
    assert {"rows", "fused", "norm"} <= set(failed(traced(model)))


@pytest.mark.parametrize(("error", "passed"), [(0.0, True), (1e-5, True), (1.1e-5, False), (math.nan, False)])
def test_passed_is_within_the_tolerance(error, passed):
    assert Check("rows", error, 1e-5, 3).passed is passed
