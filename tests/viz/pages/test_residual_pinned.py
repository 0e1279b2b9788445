"""The pin on the page of norms and the residual stream: what stands beside, or why nothing does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from model.analysis.dropout import over_masks
from model.analysis.residual import blocks
from tests.app_reading import opened, sent, sound
from tests.test_app_kinds import write
from tests.viz.pages.positions_page import TEXT
from viz.packing.placement import differences

OTHER = "The cat sees the bird."


@pytest.fixture
def pinned(small):
    app = opened("residual", source=TEXT, target="一七丞世", layer="0", query="1")
    bench = app.session_state["workbench"]
    bench.keep()
    app.text_input(key="source").set_value(OTHER).run()
    return sound(app), bench


def turned(app, **choices):
    for name, value in choices.items():
        app.session_state[name] = value
    return sound(app.run())


def test_dropout_is_measured_on_the_pinned_vector_too(pinned):
    app, bench = pinned
    app = turned(app, residual_view="dropout", query="1")
    rate, masks = app.number_input[0].value, 1000
    name = "decoder.layers.0.feed_forward.output"
    x = bench.comparison.counterpart(name)[1]
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
    app, bench = pinned
    inserted = bench.comparison.source.places.index(-1)
    bench.select(query=inserted)
    app = turned(app, residual_view="dropout", stack="encoder")
    for key in ("residual_entries", "residual_second"):
        header, _arrays = sent(app, key)
        assert header["sentence"] == "this token is not in the pinned text"
        assert not any("pinned" in each["name"] for each in header["series"])


def test_placement_is_said_and_measured_for_the_pinned_model(pinned, tmp_path, small):
    app, bench = pinned
    app = turned(app, residual_view="placement", residual_data=True)
    header, _arrays = sent(app, "residual_wires")
    assert header["sentence"] == "this model: pre-norm · pre-norm, pinned"
    header, arrays = sent(app, "residual_second")
    last = [block for block in blocks(small.config, "decoder") if block.sublayer == "feed_forward"]
    for trace, first in ((bench.trace, 1), (bench.pin.trace, 3)):
        assert np.allclose(arrays[first::4], list(differences(trace, last).values()))
    assert not np.allclose(arrays[1::4], arrays[3::4])
    other = write(tmp_path / "other", "encoder-only", norm="none")
    bench.pin = replace(bench.pin, lens=other, trace=other.trace(TEXT))
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
    app.text_input(key="source").set_value(TEXT).run()
    kept = sound(app).selectbox(key="residual_data_of")
    assert kept.value == chosen.value == 1
