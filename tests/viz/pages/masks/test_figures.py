"""Figures of the page of masks as values: what the changed model computes, and the pinned trace beside it."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from model.analysis.comparison import divergence
from model.analysis.masking import fills, future_change, orders, without_causal_mask
from model.capture.interventions import intervening, read_changes
from model.capture.trace import record
from model.checkpoints.load import open_checkpoint
from model.checkpoints.native import save_checkpoint
from model.text.tokenizer import MASK
from tests.app_reading import number
from tests.model.examples import one_stack
from tests.model.network.test_kinds import TOKENIZERS
from tests.test_app_kinds import write
from tests.viz.small import looking, small_model
from viz.figures.colours import PINNED
from viz.figures.compared import of_now
from viz.i18n.format import significant, significant_alike, token_code
from viz.pages.masks import batch, experiments
from viz.pages.masks.batch import batch_panels, parts_of
from viz.pages.masks.effects import Reference, effect, predictions_chart, tops_chart, where_panels
from viz.pages.masks.figures import alarms, cells_table, flow_panels, mask_panels
from viz.pages.masks.pinned import head_tensors, other_token
from viz.state.inputs import Selection
from viz.state.what_if import note
from viz.ui.plots import word

TEXT, OTHER = "The cat sees the dog.", "The cat sees the bird."
HIDE = "decoder.*.*:hide:2,0;cross.1.1:hide:1,*"
KINDS = ["encoder", "decoder", "cross"]
PATH = "decoder.layers.0.self_attention"
FIRST = Selection()


@pytest.fixture
def pinned(small):
    """A session with a pinned text of other tokens, its targets written by the model."""
    return looking(small, OTHER, pinned=(small, TEXT, ""))


def changed(model, text, changes):
    """The model's own trace with these changes, on what it writes without them."""
    plain = model.trace(text)
    tokens = [model.source_tokens(text)]
    if model.kind == "encoder-decoder":
        ids = [token for token in model.generate(text).ids if token != model.target_tokenizer.end]
        tokens.append(model.target_tokenizer.tokens([model.target_tokenizer.start, *ids]))
    with torch.inference_mode(), intervening(model.network, read_changes(changes)), record(model.network) as trace:
        model.network(*(torch.tensor([each.ids]) for each in tokens))
    return plain, trace


def values(figure):
    return [panel.values for panel in figure.panels]


def test_the_mask_and_what_it_does_are_the_models(small):
    session, chosen = looking(small, TEXT), Selection(1, 1)
    trace, path = small.trace(TEXT), "decoder.layers.1.self_attention"
    (panel,) = mask_panels(session.inputs, "decoder", chosen, False).panels
    n = len(trace.target_tokens)
    causal = np.tril(np.ones((n, n)))
    assert panel.note == f"= [1, 1, {n}, {n}]"
    assert np.array_equal(panel.visible, causal)
    panels = flow_panels(session.inputs, session.what_if.plain, "decoder", chosen, False).panels
    assert [panel.columns.labels for panel in panels[:3]] == [trace.target_tokens] * 3
    for name, each in zip(("scaled", "masked", "weights", "heads"), panels, strict=True):
        assert np.allclose(each.values, trace[f"{path}.{name}"][1], atol=1e-6), name
    assert panels[0].visible.all()
    assert np.array_equal(panels[1].visible, causal)


def test_changes_are_shown_and_measured(small):
    session, chosen = looking(small, TEXT, changes=HIDE), Selection(1, 1)
    inputs, before, (plain, trace) = session.inputs, session.what_if.plain, changed(small, TEXT, HIDE)
    path, names = "decoder.layers.1.cross_attention", ("scaled", "masked", "weights", "heads")
    panels = flow_panels(inputs, before, "cross", chosen, False).panels
    for was, now, name in zip(panels[:4], panels[4:], names, strict=True):
        assert np.allclose(was.values, plain[f"{path}.{name}"][1], atol=1e-6)
        assert np.allclose(now.values, trace[f"{path}.{name}"][1], atol=1e-6)
    assert panels[6].changed[1].all()
    assert not panels[6].visible[1].any()
    heads = where_panels(inputs, before, KINDS, "cross", chosen, False)
    assert [panel.name for panel in heads.panels] == ["Encoder", "Decoder", "Cross"]
    encoder, *others = values(heads)
    assert (encoder == 0).all()
    for kind, drawn in zip(("decoder", "cross"), others, strict=True):
        moved = (trace.attention(kind) - plain.attention(kind)).abs().sum(-1).mean(-1) / 2
        assert np.allclose(drawn, moved, atol=1e-6)
        assert drawn.max() > 1e-3
    was, now = (each["output.logits"].log_softmax(-1) for each in (plain, trace))
    moved = (was.exp() * (was - now)).sum(-1)
    place = int(divergence(inputs.trace["output.logits"], before["output.logits"]).argmax())
    reference = Reference.of(inputs, before, False)
    assert reference.place(inputs.trace) == place
    assert np.allclose(predictions_chart(inputs, reference, place).series[0].ys, moved, atol=1e-6)
    assert place == int(moved.argmax())
    assert float(moved.max()) > 1e-4
    for log_probabilities, each in zip((was, now), tops_chart(inputs, reference, place).series, strict=True):
        assert np.allclose(np.sort(each.ys)[::-1][:5], log_probabilities[place].exp().topk(5).values, atol=1e-6)
    leaders = [int(each[place].argmax()) for each in (was, now)]
    shares = significant_alike(*(float(each[place, leaders[0]].exp()) for each in (was, now)))
    other, top = (word(small.target_tokenizer.label(leader)) for leader in leaders)
    no_longer = f", no longer {other}" if top != other else ""
    sentence = effect(inputs, reference)
    whose = f"p({other}) " if top != other else ""
    token = word(plain.target_tokens[place])
    assert str(sentence) == f"After {token} comes {top}{no_longer}: {whose}{' → '.join(shares)}"
    assert mask_panels(inputs, "cross", chosen, False, sentence).caption.finding == sentence
    (alarm,) = alarms(inputs.trace, "cross", chosen)
    assert "Nothing to look at" in alarm
    assert token_code(plain.target_tokens[1]) in alarm
    assert "largest weight 0, largest output of the head 0, NaN 0" in alarm


def test_a_leak_is_an_alarm_that_says_where(small):
    inputs, chosen = looking(small, TEXT, changes="decoder:causal:off").inputs, Selection(0, 1)
    weights = changed(small, TEXT, "decoder:causal:off")[1][f"{PATH}.weights"][1].triu(1)
    assert mask_panels(inputs, "decoder", chosen, False).caption.sentence == "target looks at all of the target"
    (alarm,) = alarms(inputs.trace, "decoder", chosen)
    assert f"gives {float(weights.max()):.3g} to" in alarm
    assert "(layer 1, head 2)" in alarm


def test_the_experiments_measure_on_this_input(small):
    inputs = looking(small, TEXT).inputs
    figure, sentence = experiments.future_chart(inputs, (), 2)
    assert "with the causal mask 0 ·" in sentence
    leak = sentence.rstrip(".").rpartition(" ")[2]
    assert float(leak) > 1e-3
    changed = word(inputs.trace.target_tokens[2])
    assert str(figure.caption.finding) == f"Before {changed} logits move by 0; without the mask by {leak}"
    _figure, table, _lacking = batch_panels(inputs, TEXT, [], (), "decoder", FIRST)
    assert len(table) == 3
    assert table["|Δlogit|, padding masked"].max() < 1e-4
    assert (table["|Δlogit|, padding seen"][1:] > 1e-3).all()
    _figure, _sentence, table = experiments.order_panels(inputs, "decoder", FIRST, False)
    right, wrong, zeroed = (
        table.set_index("")[name] for name in ("mask, then softmax", "softmax, then −∞", "softmax, then 0")
    )
    assert right.tolist() == ["1", "1", "0", "0", "0"]
    assert wrong["smallest row sum"] == "−∞"
    assert int(wrong["∞ in the output"]) + int(wrong["NaN in the output"]) > 0
    assert 0 < float(zeroed["smallest row sum"]) < 1
    _sentence, table = experiments.fill_experiment(inputs.trace, "decoder", FIRST)
    row = table.set_index(["type", "instead of −∞"]).loc[("float16", "−1e9")]
    assert row["stored as":"masked_fill"].tolist() == ["−∞", "refused: overflow"]
    assert row["a row with nothing to look at"] == "NaN"


def test_a_changed_future_that_no_opened_cell_looks_at_shows_no_leak(small):
    session = looking(small, TEXT, changes="decoder.0.1:show:1,3")
    opened = experiments.opened_keys(session.trace, "decoder")
    assert opened == [3]
    moved = experiments.future_chart(session.inputs, session.what_if.changes, 3)[0].series[-1].ys  # as changed above
    assert moved[1] > 0
    assert moved[0] == 0  # which sees none that sees it
    assert experiments.untested_sentence(opened, 3) == ""
    assert "No opened cell looks at token 5" in experiments.untested_sentence(opened, 4)


@pytest.mark.parametrize("kind", ["decoder-only", "encoder-only"])
def test_models_of_one_stack(tmp_path, kind):
    tokenizer, text, stack = TOKENIZERS[kind], f"The cat {MASK} the dog", kind.split("-")[0]
    options = {"position": "alibi", "n_key_value_heads": 1, "window": 3} if kind == "decoder-only" else {"norm": "rms"}
    network = one_stack(kind, vocabulary=len(tokenizer), norm_placement="pre", **options)
    save_checkpoint(tmp_path / "one", network, (tokenizer, tokenizer), {"example": text})
    model, change = open_checkpoint(tmp_path / "one"), f"{stack}.0.1:hide:0,*;{stack}:window:2;cross:padding:off"
    session, trace = looking(model, text, changes=change), changed(model, text, change)[1]
    inputs, path = session.inputs, f"{stack}.layers.0.self_attention"
    panels = flow_panels(inputs, session.what_if.plain, stack, Selection(0, 1), False).panels
    assert np.allclose(panels[6].values, trace[f"{path}.weights"][1], atol=1e-6)
    assert np.allclose(panels[4].values, trace[f"{path}.{trace.maps_of(path)[-3]}"][1], atol=1e-5)
    assert "Cross" not in note(session.what_if, session.trace, model.config)
    assert len(batch_panels(inputs, text, [], session.what_if.changes, stack, FIRST)[1]) == 3
    assert experiments.future_chart(inputs, session.what_if.changes, 2)[0].series[-1].name == "as changed above"


def test_the_pinned_trace_is_the_reference_of_differences(small, pinned, tmp_path):
    figure = flow_panels(pinned.inputs, pinned.what_if.plain, "decoder", FIRST, True)
    expected = pinned.comparison.difference(f"{PATH}.weights")[0]
    assert figure.panels[2].scale.difference
    assert np.allclose(figure.panels[2].values, expected, atol=1e-6, equal_nan=True)
    other = looking(small, OTHER, pinned=(write(tmp_path / "other", "encoder-only"), TEXT, ""))
    figure = flow_panels(other.inputs, other.what_if.plain, "decoder", FIRST, True)
    titles = [panel.name for panel in figure.panels]
    assert titles[2] == "softmax: none pinned"
    assert max(map(len, titles)) <= 26  # longer ones run into each other
    assert np.isnan(figure.panels[2].values).all()


def test_orders_of_mask_and_softmax_stand_above_the_pinned_ones(pinned, monkeypatch):
    asked = []
    monkeypatch.setattr(experiments, "orders", lambda *head: asked.append(head) or orders(*head))
    figure, _sentence, table = experiments.order_panels(pinned.inputs, "decoder", FIRST, False)
    assert len(asked) == 2  # this head's and the pinned one's
    own, before = (orders(*head_tensors(trace, "decoder", FIRST)) for trace in (pinned.trace, pinned.pin.trace))
    names = [panel.name for panel in figure.panels]
    assert names[3:] == [f"{name}, pinned" for name in names[:3]]
    expected = [pinned.comparison.moved(f"{PATH}.weights", each.weights).numpy() for each in before]
    for drawn, wanted in zip(values(figure), [*(each.weights.numpy() for each in own), *expected], strict=True):
        assert np.allclose(drawn, wanted, atol=1e-6, equal_nan=True)
    visible = pinned.comparison.counterpart(f"{PATH}.visible").numpy()
    assert np.array_equal(~figure.panels[3].visible, visible == 0)  # NaN: seen, and painted as missing
    assert figure.panels[4].visible.all()
    table = table.set_index("")
    assert list(table.index[1::2]) == [f"{name}, pinned" for name in table.index[::2]]
    least = float(before[2].sums.min())
    assert float(table.loc["smallest row sum, pinned", "softmax, then 0"]) == pytest.approx(least, rel=6e-3)
    figure = experiments.order_panels(pinned.inputs, "decoder", FIRST, True)[0]
    assert len(figure.panels) == 3
    assert all(panel.scale.difference for panel in figure.panels)
    assert np.allclose(values(figure)[0], own[0].weights.numpy() - expected[0], atol=1e-6, equal_nan=True)
    both = np.isneginf(own[1].weights.numpy()) & np.isneginf(expected[1])
    assert both.any()
    assert not values(figure)[1][both].any()


def test_what_stands_for_infinity_is_measured_on_the_pinned_head_too(pinned):
    _sentence, table = experiments.fill_experiment(pinned.trace, "decoder", FIRST, pinned.comparison)
    scores, visible, _values = head_tensors(pinned.pin.trace, "decoder", FIRST)
    assert len(table.columns) == 7  # no wider than without a pin
    measured = [each.rpartition(" (pinned: ")[2].rstrip(")") for each in table["largest |row sum − 1|"]]
    assert [number(each) for each in measured] == pytest.approx(fills(scores, visible)["rows"], 6e-3)
    seen = table["a row with nothing to look at"]
    assert seen[0] == "NaN (pinned: NaN)"
    assert re.fullmatch(r"looks at all hidden keys: 0\.\d+ each \(pinned: 0\.\d+\)", seen[1])


def test_a_changed_future_is_changed_in_the_pinned_text_too(small, pinned):
    figure, sentence = experiments.future_chart(pinned.inputs, (), 2)
    assert [each.name for each in figure.series[2:]] == ["with the causal mask, pinned", "without it, pinned"]
    assert {each.colour for each in figure.series[2:]} == {PINNED}
    (source, target), places = pinned.pin.texts, pinned.comparison.target.places
    token, at = other_token(small, pinned.target.ids, 2), places[2]
    if token == target.ids[at]:
        token = other_token(small, target.ids, at)
    ids = [torch.tensor([each.ids]) for each in (source, target)]
    moved = future_change(small.network, ids, at, token, without_causal_mask(small.network)).numpy()
    expected = [moved[place] if place >= 0 else np.nan for place in places]
    assert np.allclose(of_now(figure.series[3].ys), expected, equal_nan=True)
    assert "In the pinned trace: with the causal mask 0 · without it " in sentence


def test_the_masks_of_a_padded_batch_have_their_shapes_and_the_pages_tokens(small):
    inputs = looking(small, TEXT).inputs
    figure, tokens = batch_panels(inputs, TEXT, [], (), "decoder", FIRST)[0], inputs.trace.target_tokens
    read, long = (len(figure.panels[place].columns.labels) for place in (0, 1))
    assert [(each.name, each.note) for each in figure.panels[:4]] == [  # claims 18 and 50
        ("padding, source", f"[batch, 1, 1, key] = [3, 1, 1, {read}]"),
        ("padding, target", f"[batch, 1, 1, key] = [3, 1, 1, {long}]"),
        ("causal", f"[1, 1, query, key] = [1, 1, {long}, {long}]"),
        ("text 1", "[0, 0, :, :]"),
    ]
    assert figure.caption.note == f"[batch, 1, query, key] = [3, 1, {long}, {long}]"
    texts = [each for each in figure.panels if each.name.startswith("text ")]
    assert [panel.visible.shape for panel in figure.panels] == [(3, read), (3, long), *[(long, long)] * 4]
    for axis in (axis for text in texts for axis in (text.rows, text.columns)):
        assert axis.side == "target"  # a token of another text lights up where the page's text has it
        known = [place for place in axis.places if place >= 0]
        assert known == sorted(set(known))
        assert known[0] == 0  # all begin alike
        pairs = zip(axis.labels, axis.places, strict=True)
        assert all(place < 0 or label == tokens[place] for label, place in pairs)
    assert texts[0].rows.places == [*range(len(tokens)), *[-1] * (len(texts[0].rows.labels) - len(tokens))]


def test_a_padded_batch_is_framed_where_the_pinned_one_is_other(small, pinned):
    figure, table, _lacking = batch_panels(pinned.inputs, OTHER, [], (), "encoder", FIRST)
    assert len(table.columns) == 4  # no wider than without a pin
    texts = [[text, *parts_of(text)[1:]] for text in (OTHER, TEXT)]
    names = [[small.source_tokens(text).labels for text in each] for each in texts]
    plain = ["".join(labels).replace("▁", " ").strip() for pair in zip(*names, strict=True) for labels in pair]
    assert table["text"].tolist() == [f"{name}, pinned" if place % 2 else name for place, name in enumerate(plain)]
    assert table["|Δlogit|, padding masked"].max() < 1e-4
    assert (table["|Δlogit|, padding seen"][2:] > 1e-3).all()
    assert "framed: unlike the pinned" in figure.caption.note
    here, there = ([len(small.source_tokens(part)) for part in parts_of(text)] for text in (OTHER, TEXT))
    framed = figure.panels[0].changed
    for row, own, other in zip(framed, here, there, strict=True):
        both = range(min(max(here), max(there)))
        assert [place for place in both if row[place]] == [p for p in both if (p < own) != (p < other)]
    assert framed.any()


def test_the_pinned_batch_is_made_once(small, pinned, monkeypatch):
    made, own = [], batch.batch_of
    monkeypatch.setattr(batch, "batch_of", lambda model, text, *more: made.append(text) or own(model, text, *more))
    for text in (OTHER, "The dog."):
        pinned.trace_input(small, text, "")
        table = batch_panels(pinned.inputs, text, [], (), "decoder", FIRST)[1]
    assert made == [OTHER, TEXT, "The dog."]
    assert any("pinned" in text for text in table["text"])


def test_a_pin_of_another_kind_is_a_sentence(small, tmp_path):
    inputs = looking(small, OTHER, pinned=(write(tmp_path / "other", "encoder-only"), TEXT, "")).inputs
    assert "has no such head" in experiments.order_panels(inputs, "decoder", FIRST, False)[1]
    assert "of another kind" in experiments.future_chart(inputs, (), 2)[1]


def test_with_a_pin_the_page_shows_one_difference_at_a_time(small):
    session = looking(small, OTHER, pinned=(small, TEXT, ""), changes="decoder:causal:off")
    inputs, before, comparison = session.inputs, session.what_if.plain, session.comparison
    for difference, name, logits in (
        (False, "before", before["output.logits"]),
        (True, "pinned", comparison.counterpart("output.logits")),
    ):
        reference = Reference.of(inputs, before, difference)
        first, now = tops_chart(inputs, reference, 1).series
        assert [first.name, now.name] == [name, "now"]
        assert set(first.ys.round(5)) <= set(logits[1].softmax(-1).numpy().round(5))
        assert len(predictions_chart(inputs, reference, 1).series) == 1
        assert len(flow_panels(inputs, before, "decoder", FIRST, difference).panels) == (4 if difference else 8)
    heads = where_panels(inputs, before, KINDS, "decoder", FIRST, True)
    assert "pinned" in heads.caption.sentence
    for drawn, kind in zip(values(heads), KINDS, strict=True):
        rows = comparison.changes[
            (comparison.changes["kind"] == "head") & comparison.changes["name"].str.contains(f"{kind}(?!.*cross)")
        ]
        assert np.allclose(np.sort(drawn.flatten()), np.sort(rows["change"].astype(float)), atol=1e-6)
    table = cells_table(inputs, before, "decoder", FIRST)
    expected = comparison.counterpart(f"{PATH}.weights")[0].flatten()
    assert np.allclose(table["weight, pinned"], expected, atol=1e-6, equal_nan=True)


def test_layers_that_are_pinned_have_their_mean_though_another_is_not(small, tmp_path):
    shallow = small_model(tmp_path / "shallow", n_decoder_layers=1)
    session = looking(small, OTHER, pinned=(shallow, TEXT, "一七丞世"), changes="decoder:causal:off")
    figure = where_panels(session.inputs, session.what_if.plain, KINDS, "decoder", FIRST, True)
    changes = values(figure)
    assert np.isfinite(changes[1][0]).all()
    assert np.isnan(changes[1][1]).all()
    means = [f"mean {significant(float(np.nanmean(each)))}" for each in changes[1:]]
    assert [panel.note for panel in figure.panels][1:] == means
