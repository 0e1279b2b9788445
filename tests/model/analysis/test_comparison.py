"""A trace beside another: what is the same, what is new, what changed most; against counts by hand."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from model.analysis.comparison import Comparison, align
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from tests.model.examples import one_stack
from tests.viz.small import parts, small_model


def test_the_same_text_is_aligned_with_itself():
    alignment = align(["a", "b", "a"], ["a", "b", "a"])
    assert alignment.places == [0, 1, 2]
    assert (alignment.inserted, alignment.deleted) == ([], [])


def test_insertions_and_deletions_are_found():
    alignment = align("the big cat".split(), "the cat sleeps".split())
    assert alignment.places == [0, -1, 1]
    assert alignment.inserted == [1]
    assert alignment.deleted == [2]
    assert align([], ["a"]).deleted == [0]
    assert align(["a"], []).inserted == [0]


def test_a_trace_does_not_differ_from_itself(tmp_path):
    trace = small_model(tmp_path).trace("The cat sees.", "我")
    comparison = Comparison(trace, trace)
    for name in trace.names():
        difference = comparison.difference(name)
        assert difference is not None, name
        assert float(difference.nan_to_num().abs().max()) == 0, name
    assert not comparison.changes["change"].any()
    assert set(comparison.changes["kind"]) == {"head", "layer", "position", "prediction"}


def test_the_heads_of_a_kind_are_compared_without_those_of_others(tmp_path, monkeypatch):
    trace = small_model(tmp_path).trace("The cat sees.", "我")
    comparison, asked, own = Comparison(trace, trace), [], Comparison.counterpart
    monkeypatch.setattr(Comparison, "counterpart", lambda self, name: asked.append(name) or own(self, name))
    assert comparison.head_changes("encoder").shape == (2, 2)
    assert asked == [f"encoder.layers.{layer}.self_attention.weights" for layer in (0, 1)]


def test_counterparts_stand_at_this_traces_tokens(tmp_path):
    model = small_model(tmp_path)
    now, before = model.trace("The dog sees the cat.", "我"), model.trace("The dog the cat.", "我")
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
    assert_close(comparison.attention("cross").shape, now.attention("cross").shape)


def test_the_change_of_a_head_is_the_total_variation_of_its_rows(tmp_path):
    model = small_model(tmp_path)
    now, before = model.trace("The dog sees the cat.", "我"), model.trace("The dog the cat.", "我")
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


def test_the_change_of_a_prediction_is_torchs_divergence(tmp_path):
    model = small_model(tmp_path)
    now, before = model.trace("The dog sees.", "我"), model.trace("The cat sees.", "我")
    table = Comparison(now, before).changes
    rows = table[table["kind"] == "prediction"].sort_values("position")
    log_now, log_before = (each["output.logits"].double().log_softmax(-1) for each in (now, before))
    expected = torch.nn.functional.kl_div(log_now, log_before, log_target=True, reduction="none").sum(-1)
    assert_close(torch.tensor(rows["change"].tolist()).double(), expected, atol=1e-5, rtol=1e-3)
    ranked = table[table["kind"] == "prediction"]["change"]
    assert ranked.is_monotonic_decreasing


def test_what_the_pinned_model_has_not_is_none(tmp_path):
    deep, other = small_model(tmp_path / "a"), small_model(tmp_path / "b", n_encoder_layers=1)
    comparison = Comparison(deep.trace("The cat.", "我"), other.trace("The cat.", "我"))
    assert comparison.counterpart("encoder.layers.1.self_attention.weights") is None
    assert comparison.attention("encoder") is None
    assert comparison.attention("cross") is not None
    assert not comparison.changes.empty


def test_a_decoder_of_another_kind_of_model_is_compared_by_the_tokens_it_reads(tmp_path):
    """The decoder of one stack reads the source, that of two the target: its rows are found by their own tokens."""
    translating = small_model(tmp_path / "two").trace("the cat sees the dog the cat sees the dog", "")
    network, tokenizer = one_stack("decoder-only", vocabulary=len(parts()[0]), norm_placement="pre"), parts()[0]
    save_checkpoint(tmp_path / "one", network, (tokenizer, tokenizer))
    writing = open_checkpoint(tmp_path / "one").trace("the cat sees the dog the cat sees the dog")
    long = align(writing.source_tokens, translating.source_tokens).places
    assert max(long) >= len(translating.target_tokens)  # places in the source that no target position has
    for now, before in ((writing, translating), (translating, writing)):
        comparison = Comparison(now, before)
        places = align(now.tokens_of("decoder."), before.tokens_of("decoder.")).places
        counterpart = comparison.counterpart("decoder.layers.0.self_attention.heads")
        assert counterpart is not None
        pinned = before["decoder.layers.0.self_attention.heads"]
        for place, other in enumerate(places):
            row = counterpart[:, place]
            assert row.isnan().all() if other < 0 else torch.equal(row, pinned[:, other])
        assert len(comparison.changes) > 0
