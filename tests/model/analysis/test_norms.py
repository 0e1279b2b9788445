"""The table of LayerNorm statistics against the formula, position by position."""

import math

import pytest
import torch

from model.analysis.norms import QUANTITIES, expected_gap, form_gap, forms, norm_levels, norm_table, stack_norms
from model.capture.trace import Trace, record
from tests.model.examples import network

SOURCE, TARGET = torch.tensor([[5, 6, 7, 3, 9]]), torch.tensor([[1, 4, 12]])
COLUMNS = ["name", "position", "token", "mean", "std", "input norm", "output norm"]


def traced(**options) -> Trace:
    with torch.inference_mode(), record(network(**options)) as trace:
        trace.network(SOURCE, TARGET)
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
    for row in norm_table(trace).to_dict("records"):
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
    assert norm_table(trace)["output norm"].tolist() == pytest.approx([4.0] * 38, rel=1e-3)  # d_model is 16


def test_without_tokens_the_column_is_empty():
    with torch.inference_mode(), record(network()) as trace:
        trace.network(SOURCE, TARGET)
    assert set(norm_table(trace)["token"]) == {""}


def test_half_precision_is_read_in_float32():
    with torch.inference_mode(), record(network().to(torch.bfloat16)) as trace:
        trace.network(SOURCE, TARGET)
    row = norm_table(trace).iloc[7]
    x = trace[f"{row['name']}.input"][row["position"]].tolist()
    assert row["std"] == pytest.approx(math.sqrt(sum((v - sum(x) / 16) ** 2 for v in x) / 16), rel=1e-4)


def test_levels_are_the_tables_columns():
    trace = traced(norm_placement="pre")
    table = norm_table(trace)
    paths = stack_norms(trace, "decoder")
    assert paths == [path for path in trace.norm_paths() if path.startswith("decoder.")]
    columns = {"mean": "mean", "std": "std", "before": "input norm", "after": "output norm"}
    for quantity in QUANTITIES:
        levels = norm_levels(trace.__getitem__, paths, quantity)
        for row, path in zip(levels, paths, strict=True):
            assert row.tolist() == pytest.approx(table.loc[table["name"] == path, columns[quantity]].tolist())
    assert norm_levels(lambda name: None, paths, "std") is None
    assert norm_levels(trace.__getitem__, [], "std") is None


def test_the_forms_are_torchs_and_the_ones_written_with_std():
    x = torch.randn(3, 7, dtype=torch.float64) * 4 + 1
    found = forms(x, 0.1)
    centred = x - x.mean(-1, keepdim=True)
    torch.testing.assert_close(found["layer"], torch.nn.functional.layer_norm(x, (7,), eps=0.1))
    torch.testing.assert_close(found["textbook"], centred / (x.std(-1, correction=0, keepdim=True) + 0.1))
    torch.testing.assert_close(found["textbook-sample"], centred / (x.std(-1, keepdim=True) + 0.1))


@pytest.mark.parametrize("width", [2, 8, 256])
def test_the_sample_deviation_takes_the_expected_share_away(width):
    x = torch.randn(5, width, dtype=torch.float64)
    assert form_gap(x, 0.0, "textbook-sample") == pytest.approx(expected_gap(width), rel=1e-9)
    assert form_gap(x, 0.0, "textbook") == pytest.approx(0, abs=1e-15)
    assert expected_gap(width) == pytest.approx(1 / (2 * width), rel=0.5)
