"""The pin on the page of norms and the residual stream: what stands beside, or why nothing does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from model.analysis.dropout import over_masks
from model.analysis.norms import form_gap
from model.analysis.residual import blocks
from model.checkpoints.load import open_checkpoint
from tests.app_reading import opened, sent, sound, type_in
from tests.test_app_kinds import write
from tests.viz.pages.positions.positions_page import TEXT
from tests.viz.small import write_small
from viz.pages.residual import dropout
from viz.pages.residual.placement import differences

OTHER = "The cat sees the bird."


@pytest.fixture
def pinned(small):
    app = opened("residual", source=TEXT, target="一七丞世", layer="0", query="1")
    session = app.session_state["session"]
    session.keep()
    type_in(app, "source", OTHER)
    return sound(app), session


def turned(app, **choices):
    for name, value in choices.items():
        app.session_state[name] = value
    return sound(app.run())


def test_dropout_is_measured_on_the_pinned_vector_too(pinned):
    app, session = pinned
    app = turned(app, residual_view="dropout", query="1")
    rate, masks = app.number_input[0].value, 1000
    name = "decoder.layers.0.feed_forward.output"
    x = session.comparison.counterpart(name)[1]
    found = over_masks(x, rate, masks, f"dropout {rate} {masks}")
    header, arrays = sent(app, "residual_second")
    assert header["series"][-1]["name"] == "measured, pinned"
    assert np.allclose(arrays[-1], found.errors)
    header, arrays = sent(app, "residual_entries")
    assert header["series"][-1]["name"] == "mean over the masks, pinned"
    order = x.argsort()
    assert np.allclose(arrays[-2], x[order])
    assert np.allclose(arrays[-1], found.mean[order])  # the draw that the table is of
    (table,) = [each.value for each in app.dataframe if "measured, pinned" in each.value]
    size = float(x.square().sum())
    slope = float((found.mean * x).sum()) / size
    expected = [found.kept, slope, slope * (1 - rate), float(found.variance.sum()) / size]
    assert table["measured, pinned"].tolist() == pytest.approx(expected, rel=1e-5)


def test_a_token_that_is_not_in_the_pinned_text_is_said_to_be_none(pinned):
    app, session = pinned
    inserted = session.comparison.source.places.index(-1)
    session.select(query=inserted)
    app = turned(app, residual_view="dropout", stack="encoder")
    for key in ("residual_entries", "residual_second"):
        header, _arrays = sent(app, key)
        assert header["sentence"] == "this token is not in the pinned text"
        assert not any("pinned" in each["name"] for each in header["series"])
    for view in ("norms", "forms"):
        header, _arrays = sent(turned(app, residual_view=view, stack="encoder"), "residual_second")
        assert header["sentence"] == "this token is not in the pinned text"
        assert not any("pinned" in each["name"] for each in header["series"])
    (table,) = [each.value for each in app.dataframe]
    assert not [name for name in table if "pinned" in name]  # it is of this token
    assert not table.isna().any(axis=None)


def test_the_pinned_weights_of_a_norm_are_drawn_where_they_are_others(pinned, tmp_path, small):
    app, session = pinned
    header, _arrays = sent(turned(app, residual_view="norms"), "residual_third")
    assert header["sentence"] == "the pinned ones are the same"
    assert [each["name"] for each in header["series"]] == ["γ", "β"]
    other = open_checkpoint(write_small(tmp_path / "other", seed=5))
    session.pin = replace(session.pin, model=other, trace=other.trace(TEXT))
    header, arrays = sent(sound(app.run()), "residual_third")
    assert [each["name"] for each in header["series"]] == ["γ", "γ, pinned", "β", "β, pinned"]
    norm = other.network.get_submodule(header["file"].removeprefix("norm-weights-"))
    assert np.allclose(arrays[3], norm.weight.detach())
    assert not np.allclose(arrays[3], arrays[1])


def test_the_forms_of_the_pinned_input_stand_in_the_table(pinned):
    app, session = pinned
    session.select(query=0)
    app = turned(app, residual_view="forms", stack="encoder")
    (table,) = [each.value for each in app.dataframe]
    kept = session.comparison.counterpart("encoder.layers.0.self_attention_block.norm.input")
    eps = app.session_state["session"].model.config.norm_epsilon
    variance = float(kept[0].double().var(correction=0))
    expected = [(variance + eps) ** 0.5, variance**0.5 + eps]
    assert table["divides by, pinned"][:2].tolist() == pytest.approx(expected, rel=1e-6)
    gaps = [form_gap(kept[0], eps, form) for form in ("layer", "textbook", "textbook-sample")]
    assert table["relative difference, pinned"].tolist() == pytest.approx(gaps)


def test_masks_are_put_on_the_pinned_vector_once(pinned, monkeypatch):
    drawn, own = [], dropout.over_masks
    monkeypatch.setattr(dropout, "over_masks", lambda x, *more: drawn.append(x) or own(x, *more))
    app, session = pinned
    app = turned(app, residual_view="dropout", query="1")
    app = turned(app, residual_view="dropout")
    x = session.comparison.counterpart("decoder.layers.0.feed_forward.output")[1]
    assert sum(bool(np.array_equal(each, x)) for each in drawn) == 1
    session.select(query=2)
    sound(app.run())
    assert len({tuple(each.tolist()) for each in drawn}) > 2  # another token is another vector


def test_placement_is_said_and_measured_for_the_pinned_model(pinned, tmp_path, small):
    app, session = pinned
    app = turned(app, residual_view="placement", residual_data=True)
    header, _arrays = sent(app, "residual_wires")
    assert header["sentence"] == "this model: pre-norm · pre-norm, pinned"
    header, arrays = sent(app, "residual_second")
    last = [block for block in blocks(small.config, "decoder") if block.sublayer == "feed_forward"]
    for trace, first in ((session.trace, 1), (session.pin.trace, 3)):
        assert np.allclose(arrays[first::4], list(differences(trace, last).values()))
    assert not np.allclose(arrays[1::4], arrays[3::4])
    other = write(tmp_path / "other", "encoder-only", norm="none")
    session.pin = replace(session.pin, model=other, trace=other.trace(TEXT))
    app = turned(app, stack="decoder")
    header, _arrays = sent(app, "residual_wires")
    assert header["sentence"] == "this model: pre-norm · no norm, pinned"
    header, _arrays = sent(app, "residual_second")
    assert "values are shown" in header["sentence"]
    assert not any("pinned" in each["name"] for each in header["series"])


def test_the_chosen_table_stays_while_a_view_has_it_and_no_other_takes_its_number(pinned):
    app, _bench = pinned
    app = turned(app, residual_view="norms", residual_data=True, residual_data_of=2)
    table = app.selectbox(key="residual_data_of")
    assert len(table.options) > 2
    app = turned(app, residual_view="dropout")
    assert app.selectbox(key="residual_data_of").value == 0
    app = turned(app, residual_data_of=1)
    chosen = app.selectbox(key="residual_data_of")
    type_in(app, "source", TEXT)
    kept = sound(app).selectbox(key="residual_data_of")
    assert kept.value == chosen.value == 1
