"""Importance of heads beside a pinned trace: what both were measured for is compared, and nothing else."""

from __future__ import annotations

import numpy as np

from tests.app_reading import opened, sent, sound, type_in
from tests.test_app_kinds import write
from tests.viz.pages.attention.importance_page import TEXT, importance
from viz.i18n.format import significant
from viz.pages.attention import importance as attention_measuring
from viz.pages.attention.importance import Part
from viz.state.session import Key


def test_the_pinned_trace_is_compared_with_where_it_was_measured(small):
    app = importance()
    session = app.session_state[Key.SESSION]
    session.keep()
    before = sent(app, Part.EFFECTS)[1][0]
    type_in(app, "source", "The dog sees.")
    now = sent(sound(app), Part.EFFECTS)[1][0]
    assert len(sent(app, Part.RANKING)[0]["series"]) == 2
    session.differing = True
    app.run()
    header, arrays = sent(app, Part.EFFECTS)
    assert header["panels"][0]["scale"]["difference"]
    assert np.allclose(arrays[0], now - before, atol=1e-6)


def beside_a_pinned_model(here, kind, text, **options):
    """A predicting encoder with differences on, beside a pinned model of this kind."""
    write(here / "a", kind, **options)
    write(here / "b", "encoder-only")
    app = sound(opened(source=text, below="importance", model="a"))
    session = app.session_state[Key.SESSION]
    session.keep()
    session.differing = True
    app.selectbox(key="model").set_value("b").run()
    return sound(app)


def test_heads_that_a_pinned_model_lacks_have_no_part_in_the_mean(here):
    app = beside_a_pinned_model(here, "encoder-only", TEXT, n_heads=1)
    header, arrays = sent(app, Part.EFFECTS)
    assert np.isfinite(arrays[0]).ravel().tolist() == [True, False, True, False]
    assert header["panels"][0]["note"] == f"mean {significant(float(np.nanmean(arrays[0])))}"


def test_a_pinned_model_that_shares_no_head_has_no_mean(here):
    app = beside_a_pinned_model(here, "decoder-only", TEXT)
    header, arrays = sent(app, Part.EFFECTS)
    assert np.isnan(arrays[0]).all()
    assert header["panels"][0]["note"] == ""


def test_a_pinned_model_that_predicts_nothing_is_not_subtracted(here):
    app = beside_a_pinned_model(here, "encoder-only", TEXT, output_head="none")
    header, arrays = sent(app, Part.EFFECTS)
    kept = app.session_state[Key.SESSION].memory[attention_measuring.KEPT][-1].measuring.effects
    assert not header["panels"][0]["scale"]["difference"]
    assert np.allclose(arrays[0].ravel(), [effect.loss for effect in kept.values()], atol=1e-6)
    assert len(sent(app, Part.RANKING)[0]["series"]) == 1
    assert any("different quantities" in each.value for each in app.caption)
    assert not any("was not measured" in each.value for each in app.caption)


def test_a_pinned_trace_that_was_not_measured_is_a_sentence(small):
    app = opened(source=TEXT)
    app.session_state[Key.SESSION].keep()
    type_in(app, "source", "The dog sees.")
    app.session_state["below"] = "importance"
    app.run()
    assert any("was not measured" in each.value for each in sound(app).caption)
