"""LayerNorm statistics against the formula, position by position; a padded batch of one text against torch's norms."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from model.analysis import norms
from model.analysis.norms import QUANTITIES
from tests.model import examples
from tests.model.elsewhere import model_of
from tests.model.examples import network

COLUMNS = ["name", "position", "token", "mean", "std", "input norm", "output norm"]
SOURCE_TOKENS, TARGET_TOKENS = "I see the cat </s>".split(), ["<s>", "我", "看"]


def traced(dtype=torch.float32, **options):
    trace = examples.traced(network(**options).to(dtype))
    trace.source_tokens, trace.target_tokens = SOURCE_TOKENS, TARGET_TOKENS
    return trace


@pytest.mark.parametrize(
    ("placement", "dtype", "counts"),
    [("post", torch.float32, (4, 6)), ("pre", torch.float32, (5, 7)), ("post", torch.bfloat16, (4, 6))],
)
def test_the_table_has_the_formulas_numbers_for_every_norm_and_position(placement, dtype, counts):
    trace = traced(dtype, norm_placement=placement)
    table = norms.norm_table(trace)
    assert table.columns.tolist() == COLUMNS
    assert len(table) == counts[0] * 5 + counts[1] * 3
    assert table.index.tolist() == list(range(len(table)))
    assert table["name"].drop_duplicates().tolist() == trace.norm_paths()
    for name, part in table.groupby("name", sort=False):
        tokens = SOURCE_TOKENS if name.startswith("encoder.") else TARGET_TOKENS
        assert part["token"].tolist() == tokens
        assert part["position"].tolist() == list(range(len(tokens)))
    for row in table.to_dict("records"):
        x = trace[f"{row['name']}.input"][row["position"]].tolist()
        y = trace[f"{row['name']}.output"][row["position"]].tolist()
        mean = math.fsum(x) / len(x)
        variance = math.fsum((value - mean) ** 2 for value in x) / len(x)
        assert row["mean"] == pytest.approx(mean, abs=1e-6)
        assert row["std"] == pytest.approx(math.sqrt(variance), rel=1e-5)
        assert row["input norm"] == pytest.approx(math.hypot(*x), rel=1e-5)
        assert row["output norm"] == pytest.approx(math.hypot(*y), rel=1e-5)


def test_without_tokens_the_column_is_empty():
    assert set(norms.norm_table(examples.traced(network()))["token"]) == {""}


def test_levels_are_the_tables_columns():
    trace = traced(norm_placement="pre")
    table = norms.norm_table(trace)
    paths = norms.stack_norms(trace, "decoder")
    assert paths == [path for path in trace.norm_paths() if path.startswith("decoder.")]
    columns = {"mean": "mean", "std": "std", "before": "input norm", "after": "output norm"}
    for quantity in QUANTITIES:
        levels = norms.norm_levels(trace.__getitem__, paths, quantity)
        for row, path in zip(levels, paths, strict=True):
            assert row.tolist() == pytest.approx(table.loc[table["name"] == path, columns[quantity]].tolist())
    assert norms.norm_levels(lambda name: None, paths, "std") is None
    assert norms.norm_levels(trace.__getitem__, [], "std") is None


def test_the_forms_are_torchs_and_the_ones_written_with_std():
    x = torch.randn(3, 7, dtype=torch.float64) * 4 + 1
    values = norms.forms(x, 0.1)
    centred = x - x.mean(-1, keepdim=True)
    assert_close(values["layer"], F.layer_norm(x, (7,), eps=0.1))
    assert_close(values["textbook"], centred / (x.std(-1, correction=0, keepdim=True) + 0.1))
    assert_close(values["textbook-sample"], centred / (x.std(-1, keepdim=True) + 0.1))


@pytest.mark.parametrize("width", [2, 8, 256])
def test_the_sample_deviation_takes_the_expected_share_away(width):
    x = torch.randn(5, width, dtype=torch.float64)
    assert norms.form_gap(x, 0.0, "textbook-sample") == pytest.approx(norms.expected_gap(width), rel=1e-9)
    assert norms.form_gap(x, 0.0, "textbook") == pytest.approx(0, abs=1e-15)
    assert norms.expected_gap(width) == pytest.approx(1 / (2 * width), rel=0.5)


def test_sentences_are_the_pieces_and_halves_of_one_alone(model):
    tokenizer = model.source_tokenizer
    whole = model.source_tokens("The cat sees. The dog hears.")
    two = [[whole.labels[place] for place in piece] for piece in norms.pieces(whole, tokenizer)]
    assert [piece[-1] for piece in two] == ["</s>", "</s>"]
    assert "".join(two[0]).replace("▁", " ").strip() == "The cat sees.</s>"
    one = model.source_tokens("The cat sees the dog")
    halves = norms.pieces(one, tokenizer)
    assert [*halves[0][:-1], *halves[1]] == [*range(len(one))]
    assert abs(len(halves[0]) - len(halves[1])) <= 1
    assert len(norms.pieces(model.source_tokens("A. B. C."), tokenizer, 2)) == 2
    assert norms.pieces(model.source_tokens(""), tokenizer) == []


def test_every_row_of_a_batch_is_what_the_model_computes_of_it_alone(model):
    source = model.source_tokens("The cat sees the dog.")
    batch = norms.batch_of(model, source, model.target_tokens(model.target_tokenizer.label(7) * 5))
    assert {stack: len(rows) for stack, rows in batch.rows.items()} == {"encoder": 3, "decoder": 3}
    assert int((~batch.real["encoder"]).sum()) > 0
    assert batch.places["encoder"][0] == [*range(len(source))]
    for row, places in enumerate(batch.places["encoder"]):
        assert batch.rows["encoder"][row].labels == [source.labels[place] for place in places]
        alone = model.trace_tokens(batch.rows["encoder"][row], batch.rows["decoder"][row])
        for stack in ("encoder", "decoder"):
            name = f"{stack}.layers.1.feed_forward_block.norm.input"
            own = batch.stacked(name)[row][batch.real[stack][row]]
            assert_close(own, alone[name], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["decoder-only", "encoder-only"])
def test_models_of_one_stack_have_a_batch_of_their_text(kind):
    model = model_of(kind)
    assert list(norms.batch_of(model, model.source_tokens("The cat sees"), None).rows) == [kind.split("-")[0]]
    assert norms.batch_of(model, model.source_tokens(""), None) is None


def test_statistics_of_a_batch_are_torchs():
    x = (torch.randn(3, 4, 6) + 2).double()
    real = torch.tensor([[True] * 4, [True, True, False, False], [True, False, False, False]])
    statistics = norms.batch_statistics(x.float(), real, x[0].float(), 1e-5)
    assert_close(statistics.layer_mean, x.mean(-1))
    assert_close(statistics.layer_std, x.std(-1, correction=0))
    assert_close(statistics.real_mean, x[real].mean(0))
    assert_close(statistics.padded_std, x.flatten(0, 1).std(0, correction=0))
    normal = F.batch_norm(x.flatten(0, 1), None, None, training=True).view_as(x)[0]
    alone = F.batch_norm(x[0], None, None, training=True)
    assert statistics.batch_moves == pytest.approx(float((normal - alone).norm() / alone.norm()), rel=1e-6)
    assert statistics.layer_moves == 0
    assert norms.batch_statistics(x, real, x[0] + torch.randn(4, 6), 1e-5).layer_moves > 0.1
