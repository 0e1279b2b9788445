"""The table of LayerNorm statistics against the formula, position by position."""

import math

import pytest
import torch

from model.analysis.norms import norm_table
from model.trace import Trace, record
from tests.model.examples import network

SOURCE, TARGET = torch.tensor([[5, 6, 7, 3, 9]]), torch.tensor([[1, 4, 12]])
COLUMNS = ["name", "position", "token", "mean", "std", "input norm", "output norm"]


def traced(**options) -> Trace:
    with torch.inference_mode(), record(network(**options)) as trace:
        trace.model(SOURCE, TARGET)
    trace.source_tokens, trace.target_tokens = "I see the cat </s>".split(), ["<s>", "我", "看"]
    return trace


@pytest.mark.parametrize(("placement", "norms"), [("post", (4, 6)), ("pre", (5, 7))])
def test_it_has_a_row_for_every_norm_and_position(placement, norms):
    trace = traced(norm_placement=placement)
    table = norm_table(trace)
    assert table.columns.tolist() == COLUMNS
    in_encoder, in_decoder = norms
    assert len(table) == in_encoder * 5 + in_decoder * 3
    assert table.index.tolist() == list(range(len(table)))
    assert table["name"].drop_duplicates().tolist() == trace.norm_paths()
    for name, part in table.groupby("name", sort=False):
        tokens = trace.source_tokens if name.startswith("encoder.") else trace.target_tokens
        assert part["token"].tolist() == tokens
        assert part["position"].tolist() == list(range(len(tokens)))


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_every_row_is_the_formula(placement):
    trace = traced(norm_placement=placement)
    for row in trace.norms().to_dict("records"):
        x = trace[f"{row['name']}.input"][row["position"]].tolist()
        y = trace[f"{row['name']}.output"][row["position"]].tolist()
        mean = math.fsum(x) / len(x)
        variance = math.fsum((value - mean) ** 2 for value in x) / len(x)
        assert row["mean"] == pytest.approx(mean, abs=1e-6)
        assert row["std"] == pytest.approx(math.sqrt(variance), rel=1e-5)
        assert row["input norm"] == pytest.approx(math.hypot(*x), rel=1e-5)
        assert row["output norm"] == pytest.approx(math.hypot(*y), rel=1e-5)


def test_a_norm_with_unit_weights_gives_vectors_of_length_root_d():
    model = network()
    with torch.no_grad():
        for path, parameter in model.named_parameters():
            if ".norm." in path:
                parameter.fill_(1.0 if path.endswith("weight") else 0.0)
    with torch.inference_mode(), record(model) as trace:
        model(SOURCE, TARGET)
    assert trace.norms()["output norm"].tolist() == pytest.approx([4.0] * 38, rel=1e-3)  # d_model is 16


def test_without_tokens_the_column_is_empty():
    with torch.inference_mode(), record(network()) as trace:
        trace.model(SOURCE, TARGET)
    assert set(trace.norms()["token"]) == {""}


def test_half_precision_is_read_in_float32():
    with torch.inference_mode(), record(network().to(torch.bfloat16)) as trace:
        trace.model(SOURCE, TARGET)
    row = trace.norms().iloc[7]
    x = trace[f"{row['name']}.input"][row["position"]].tolist()
    assert row["std"] == pytest.approx(math.sqrt(sum((v - sum(x) / 16) ** 2 for v in x) / 16), rel=1e-4)
