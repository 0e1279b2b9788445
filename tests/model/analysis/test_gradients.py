"""Gradients of a text's loss: against torch's backward pass on a deep copy, and against finite differences."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from model.analysis import gradients
from model.analysis.gradients import loss_gradients, memory_needed
from model.analysis.predictions import UNKNOWN
from model.analysis.residual import blocks, stacks, states
from model.capture.interventions import Cells, Intervention, RemovedHead, intervening
from model.runtime.errors import CheckpointError
from tests.model.examples import SOURCE, TARGET, network, one_stack, traced

ACTUAL = {"encoder-decoder": [4, 12, 2], "decoder-only": [6, 7, 3, 9, UNKNOWN], "encoder-only": [5, 6, UNKNOWN, 3, 9]}
OPTIONS = [
    {"norm_placement": "pre"},
    {"norm_placement": "post", "tied_embeddings": "all", "embedding_norm": True},
    {"norm_placement": "sandwich", "norm": "rms", "position": "rotary", "activation": "swiglu", "qk_norm": True},
    {"norm": "none", "position": "relative", "parallel": True, "scale_output": True},
    {"position": "alibi", "n_key_value_heads": 1, "bias": False, "tied_embeddings": "output"},
    {"position": "learned", "output_head": "transform", "output_bias": True, "window": 2},
]
MAKE = [network, partial(one_stack, "decoder-only"), partial(one_stack, "encoder-only")]


def sized(make, options):
    """The model of these options; one stack has only one embedding that can be tied."""
    tied = options.get("tied_embeddings")
    if tied and make is not network:
        options = options | {"tied_embeddings": "output"}
    if make is network and tied == "all":
        options = options | {"source_vocabulary": 13}
    return make(**options)


def texts_of(model):
    return [SOURCE[0].tolist(), *([TARGET[0].tolist()] if model.kind == "encoder-decoder" else [])]


def found_of(model, *changes):
    return loss_gradients(traced(model, *changes), texts_of(model), ACTUAL[model.kind])


def loss_of(model, *changes):
    inputs = [torch.tensor([ids]) for ids in texts_of(model)]
    with intervening(model, changes):
        logits = model(*inputs)[0]
    return F.cross_entropy(logits, torch.tensor(ACTUAL[model.kind]), ignore_index=UNKNOWN)


@torch.no_grad()
def losses_of(model, change):
    """The loss with the change to each of the stream's channels."""
    inputs = [torch.tensor([ids] * model.config.d_model) for ids in texts_of(model)]
    with intervening(model, [change]):
        logits = model(*inputs)
    labels = torch.tensor([ACTUAL[model.kind]] * len(logits))
    losses = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=UNKNOWN, reduction="none")
    return losses.sum(dim=1) / (labels[0] != UNKNOWN).sum()


def backward(model, *changes):
    """A deep copy after torch's own backward pass, and its loss."""
    copied = copy.deepcopy(model).requires_grad_(True)
    loss = loss_of(copied, *changes)
    loss.backward()
    return copied.requires_grad_(False), float(loss.detach())


def length(tensors):
    return math.sqrt(sum(float(each.detach().double().square().sum()) for each in tensors))


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("make", MAKE)
def test_weights_have_the_gradients_of_torchs_backward_pass(make, options):
    model = sized(make, options)
    found = found_of(model)
    copied, loss = backward(model)
    assert found.loss == pytest.approx(loss, rel=1e-5)
    assert found.tokens == sum(token != UNKNOWN for token in ACTUAL[model.kind])
    whole = length(weight.grad for weight in copied.parameters() if weight.grad is not None)
    assert math.sqrt(sum(size.gradient**2 for size in found.parts.values())) == pytest.approx(whole, rel=1e-5)
    weights = length(copied.parameters())
    assert math.sqrt(sum(size.weights**2 for size in found.parts.values())) == pytest.approx(weights, rel=1e-5)
    for stack in stacks(model.config):
        for number, layer in enumerate(copied.get_submodule(f"{stack}.layers")):
            for name in ("self_attention", "cross_attention", "feed_forward"):
                if not hasattr(layer, name):
                    continue
                own = list(getattr(layer, name).parameters())
                size = found.parts[stack, number, name]
                if number == 0 or model.config.position != "relative":  # whose table is shared with the first layer
                    expected = length(each.grad for each in own)
                    assert size.gradient == pytest.approx(expected, rel=1e-5)
                    assert size.relative == pytest.approx(expected / length(own), rel=1e-5)
            norms = [
                weight.grad
                for name, weight in layer.named_parameters()
                if "_block." in name and ("norm" in name or "output_norm" in name)
            ]
            assert ((stack, number, "norm") in found.parts) == bool(norms)
            if norms:
                assert found.parts[stack, number, "norm"].gradient == pytest.approx(length(norms), rel=1e-5)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("make", MAKE)
def test_heads_have_their_rows_and_columns(make, options):
    model = sized(make, options)
    found = found_of(model)
    copied, _loss = backward(model)
    for kind, norms in found.heads.items():
        stack, part = ("decoder", "cross_attention") if kind == "cross" else (kind, "self_attention")
        heads, width = model.config.n_heads, model.config.d_head
        for layer, module in enumerate(copied.get_submodule(f"{stack}.layers")):
            attention = getattr(module, part)
            for head in range(heads):
                shared = head * model.config.kv_heads // heads
                for number, name, place in ((0, "query", head), (1, "key", shared), (2, "value", shared)):
                    weight = getattr(attention, name).weight
                    rows = slice(place * width, (place + 1) * width)
                    assert float(norms[0, number, layer, head]) == pytest.approx(float(weight.grad[rows].norm()), 1e-4)
                    assert float(norms[1, number, layer, head]) == pytest.approx(float(weight[rows].norm()), 1e-4)
                grad = attention.output.weight.grad[:, head * width : (head + 1) * width]
                assert float(norms[0, 3, layer, head]) == pytest.approx(float(grad.norm()), rel=1e-4)


@dataclass(frozen=True)
class Moved(Intervention):
    """`by` is added to one channel of a state of the stream: to another one in each example of a batch."""

    name: str
    position: int
    by: float

    def after(self, path, module, inputs, output):
        if path != (self.name.removesuffix(".output") if self.name.endswith(".norm.output") else self.name):
            return output
        moved = output.clone()
        moved[:, self.position] += self.by * torch.eye(len(output), dtype=output.dtype)
        return moved


@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[1], OPTIONS[3]])
@pytest.mark.parametrize("make", MAKE)
def test_the_streams_gradients_are_finite_differences(make, options):
    model = sized(make, options).double()
    found = found_of(model)
    step = 1e-6
    for stack in stacks(model.config):
        names = states(blocks(model.config, stack))
        assert set(names) <= set(found.stream)
        for name in (names[0], names[2], names[-1]):
            for position in (0, len(found.stream[name]) - 1):
                high, low = (losses_of(model, Moved(name, position, by)) for by in (step, -step))
                expected = float(((high - low) / (2 * step)).norm())
                assert float(found.stream[name][position]) == pytest.approx(expected, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("make", MAKE)
def test_weights_gradients_are_finite_differences(make):
    model = make(norm_placement="pre", d_model=4).double()
    stack = stacks(model.config)[-1]
    path = f"{stack}.layers.1.self_attention"
    weight, width, step = model.get_submodule(f"{path}.value").weight, model.config.d_head, 1e-6
    expected = []
    for row in range(2 * width):
        for column in range(model.config.d_model):
            slopes = []
            with torch.no_grad():
                for by in (step, -step):
                    weight[row, column] += by
                    slopes.append(float(loss_of(model)))
                    weight[row, column] -= by
            expected.append((slopes[0] - slopes[1]) / (2 * step))
    table = torch.tensor(expected).view(2, -1).norm(dim=1).tolist()
    assert found_of(model).heads[stack][0, 2, 1].tolist() == pytest.approx(table, rel=1e-5)


@pytest.mark.parametrize("change", [RemovedHead("decoder", 0, 1), Cells("decoder", False, key=0, layer=1)])
def test_changes_of_the_trace_are_made_in_its_gradients_too(change):
    model = network(norm_placement="pre")
    found, (copied, loss) = found_of(model, change), backward(model, change)
    assert found.loss == pytest.approx(loss, rel=1e-5)
    assert found.loss != pytest.approx(found_of(model).loss, rel=1e-4)
    whole = length(weight.grad for weight in copied.parameters() if weight.grad is not None)
    assert math.sqrt(sum(size.gradient**2 for size in found.parts.values())) == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("trains", [False, True])
def test_the_network_is_left_as_it_was(training, trains):
    model = network(norm_placement="pre", dropout=0.3, attention_dropout=0.2)
    trace = traced(model)
    model.train(training).requires_grad_(trains)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    found = loss_gradients(trace, texts_of(model), ACTUAL[model.kind])
    assert found.loss == pytest.approx(float(loss_of(model.eval()).detach()), rel=1e-5)  # nothing is dropped out
    model.train(training)
    assert all(module.training is training for module in model.modules())
    assert all(weight.requires_grad is trains and weight.grad is None for weight in model.parameters())
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    later = traced(model.eval())
    assert torch.equal(later["output.logits"], trace["output.logits"])


def test_a_position_that_no_loss_depends_on_has_no_gradient():
    model = one_stack("decoder-only", norm_placement="pre")
    found = found_of(model)
    names = states(blocks(model.config, "decoder"))
    assert all(float(found.stream[name][-1]) == 0 for name in names)
    assert all(float(found.stream[name][:-1].min()) > 0 for name in names)


def test_a_text_without_an_actual_token_has_no_loss():
    model = one_stack("decoder-only")
    with pytest.raises(ValueError, match="no actual token is known"):
        loss_gradients(traced(model), texts_of(model), [UNKNOWN] * 5)


def test_what_does_not_fit_into_memory_is_refused(monkeypatch):
    model = network()
    size = memory_needed(model, [5, 3])
    assert size > 4 * model.parameter_count()
    monkeypatch.setattr(gradients, "available", lambda device: size - 1)
    with pytest.raises(CheckpointError, match=r"gradients need about .* type a shorter text"):
        found_of(model)
    monkeypatch.setattr(gradients, "available", lambda device: size)
    assert found_of(model).loss > 0
