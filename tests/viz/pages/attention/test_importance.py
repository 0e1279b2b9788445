"""Importance under the heads: what is sent is what the model loses, and a button takes a head out of it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from model.analysis.head_importance import Removals
from model.analysis.head_metrics import likeness
from model.capture.interventions import RemovedHead
from model.runtime import cancellation
from tests.app_reading import component, heads, opened, sent, sound, type_in
from tests.test_app_kinds import write
from tests.viz.pages.attention.importance_page import KINDS, effects, importance, words
from tests.viz.pages.training.training_page import demonstrated, short_trainings
from viz.pages.attention import importance as attention_measuring
from viz.pages.attention.importance import Part
from viz.state import training
from viz.state.session import Key


def test_every_head_of_every_kind_is_coloured_by_what_its_loss_costs(small):
    app = sound(importance())
    found = effects(small)
    header, arrays = sent(app, Part.EFFECTS)
    for index, kind in enumerate(KINDS):
        expected = [[found[kind, layer, head].loss for head in range(2)] for layer in range(2)]
        assert np.allclose(arrays[2 * index].reshape(2, 2), expected, atol=1e-5)
    assert [panel["name"] for panel in header["panels"]] == ["Encoder", "Decoder", "Cross"]
    assert header["panels"][0]["scale"]["high"] == pytest.approx(max(abs(arrays[2 * i]).max() for i in range(3)))
    assert header["alt"].startswith("Without each head")


def test_the_order_is_that_of_the_costs_and_the_verdict_counts(small):
    app = sound(importance())
    kept = app.session_state[Key.SESSION].memory[attention_measuring.KEPT][-1].measuring.effects
    ranked = sorted(kept, key=lambda place: -kept[place].loss)
    header, (_places, costs) = sent(app, Part.RANKING)
    assert np.allclose(costs, [kept[place].loss for place in ranked], atol=1e-6)
    assert header["x"]["labels"][0] == f"{ranked[0][0].capitalize()} {ranked[0][1] + 1}.{ranked[0][2] + 1}"
    free = sum(effect.loss < 0.01 for effect in kept.values())
    assert f"**{free} of 12 heads**" in words(app)


def test_likeness_is_of_the_chosen_head(small):
    app = sound(importance(attention="decoder", layer="1", head="0"))
    session = app.session_state[Key.SESSION]
    expected = likeness(session.trace, "decoder", 1, 0)
    header, arrays = sent(app, Part.ALIKE)
    assert header["name"] == "Heads like 2.1"
    assert np.allclose(arrays[0].reshape(2, 2), 1 - expected.maps.numpy(), atol=1e-6)
    assert np.allclose(arrays[2].reshape(2, 2), expected.outputs.numpy(), atol=1e-6)
    nearest = expected.nearest(1, 0)
    assert f"Most alike: **{nearest[0] + 1}.{nearest[1] + 1}**" in words(app)


def test_a_button_removes_the_head_from_every_page_and_restores_it(small):
    app = importance(attention="decoder", layer="1", head="0")
    session = app.session_state[Key.SESSION]
    before = session.trace["output.logits"]
    app.button(key=Part.REMOVE).click().run()
    app = sound(app)
    assert session.what_if.changes == (RemovedHead("decoder", 1, 0),)
    assert app.query_params["changes"] in ("decoder.1.0:remove", ["decoder.1.0:remove"])
    assert not session.trace["decoder.layers.1.self_attention.heads"][0].any()
    assert float((session.trace["output.logits"] - before).abs().max()) > 1e-4
    assert component(app, "token_bar")["changed"]["text"] == "Decoder: Layer 2, head 1 removed"
    assert heads(app)[0]["notes"][2] == "✕"
    assert all(badge["passed"] for badge in component(app, "token_bar")["badges"])
    assert "**Layer 2, head 1** is removed" in words(app)
    assert "of 11 heads" in words(app)
    flags = sent(app, Part.EFFECTS)[1][3].reshape(2, 2)
    assert (flags & 2).tolist() == [[0, 0], [2, 0]]
    app.switch_page("viz/pages/predictions/page.py").run()
    assert component(sound(app), "token_bar")["changed"]["text"]
    app.switch_page("viz/pages/attention/page.py").run()
    app.button(key=Part.REMOVE).click().run()
    assert session.what_if.changes == ()
    assert session.trace["output.logits"].equal(before)


def test_it_follows_typing(small):
    app = importance()
    first = sent(app, Part.EFFECTS)[1][0]
    type_in(app, "source", "The dog sees.")
    assert not np.array_equal(sent(sound(app), Part.EFFECTS)[1][0], first)


def test_what_takes_long_waits_for_a_button_and_can_be_cancelled(small, monkeypatch):
    monkeypatch.setattr(attention_measuring, "QUICK", 0.0)
    monkeypatch.setattr(attention_measuring, "LIGHT", 0.0)
    app = sound(importance())
    assert not [e for e in app.get("bidi_component") if e.proto.id.endswith(f"-{Part.EFFECTS}")]
    assert "Measure 12 heads" in app.button(key=Part.MEASURE).label
    app.button(key=Part.MEASURE).click().run()
    assert sent(sound(app), Part.EFFECTS)
    going = app.session_state[Key.SESSION].memory[attention_measuring.KEPT][-1].measuring
    assert going.complete


def test_what_was_cancelled_is_offered_again_and_gone_on_with(small, monkeypatch):
    begun, go, measured = threading.Event(), threading.Event(), Removals.without_each

    def slow(removals, group):
        begun.set()
        while not go.is_set():
            cancellation.check()
        return measured(removals, group)

    for name in ("QUICK", "LIGHT"):
        monkeypatch.setattr(attention_measuring, name, 0.0)
    monkeypatch.setattr(attention_measuring, "WAIT", 0.0)
    app = sound(importance())
    monkeypatch.setattr(Removals, "without_each", slow)
    app.button(key=Part.MEASURE).click().run()
    assert begun.wait(60)
    going = app.session_state[Key.SESSION].memory[attention_measuring.KEPT][-1].measuring
    sound(app).button(key=f"{Part.BAR}_cancel").click().run()
    assert going.wait(60)
    go.set()
    sound(app.run()).button(key=Part.MEASURE).click().run()
    assert going.wait(60)
    assert sent(sound(app.run()), Part.EFFECTS)


def test_half_the_heads_are_not_shown_as_all(small, monkeypatch):
    """A bridged model's code can raise anything."""
    measured = Removals.without_each

    def astray(removals, group):
        if group.kind != "encoder":
            raise TypeError("no such argument")
        return measured(removals, group)

    monkeypatch.setattr(Removals, "without_each", astray)
    app = importance()
    assert not app.exception
    assert not [e for e in app.get("bidi_component") if e.proto.id.endswith(f"-{Part.EFFECTS}")]
    assert [each.value for each in app.error] == [
        "computing this broke off with TypeError: no such argument; the log says where."
    ]


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """See `short_trainings`."""
    yield from short_trainings(tmp_path, monkeypatch)


def test_a_model_in_training_is_measured_when_it_stands_still(trained, monkeypatch):
    app = demonstrated()
    app.query_params["below"] = "importance"
    with monkeypatch.context() as moving:
        moving.setattr(training, "is_moving", lambda live: live is not None)
        app.switch_page("viz/pages/attention/page.py").run()
        assert sound(app).button(key=Part.PAUSE)
        assert attention_measuring.KEPT not in app.session_state[Key.SESSION].memory
    app.run()
    header, arrays = sent(sound(app), Part.EFFECTS)
    assert len(header["panels"]) == 3
    assert np.isfinite(arrays[0]).all()


@pytest.mark.parametrize("kind", ["decoder-only", "encoder-only"])
def test_models_of_one_stack(here, kind):
    write(here / "one", kind)
    app = sound(opened(source="The cat sees.", below="importance"))
    header, arrays = sent(app, Part.EFFECTS)
    assert len(header["panels"]) == 1
    assert np.isfinite(arrays[0]).all()
    assert "mean loss" in words(app)


def test_a_bare_encoder_loses_a_share_of_its_states(here):
    write(here / "bare", "encoder-only", output_head="none")
    app = sound(opened(source="The cat sees.", below="importance"))
    assert "move the last states by less than 0.01" in words(app)
    assert (sent(app, Part.EFFECTS)[1][0] > 0).all()


def test_a_click_is_on_the_trace_that_is_shown_after_a_change_was_taken_back(small):
    app = importance(attention="decoder", layer="1", head="0")
    session = app.session_state[Key.SESSION]
    session.keep()
    for _removed in (True, False):
        app.button(key=Part.REMOVE).click().run()
    assert session.memory[attention_measuring.KEPT][-1].trace is not session.trace
    found = attention_measuring.clicked_measurement(session)
    assert found.trace is session.trace
    assert sent(sound(app), Part.RANKING)[0]["x"]["labels"][0].endswith(
        ".".join(str(1 + n) for n in found.ranked[0][1:])
    )


def test_the_table_has_a_row_for_each_head(small):
    app = importance()
    app.session_state[Part.DATA] = True
    app.run()
    frame = sound(app).dataframe[0].value
    assert len(frame) == 12
    kept = app.session_state[Key.SESSION].memory[attention_measuring.KEPT][-1].measuring.effects
    assert frame["Δ loss"].tolist() == pytest.approx([effect.loss for effect in kept.values()])


@pytest.mark.parametrize(
    "changes", ["decoder.9.9:remove", "decoder.1.1:remove;decoder.1.1:remove", "decoder.x:remove", "cross.*.*:remove"]
)
def test_a_hostile_address_breaks_nothing(small, changes):
    app = importance(changes=changes)
    assert not app.exception
    assert sent(app, Part.EFFECTS)
