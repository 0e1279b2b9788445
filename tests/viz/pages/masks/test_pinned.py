"""The pin on the page of masks: every experiment beside the pinned trace, at the same tokens."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import viz.pages.masks.experiments
from model.analysis.masking import fills, future_change, orders, without_causal_mask
from tests.app_reading import opened, sent, type_in
from tests.test_app_kinds import write
from tests.viz.pages.masks.test_page import TEXT, panels
from tests.viz.small import small_model
from viz.i18n.format import significant
from viz.pages.masks import batch
from viz.pages.masks.batch import parts_of
from viz.pages.masks.pinned import head_tensors, other_token

OTHER = "The cat sees the bird."
HEAD = {"layer": "0", "head": "0"}
PATH = "decoder.layers.0.self_attention"


def pinned(**address: str):
    """The page of masks with TEXT pinned and OTHER shown, its targets written by the model; and its session."""
    app = opened("masks", source=TEXT, **(HEAD | address))
    session = app.session_state["session"]
    session.keep()
    type_in(app, "source", OTHER)
    assert not app.exception
    return app, session


def markdown(app) -> str:
    return " ".join(each.value for each in app.markdown)


def test_orders_of_mask_and_softmax_stand_above_the_pinned_ones(small, monkeypatch):
    app, session = pinned(mask_experiment="order")
    asked = []
    monkeypatch.setattr(viz.pages.masks.experiments, "orders", lambda *head: asked.append(head) or orders(*head))
    app.run()
    assert len(asked) == 2  # this head's and the pinned one's
    header, values, flags = panels(app, "masks-order")
    own, before = (
        orders(*head_tensors(trace, "decoder", session.fit_selection(1, 1, 1)))
        for trace in (session.trace, session.pin.trace)
    )
    names = [panel["name"] for panel in header["panels"]]
    assert names[3:] == [f"{name}, pinned" for name in names[:3]]
    expected = [session.comparison.moved(f"{PATH}.weights", each.weights).numpy() for each in before]
    for found, wanted in zip(values, [*(each.weights.numpy() for each in own), *expected], strict=True):
        assert np.allclose(found, wanted, atol=1e-6, equal_nan=True)
    visible = session.comparison.counterpart(f"{PATH}.visible").numpy()
    assert np.array_equal(flags[3] == 0, visible == 0)  # NaN: seen, and painted as missing
    assert flags[4].all()
    table = app.table[0].value.set_index("")
    assert list(table.index[1::2]) == [f"{name}, pinned" for name in table.index[::2]]
    least = float(before[2].sums.min())
    assert float(table.loc["smallest row sum, pinned", "softmax, then 0"]) == pytest.approx(least, rel=6e-3)
    session.differing = True
    header, values, _flags = panels(app.run(), "masks-order")
    assert len(values) == 3
    assert all(panel["scale"]["difference"] for panel in header["panels"])
    assert np.allclose(values[0], own[0].weights.numpy() - expected[0], atol=1e-6, equal_nan=True)
    both = np.isneginf(own[1].weights.numpy()) & np.isneginf(expected[1])
    assert both.any()
    assert not values[1][both].any()


def test_what_stands_for_infinity_is_measured_on_the_pinned_head_too(small):
    app, session = pinned(mask_experiment="numbers")
    table = app.dataframe[0].value
    scores, visible, _values = head_tensors(session.pin.trace, "decoder", session.fit_selection(1, 1, 1))
    expected = fills(scores, visible)["rows"]
    assert len(table.columns) == 7  # no wider than without a pin
    found = [each.rpartition(" (pinned: ")[2] for each in table["largest |row sum − 1|"]]
    assert [float(each.rstrip(")").replace("−", "-")) for each in found] == pytest.approx(expected, rel=6e-3)
    seen = table["a row with nothing to look at"]
    assert seen[0] == "NaN (pinned: NaN)"
    assert re.fullmatch(r"looks at all hidden keys: 0\.\d+ each \(pinned: 0\.\d+\)", seen[1])


def test_a_changed_future_is_changed_in_the_pinned_text_too(small):
    app, session = pinned(mask_experiment="future", future="2")
    header, arrays = sent(app, "future")
    names = [each["name"] for each in header["series"]]
    assert names[2:] == ["with the causal mask, pinned", "without it, pinned"]
    assert {each["colour"] for each in header["series"][2:]} == {"#963cbe"}
    source, target = session.pin.texts
    places = session.comparison.target.places
    token = other_token(small, session.target.ids, 2)
    at = places[2]
    if token == target.ids[at]:
        token = other_token(small, target.ids, at)
    ids = [torch.tensor([each.ids]) for each in (source, target)]
    moved = future_change(small.network, ids, at, token, without_causal_mask(small.network)).numpy()
    expected = [moved[place] if place >= 0 else np.nan for place in places]
    assert np.allclose(arrays[7], expected, equal_nan=True)
    assert "In the pinned trace: with the causal mask 0 · without it " in markdown(app)


def test_a_padded_batch_is_framed_where_the_pinned_one_is_other(small):
    app, _bench = pinned(mask_experiment="batch", masked="encoder")
    table = app.dataframe[0].value
    assert len(table.columns) == 4  # no wider than without a pin
    texts = [[text, *parts_of(text)[1:]] for text in (OTHER, TEXT)]
    names = [[small.source_tokens(text).labels for text in each] for each in texts]
    plain = ["".join(labels).replace("▁", " ").strip() for pair in zip(*names, strict=True) for labels in pair]
    assert table["text"].tolist() == [f"{name}, pinned" if place % 2 else name for place, name in enumerate(plain)]
    assert table["|Δlogit|, padding masked"].max() < 1e-4
    assert (table["|Δlogit|, padding seen"][2:] > 1e-3).all()
    header, _values, flags = panels(app, "masks-batch")
    assert "framed: unlike the pinned" in header["note"]
    here, there = ([len(small.source_tokens(part)) for part in parts_of(text)] for text in (OTHER, TEXT))
    for row, own, other in zip(flags[0], here, there, strict=True):
        both = range(min(max(here), max(there)))
        assert [place for place in both if row[place] & 2] == [p for p in both if (p < own) != (p < other)]
    assert (flags[0] & 2).any()


def test_the_pinned_batch_is_made_once_whatever_is_typed(small, monkeypatch):
    made, own = [], batch.batch_of
    monkeypatch.setattr(batch, "batch_of", lambda model, text, *more: made.append(text) or own(model, text, *more))
    app, _bench = pinned(mask_experiment="batch")
    type_in(app, "source", "The dog.")
    assert not app.exception
    assert made == [TEXT, OTHER, TEXT, "The dog."]
    assert any("pinned" in text for text in app.dataframe[0].value["text"])


@pytest.mark.parametrize("experiment", ["order", "future"])
def test_a_pin_of_another_kind_is_a_sentence(small, tmp_path, experiment):
    app, session = pinned(mask_experiment=experiment)
    other = write(tmp_path / "other", "encoder-only")
    texts = (other.source_tokens(TEXT), None)
    session.pin = replace(session.pin, trace=other.trace(TEXT), model=other, texts=texts)
    app.run()
    assert not app.exception
    reason = "has no such head" if experiment == "order" else "of another kind"
    assert reason in markdown(app)


def test_the_effects_of_a_change_stand_beside_the_pin(small):
    app, session = pinned(changes="decoder:causal:off", mask_place="1")
    header, arrays = sent(app, "mask_tops")
    assert header["series"][-1]["name"] == "pinned"
    probabilities = session.comparison.counterpart("output.logits")[1].softmax(-1)
    assert set(arrays[-1].round(5)) <= set(probabilities.numpy().round(5))
    session.differing = True
    app.session_state["mask_data"] = True
    app.run()
    header, arrays = sent(app, "mask_where")
    assert "pinned" in header["sentence"]
    changes = session.comparison.changes
    for panel, path in zip(arrays[::2], ["encoder", "decoder", "cross"], strict=True):
        rows = changes[(changes["kind"] == "head") & changes["name"].str.contains(f"{path}(?!.*cross)")]
        assert np.allclose(np.sort(panel.flatten()), np.sort(rows["change"].astype(float)), atol=1e-6)
    table = next(each.value for each in app.dataframe if "weight, pinned" in each.value)
    expected = session.comparison.counterpart(f"{PATH}.weights")[0].flatten()
    assert np.allclose(table["weight, pinned"], expected, atol=1e-6, equal_nan=True)


def test_layers_that_are_pinned_have_their_mean_though_another_is_not(small, tmp_path):
    app, session = pinned(changes="decoder:causal:off")
    shallow = small_model(tmp_path / "shallow", n_decoder_layers=1)
    trace = shallow.trace(TEXT, "一七丞世")
    texts = (shallow.source_tokens(TEXT), shallow.target_tokens("一七丞世"))
    session.pin, session.differing = replace(session.pin, trace=trace, model=shallow, texts=texts), True
    header, arrays = sent(app.run(), "mask_where")
    assert not app.exception
    changes = arrays[2]
    assert np.isfinite(changes[0]).all()
    assert np.isnan(changes[1]).all()
    assert [panel["note"] for panel in header["panels"]][1:] == [
        f"mean {significant(float(np.nanmean(array)))}" for array in arrays[2::2]
    ]
