"""The checks of a trace: true on a real one, each false when what it states is broken."""

import math

import pytest
import torch
from torch import nn

from model.analysis.checks import TOLERANCES, Check, checks
from model.capture.interventions import Causal, Cells, PaddingSeen, intervening
from model.capture.trace import Trace, record
from tests.model.examples import network

SOURCE = torch.tensor([[5, 6, 7, 3, 9], [9, 3, 0, 0, 0]])  # 0 is padding
TARGET = torch.tensor([[1, 4, 12, 8], [1, 2, 0, 0]])
NAMES = ["rows", "future", "padding", "fused", "norm"]
ATTENTIONS = ["encoder.layers.1.self_attention", "decoder.layers.0.self_attention", "decoder.layers.1.cross_attention"]


def traced(model, *changes, maps=False, padded=True) -> Trace:
    with torch.inference_mode(), intervening(model, changes), record(model, maps=maps) as trace:
        if padded:
            model(SOURCE, TARGET, SOURCE != 0, TARGET != 0)
        else:
            model(SOURCE[:1], TARGET[:1])
    return trace


def failed(trace: Trace) -> list[str]:
    return [check.name for check in checks(trace) if not check.passed]


class Broken(nn.Module):
    """A softmax that was tampered with: `change` gets its output and the mask."""

    def __init__(self, weights: nn.Module, change) -> None:
        super().__init__()
        self.inner, self.change = weights, change

    def forward(self, masked, visible):
        return self.change(self.inner(masked, visible).clone(), visible)


def break_weights(trace: Trace, path: str, change) -> None:
    attention = trace.network.get_submodule(path)
    attention.weights = Broken(attention.weights, change)


def largest(trace: Trace, *endings: str) -> float:
    return max(float(trace[name].abs().max()) for name in trace.names() if name.endswith(endings))


@pytest.mark.parametrize("maps", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("placement", ["post", "pre"])
def test_they_pass_on_a_real_trace(placement, dtype, maps):
    batch = traced(network(norm_placement=placement).to(dtype), maps=maps)
    for trace in (batch, batch.example(1), traced(network().to(dtype), maps=maps, padded=False)):
        made = checks(trace)
        assert [check.name for check in made] == NAMES
        assert not failed(trace), made
        errors = {check.name: check.error for check in made}
        assert errors["future"] == errors["padding"] == 0
        sizes = [largest(trace, ".heads"), largest(trace, "norm.output")]
        expected = [TOLERANCES[dtype], 0, 0, *(TOLERANCES[dtype] * max(1, size) for size in sizes)]
        assert [check.tolerance for check in made] == pytest.approx(expected)


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
    made = {check.name: check for check in checks(traced(network(), Cells("cross", False, 2, 1), padded=False))}
    assert made["padding"].cells == 2 * 2
    assert all(check.passed for check in made.values())


def test_every_layer_head_and_kind_is_compared():
    trace = traced(network()).example(1)  # two real source tokens of five, two real target tokens of four
    cells = {check.name: check.cells for check in checks(trace)}
    layers, heads, n, m = 2, 2, 5, 4
    assert cells["rows"] == layers * heads * (n + m + m)
    assert cells["future"] == layers * heads * (m * (m - 1) // 2)
    hidden_in_decoder = 2 + 1  # padding at positions 2 and 3, from the queries that do not come before it
    assert cells["padding"] == layers * heads * (n * 3 + hidden_in_decoder + m * 3)
    assert cells["fused"] == layers * (n + m + m) * 16
    assert cells["norm"] == (4 * n + 6 * m) * 16


def test_without_padding_there_is_nothing_to_compare_with_it():
    cells = {check.name: check.cells for check in checks(traced(network(), padded=False))}
    assert cells["padding"] == 0
    assert cells["future"] > 0


@pytest.mark.parametrize("path", ATTENTIONS)
def test_rows_that_do_not_add_up_to_1_fail(path):
    trace = traced(network())
    break_weights(trace, path, lambda weights, visible: weights * 1.001)
    assert failed(trace) == ["rows", "fused"]
    error = checks(trace)[0].error
    assert error == pytest.approx(0.001, rel=0.01)


def test_a_tiny_weight_on_the_future_fails_though_rows_still_add_up():
    def move(weights, visible):
        weights[0, 1, 2] += 1e-7
        weights[0, 1, 0] -= 1e-7
        return weights

    trace = traced(network())
    break_weights(trace, "decoder.layers.0.self_attention", move)
    assert failed(trace) == ["future"]
    assert checks(trace)[1].error == pytest.approx(1e-7, rel=0.01)


@pytest.mark.parametrize("path", ATTENTIONS)
def test_a_tiny_weight_on_padding_fails(path):
    def move(weights, visible):
        weights[1, 3, 2 if "decoder.layers.0" in path else 4] += 1e-7  # hidden, and not in the future
        return weights

    trace = traced(network()).example(1)
    break_weights(trace, path, move)
    assert failed(trace) == ["padding"]


@pytest.mark.parametrize("maps", [False, True])
def test_heads_that_are_not_weights_times_values_fail(maps):
    trace = traced(network(), maps=maps)
    name = "decoder.layers.1.cross_attention.heads"
    trace._tensors[name] = trace._tensors[name].clone()
    trace._tensors[name][0, 1, 3, 5] += 0.001
    assert failed(trace) == ["fused"]
    assert checks(trace)[3].error == pytest.approx(0.001, rel=0.02)


def test_a_scale_that_the_kernel_did_not_use_fails():
    trace = traced(network())
    trace.network.decoder.layers[0].cross_attention.scaled.factor = 0.9
    assert failed(trace) == ["fused"]


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_a_norm_that_is_not_the_formula_fails(placement):
    path = "decoder.layers.1.feed_forward_block.norm"
    trace = traced(network(norm_placement=placement))
    output = trace._tensors[f"{path}.output"] = trace._tensors[f"{path}.output"].clone()
    output[0, 2, 7] += 0.01
    assert failed(trace) == ["norm"]
    assert checks(trace)[4].error == pytest.approx(0.01, rel=0.02)
    trace = traced(network(norm_placement=placement))
    trace.network.get_submodule(path).eps = 0.1
    assert failed(trace) == ["norm"]


@pytest.mark.parametrize("path", ATTENTIONS)
def test_one_number_that_is_none_fails_whatever_comes_after_it(path):
    def spoil(weights, visible):
        weights[0, 0, 0] = math.nan
        return weights

    trace = traced(network())
    break_weights(trace, path, spoil)
    assert {"rows", "fused"} <= set(failed(trace))
    assert math.isnan(checks(trace)[0].error)


def test_a_network_that_computes_nan_fails_every_check_it_reaches():
    model = network()
    with torch.no_grad():
        model.decoder.embedding.tokens.weight[4] = math.nan
    assert {"rows", "fused", "norm"} <= set(failed(traced(model)))


@pytest.mark.parametrize(("error", "passed"), [(0.0, True), (1e-5, True), (1.1e-5, False), (math.nan, False)])
def test_passed_is_within_the_tolerance(error, passed):
    assert Check("rows", error, 1e-5, 3).passed is passed
