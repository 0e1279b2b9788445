"""What a change did, against numbers computed by hand and by scipy-like formulas of torch."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from model.analysis.comparison import output_changes, prediction_changes, weight_changes
from model.capture.interventions import Causal, Cells, intervening
from model.capture.trace import record
from tests.model.examples import network

SOURCE, TARGET = torch.tensor([[5, 6, 7, 3, 9]]), torch.tensor([[1, 4, 12, 8]])


def traced(model, *changes):
    with torch.inference_mode(), intervening(model, changes), record(model) as trace:
        model(SOURCE, TARGET)
    return trace


def test_nothing_changed_is_zero():
    model = network()
    before, now = traced(model), traced(model)
    for kind in ("encoder", "decoder", "cross"):
        assert (weight_changes(now, before, kind) == 0).all()
        assert (output_changes(now, before, kind) == 0).all()
    assert (prediction_changes(now, before) == 0).all()


def test_changes_are_those_of_the_definitions():
    model = network()
    before, now = traced(model), traced(model, Causal("decoder", False))
    weights = [
        [trace[f"decoder.layers.{layer}.self_attention.weights"] for layer in range(2)] for trace in (now, before)
    ]
    for layer in range(2):
        for head in range(2):
            pairs = zip(weights[0][layer][head], weights[1][layer][head], strict=True)
            expected = sum(0.5 * float((row - other).abs().sum()) for row, other in pairs) / 4
            assert float(weight_changes(now, before, "decoder")[layer, head]) == pytest.approx(expected, rel=1e-5)
    outputs = [trace["decoder.layers.1.cross_attention.output"] for trace in (now, before)]
    assert_close(output_changes(now, before, "cross")[1], torch.linalg.vector_norm(outputs[0] - outputs[1], dim=-1))
    logits = [trace["output.logits"].log_softmax(dim=-1) for trace in (now, before)]
    expected = F.kl_div(logits[0], logits[1], reduction="none", log_target=True).sum(dim=-1)
    assert_close(prediction_changes(now, before), expected, rtol=1e-4, atol=1e-6)
    assert (weight_changes(now, before, "encoder") == 0).all()


def test_a_query_that_lost_all_it_saw_counts_a_half():
    model = network()
    now = traced(model, Cells("cross", False, 1, layer=0))
    changes = weight_changes(now, traced(model), "cross")
    assert_close(changes[0], torch.full((2,), 0.5 / 4))
    assert (changes[1] > 0).all()  # what came from there is another query in the next layer
