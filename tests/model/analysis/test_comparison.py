"""A trace beside another: what is the same, what is new, what changed most; against counts by hand."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from model.analysis.comparison import Comparison, align, divergence, output_changes, weight_changes
from model.capture.interventions import Causal, Cells
from tests.model.elsewhere import model_of
from tests.model.examples import network, traced


@pytest.fixture
def both(model):
    """A trace, and one of a text that lacks a word of it."""
    return model.trace("The dog sees the cat.", "我"), model.trace("The dog the cat.", "我")


@pytest.mark.parametrize(
    ("tokens", "others", "places", "deleted"),
    [
        ("a b a", "a b a", [0, 1, 2], []),
        ("the big cat", "the cat sleeps", [0, -1, 1], [2]),
        ("", "a", [], [0]),
        ("a", "", [-1], []),
    ],
)
def test_tokens_are_aligned(tokens, others, places, deleted):
    alignment = align(tokens.split(), others.split())
    assert (alignment.places, alignment.deleted) == (places, deleted)
    assert alignment.inserted == [place for place, other in enumerate(places) if other < 0]


def test_tokens_in_the_place_of_as_many_others_are_their_counterparts():
    alignment = align("she bought a blue car".split(), "she bought a red car today".split(), replaced=True)
    assert (alignment.places, alignment.deleted, alignment.replaced) == ([0, 1, 2, 3, 4], [5], (3,))
    assert align("a big cat".split(), "a cat".split(), replaced=True).replaced == ()
    assert align("two new words".split(), "one".split(), replaced=True).places == [-1, -1, -1]


def test_a_trace_does_not_differ_from_itself(model):
    trace = model.trace("The cat sees.", "我")
    comparison = Comparison(trace, trace)
    for name in trace.names():
        assert float(comparison.difference(name).nan_to_num().abs().max()) == 0, name
    assert not comparison.changes["change"].any()
    assert set(comparison.changes["kind"]) == {"head", "layer", "position", "prediction"}


def test_the_heads_of_a_kind_are_compared_without_those_of_others(model, monkeypatch):
    trace = model.trace("The cat sees.", "我")
    comparison, asked, own = Comparison(trace, trace), [], Comparison.counterpart
    monkeypatch.setattr(Comparison, "counterpart", lambda self, name: asked.append(name) or own(self, name))
    assert comparison.head_changes("encoder").shape == (2, 2)
    assert asked == [f"encoder.layers.{layer}.self_attention.weights" for layer in (0, 1)]


def test_counterparts_stand_at_this_traces_tokens(both):
    now, before = both
    comparison = Comparison(now, before)
    places = align(now.source_tokens, before.source_tokens).places
    assert -1 in places
    name = "encoder.layers.0.self_attention.weights"
    counterpart, pinned = comparison.counterpart(name), before[name]
    for query, query_before in enumerate(places):
        for key, key_before in enumerate(places):
            cell = counterpart[:, query, key]
            if query_before < 0 or key_before < 0:
                assert cell.isnan().all()
            else:
                assert_close(cell, pinned[:, query_before, key_before])
    residual = comparison.difference("encoder.layers.1.feed_forward_block.residual")
    assert [bool(row.isnan().all()) for row in residual] == [place < 0 for place in places]
    assert comparison.attention("cross").shape == now.attention("cross").shape


def test_the_change_of_a_head_is_the_total_variation_of_its_rows(both):
    now, before = both
    table = Comparison(now, before).changes
    places = align(now.source_tokens, before.source_tokens)
    path = "encoder.layers.1.self_attention"
    weights, pinned = now[f"{path}.weights"][1].double(), before[f"{path}.weights"][1].double()
    distances = []
    for query, query_before in enumerate(places.places):
        if query_before < 0:
            continue
        union = {("now", key): float(weights[query, key]) for key in places.inserted}
        union |= {("before", key): -float(pinned[query_before, key]) for key in places.deleted}
        for key, key_before in enumerate(places.places):
            if key_before >= 0:
                union["both", key] = float(weights[query, key] - pinned[query_before, key_before])
        distances.append(sum(abs(each) for each in union.values()) / 2)
    row = table[(table["name"] == path) & (table["head"] == 1)]
    assert_close(float(row["change"].iloc[0]), sum(distances) / len(distances), atol=1e-5, rtol=0)
    assert 0 < max(table[table["kind"] == "head"]["change"]) <= 1


def test_the_change_of_a_prediction_is_torchs_divergence(both):
    now, before = both
    table = Comparison(now, before).changes
    ranked = table[table["kind"] == "prediction"]
    log_now, log_before = (each["output.logits"].double().log_softmax(-1) for each in (now, before))
    expected = F.kl_div(log_now, log_before, log_target=True, reduction="none").sum(-1)
    changes = torch.tensor(ranked.sort_values("position")["change"].tolist(), dtype=torch.float64)
    assert_close(changes, expected, atol=1e-12, rtol=1e-9)  # of small ones the digits too
    assert ranked["change"].is_monotonic_decreasing


def test_what_the_pinned_model_has_not_is_none(model):
    other = model_of("encoder-decoder", n_encoder_layers=1)
    comparison = Comparison(model.trace("The cat.", "我"), other.trace("The cat.", "我"))
    assert comparison.counterpart("encoder.layers.1.self_attention.weights") is None
    assert comparison.attention("encoder") is None
    assert comparison.attention("cross") is not None
    assert not comparison.changes.empty


def test_a_decoder_of_another_kind_of_model_is_compared_by_the_tokens_it_reads(model):
    """The decoder of one stack reads the source, that of two the target: its rows are found by their own tokens."""
    text = "the cat sees the dog the cat sees the dog"
    translating = model.trace(text, "")
    writing = model_of("decoder-only", norm_placement="pre").trace(text)
    long = align(writing.source_tokens, translating.source_tokens).places
    assert max(long) >= len(translating.target_tokens)  # places in the source that no target position has
    for now, before in ((writing, translating), (translating, writing)):
        comparison = Comparison(now, before)
        places = align(now.tokens_of("decoder."), before.tokens_of("decoder.")).places
        counterpart = comparison.counterpart("decoder.layers.0.self_attention.heads")
        pinned = before["decoder.layers.0.self_attention.heads"]
        for place, other in enumerate(places):
            row = counterpart[:, place]
            assert row.isnan().all() if other < 0 else torch.equal(row, pinned[:, other])
        assert len(comparison.changes) > 0


def test_effects_of_a_change_are_those_of_the_definitions():
    model = network()
    before, now = traced(model), traced(model, Causal("decoder", False))
    assert (weight_changes(now, before, "encoder") == 0).all()
    weights = [trace.attention("decoder") for trace in (now, before)]
    assert_close(weight_changes(now, before, "decoder"), (weights[0] - weights[1]).abs().sum(-1).mean(-1) / 2)
    outputs = [trace["decoder.layers.1.cross_attention.output"] for trace in (now, before)]
    assert_close(output_changes(now, before, "cross")[1], torch.linalg.vector_norm(outputs[0] - outputs[1], dim=-1))
    logits = [trace["output.logits"].log_softmax(dim=-1) for trace in (now, before)]
    expected = F.kl_div(logits[0], logits[1], reduction="none", log_target=True).sum(dim=-1)
    logits = now["output.logits"]
    assert_close(divergence(logits, before["output.logits"]), expected.double(), rtol=1e-4, atol=1e-6)
    assert (divergence(logits, logits) == 0).all()
    for kind in ("encoder", "decoder", "cross"):
        assert (weight_changes(now, now, kind) == 0).all()
        assert (output_changes(now, now, kind) == 0).all()


def test_a_query_that_lost_all_it_saw_counts_a_half():
    model = network()
    changes = weight_changes(traced(model, Cells("cross", False, 1, layer=0)), traced(model), "cross")
    assert_close(changes[0], torch.full((2,), 0.5 / 3))
    assert (changes[1] > 0).all()  # what came from there is another query in the next layer
