"""The pin on the page of the feed-forward network: what a unit reads and writes, and positions apart, beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from model.analysis.feed_forward import SMALL, positions_apart, read_scores, shares_off, write_scores
from model.checkpoints.load import open_checkpoint
from tests.app_reading import opened, sent, sound
from tests.test_app_kinds import write
from tests.viz.small import write_small
from viz.pages.feed_forward import layer
from viz.ui.plots import PINNED

SOURCE, TARGET, OTHER = "The cat sees the dog.", "一七丞世", "The dog sees the dog."
ADDRESS = {"source": SOURCE, "target": TARGET, "stack": "decoder", "layer": "1", "unit": "5"}


@pytest.fixture
def beside(small, here):
    """The page with another checkpoint's trace of another text pinned; that checkpoint, and the session."""
    other = open_checkpoint(write_small(here / "other", seed=1))
    app = opened("feed_forward", **ADDRESS, model="small")
    session = app.session_state["session"]
    session.keep()
    session.pin = replace(session.pin, model=other, trace=other.trace(OTHER, TARGET))
    return sound(app.run()), session, other


def test_the_strongest_of_all_units_stand_beside_in_the_colour_of_the_pin(beside):
    app, session, _other = beside
    header, arrays = sent(app, "units_all")
    own, before, _shown = header["series"]
    assert (before["name"], before["colour"]) == ("largest |a|, pinned", PINNED)
    assert own["colour"] != PINNED
    units = session.comparison.counterpart("decoder.layers.1.feed_forward.activation")
    assert sorted(arrays[3]) == pytest.approx(sorted(np.nanmax(units.abs().numpy(), axis=0)))


def captions(app) -> str:
    return " ".join(each.value for each in app.caption)


@pytest.mark.parametrize(("key", "scores"), [("units_second", write_scores), ("units_third", read_scores)])
def test_a_unit_reads_and_writes_beside_the_pinned_models(beside, small, key, scores):
    app, _bench, other = beside
    header, arrays = sent(app, key)
    assert header["series"][1]["colour"] == PINNED
    assert header["series"][1]["name"].endswith(", pinned")
    labels = [small.target_tokenizer.label(token) for token in range(len(small.target_tokenizer))]
    ids = [labels.index(label) for label in header["x"]["labels"]]
    for ys, model in ((arrays[1], small.network), (arrays[3], other.network)):
        assert np.allclose(ys, scores(model, "decoder", 1, 5)[ids], atol=1e-6)
    assert "pinned: " in header["alt"]


def test_shares_and_the_table_of_units_have_the_pinned_numbers(beside):
    app, session, _other = beside
    units = session.comparison.counterpart("decoder.layers.1.feed_forward.activation")
    share = float(shares_off(units, 0.0).nanmean())
    assert any(f"pinned, at the tokens of both: **{share:.1%}**" in each.value for each in app.markdown)
    app.session_state["units_data"] = True
    (table,) = [each.value for each in sound(app.run()).dataframe]
    own = session.trace["decoder.layers.1.feed_forward.activation"]
    strongest = own.abs().argmax(dim=0)
    assert np.allclose(table["activation, pinned"], units.gather(0, strongest[None])[0], equal_nan=True)


def test_the_pinned_share_is_told_by_what_is_off_in_the_pinned_model(beside, here):
    app, session, _other = beside
    gelu = open_checkpoint(write_small(here / "gelu", activation="gelu"))
    session.pin = replace(session.pin, model=gelu, trace=gelu.trace(OTHER, TARGET))
    app = sound(app.run())
    units = session.comparison.counterpart("decoder.layers.1.feed_forward.activation")
    shares = [float(shares_off(units, largest).nanmean()) for largest in (SMALL, 0.0)]
    assert f"{shares[0]:.1%}" != f"{shares[1]:.1%}"
    assert any(f"pinned, at the tokens of both: **{shares[0]:.1%}**" in each.value for each in app.markdown)


def test_the_pinned_numbers_are_computed_once(beside, monkeypatch):
    app, _bench, other = beside
    asked = []
    for name in ("write_scores", "read_scores"):
        own = getattr(layer, name)
        spy = lambda model, *of, own=own: asked.append(model is other.network) or own(model, *of)  # noqa: E731
        monkeypatch.setattr(layer, name, spy)
    app.run()
    assert asked == [True, True]
    app.text_input(key="source").set_value(OTHER).run()
    assert sent(sound(app), "units_second")[0]["series"][1]["colour"] == PINNED
    assert asked == [True, True]


def test_positions_are_apart_in_the_pinned_model_too(beside):
    app, session, _other = beside
    app.session_state["look"] = "apart"
    (table,) = [each.value for each in sound(app.run()).dataframe]
    places = list(reversed(range(len(session.pin.trace.target_tokens))))
    expected = positions_apart(session.pin.trace, "decoder", 1, places).attention_alone
    assert table["largest difference, pinned"][2] == pytest.approx(expected, rel=1e-3)


def test_what_cannot_be_compared_is_a_sentence(beside, small, tmp_path):
    app, session, _other = beside
    session.keep()
    assert "of the same weights" in captions(sound(app.run()))
    assert len(sent(app, "units_third")[0]["series"]) == 1
    stranger = write(tmp_path / "stranger", "decoder-only")
    session.pin = replace(session.pin, model=stranger, trace=stranger.trace(SOURCE))
    assert "other words" in captions(sound(app.run()))
    shallow = write(tmp_path / "shallow", "encoder-only")
    session.pin = replace(session.pin, model=shallow, trace=shallow.trace(SOURCE))
    assert "no such layer" in captions(sound(app.run()))
    assert any("pinned: nothing of this shape" in each.value for each in app.markdown)
    app.session_state["look"] = "apart"
    assert "no such layer" in captions(sound(app.run()))
