"""Importance under the heads: figures show what the model loses, and a button takes a head out of it."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from model.analysis.head_importance import Removals
from model.analysis.head_metrics import likeness
from model.analysis.predictions import actual_tokens
from model.capture.interventions import RemovedHead
from model.runtime import cancellation
from tests.app_reading import component, heads, opened, sent, sound, type_in
from tests.test_app_kinds import write
from tests.viz.no_server import no_server
from tests.viz.pages.training.training_page import demonstrated, short_trainings
from tests.viz.small import looking
from viz.i18n.format import significant
from viz.pages.attention import importance
from viz.pages.attention.importance import Part
from viz.pages.attention.importance_figures import (
    alike_panels,
    effects_panels,
    importance_table,
    of_chosen,
    ranking_chart,
    verdict,
)
from viz.state import training
from viz.state.session import Key

TEXT, OTHER = "The cat sees.", "The dog sees."
KINDS = ["encoder", "decoder", "cross"]
HEAD = ("decoder", 1, 0)


def weigh(session):
    """What the heads of the session's trace cost, when all of it is measured."""
    found = importance.measured(session, session.model)
    assert found.measuring.wait(60)
    return importance.weigh(session, found)


def pinned(model, before=None):
    """A session with differences on, and with a pinned trace that was measured: of another model, or another text."""
    session = looking(before or model, TEXT)
    session.keep()
    costs = weigh(session)
    session.differing = True
    session.trace_input(model, TEXT if before else OTHER, "")
    return session, costs


def costs_of(weighed, kinds=KINDS) -> tuple:
    """Figure of the heads' costs, and its values."""
    figure = effects_panels(weighed, kinds, HEAD)
    return figure, [panel.values for panel in figure.panels]


def test_every_head_of_every_kind_is_coloured_by_what_its_loss_costs(small):
    figure, values = costs_of(weigh(looking(small, TEXT)))
    source = small.source_tokens(TEXT)
    _trace, target, written = small.trace_generated(source)
    ended = not small.target_tokenizer.stops.isdisjoint(written.ids)
    actual = actual_tokens(small.kind, target.ids, small.target_tokenizer.end if ended else None, None)
    expected = dict(Removals(small, source, target, actual).each(KINDS))
    for kind, own in zip(KINDS, values, strict=True):
        assert np.allclose(own, [[expected[kind, layer, head].loss for head in (0, 1)] for layer in (0, 1)], atol=1e-5)
    assert [str(panel.name) for panel in figure.panels] == ["Encoder", "Decoder", "Cross"]
    assert figure.panels[0].scale.high == pytest.approx(max(abs(own).max() for own in values))


def test_the_order_is_that_of_the_costs_and_verdict_and_table_count(small):
    weighed = weigh(looking(small, TEXT))
    ranked = sorted(weighed.effects, key=lambda place: -weighed.effects[place].loss)
    chart, labels = ranking_chart(weighed, HEAD), [""] * 99
    assert np.allclose(chart.series[0].ys, [weighed.effects[place].loss for place in ranked], atol=1e-6)
    assert str(chart.x.labels[0]) == f"{ranked[0][0].capitalize()} {ranked[0][1] + 1}.{ranked[0][2] + 1}"
    free = sum(effect.loss < 0.01 for effect in weighed.effects.values())
    assert f"**{free} of 12**" in verdict(weighed, labels)
    assert f"number {ranked.index(HEAD) + 1} of 12" in of_chosen(weighed, HEAD, labels)
    table = importance_table(weighed, labels)
    assert table["Δ loss"].tolist() == pytest.approx([effect.loss for effect in weighed.effects.values()])


def test_likeness_is_of_the_chosen_head(small):
    session = looking(small, TEXT)
    expected = likeness(session.trace, *HEAD)
    figure = alike_panels(weigh(session), expected, HEAD)
    assert str(figure.caption.name) == "Heads like 2.1"
    assert np.allclose(figure.panels[0].values, 1 - expected.maps.numpy(), atol=1e-6)
    assert np.allclose(figure.panels[1].values, expected.outputs.numpy(), atol=1e-6)


def test_a_button_removes_the_head_from_every_page_and_restores_it(small):
    app = opened(source=TEXT, below="importance", attention="decoder", layer="1", head="0")
    session = app.session_state[Key.SESSION]
    before, nearest = session.trace["output.logits"], likeness(session.trace, *HEAD).nearest(1, 0)
    assert f"Most alike: **{nearest[0] + 1}.{nearest[1] + 1}**" in words(app)
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
    assert "of 11**" in words(app)
    flags = sent(app, Part.EFFECTS)[1][3].reshape(2, 2)
    assert (flags & 2).tolist() == [[0, 0], [2, 0]]
    app.switch_page("viz/pages/predictions/page.py").run()
    assert component(sound(app), "token_bar")["changed"]["text"]
    app.switch_page("viz/pages/attention/page.py").run()
    app.button(key=Part.REMOVE).click().run()
    assert session.what_if.changes == ()
    assert session.trace["output.logits"].equal(before)


def words(app) -> str:
    return "\n".join(each.value for each in app.markdown)


def measurement(app):
    """What the page measures now."""
    return app.session_state[Key.SESSION].memory[importance.KEPT][-1].measuring


def is_drawn(app) -> bool:
    return any(each.proto.id.endswith(f"-{Part.EFFECTS}") for each in app.get("bidi_component"))


def test_what_takes_long_waits_for_a_button_is_cancelled_and_gone_on_with(small, monkeypatch):
    begun, go, without_each = threading.Event(), threading.Event(), Removals.without_each

    def slow(removals, group):
        begun.set()
        while not go.is_set():
            cancellation.check()
        return without_each(removals, group)

    for name in ("QUICK", "LIGHT", "WAIT"):
        monkeypatch.setattr(importance, name, 0.0)
    app = sound(opened(source=TEXT, below="importance"))
    assert not is_drawn(app)
    assert "Measure 12 heads" in app.button(key=Part.MEASURE).label
    app.session_state[Key.SESSION].keep()
    type_in(app, "source", OTHER)
    monkeypatch.setattr(Removals, "without_each", slow)
    app.button(key=Part.MEASURE).click().run()
    assert begun.wait(60)
    going = measurement(app)
    sound(app).button(key=f"{Part.BAR}_cancel").click().run()
    assert going.wait(60)
    go.set()
    sound(app.run()).button(key=Part.MEASURE).click().run()
    assert going.wait(60)
    assert going.complete
    assert is_drawn(sound(app.run()))
    assert any("was not measured" in each.value for each in app.caption)


def test_half_the_heads_are_not_shown_as_all(small, monkeypatch):
    """A bridged model's code can raise anything."""
    without_each = Removals.without_each

    def astray(removals, group):
        if group.kind != "encoder":
            raise TypeError("no such argument")
        return without_each(removals, group)

    monkeypatch.setattr(Removals, "without_each", astray)
    app = opened(source=TEXT, below="importance")
    assert not app.exception
    assert not is_drawn(app)
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
        assert importance.KEPT not in app.session_state[Key.SESSION].memory
    app.run()
    header, arrays = sent(sound(app), Part.EFFECTS)
    assert len(header["panels"]) == 3
    assert np.isfinite(arrays[0]).all()


@pytest.mark.parametrize("kind", ["decoder-only", "encoder-only"])
def test_models_of_one_stack(tmp_path, kind):
    weighed = weigh(looking(write(tmp_path / "one", kind), TEXT))
    assert np.isfinite(costs_of(weighed, [kind.removesuffix("-only")])[1][0]).all()
    assert "mean loss" in verdict(weighed, [""] * 99)


def test_a_bare_encoder_loses_a_share_of_its_states(tmp_path):
    weighed = weigh(looking(write(tmp_path / "bare", "encoder-only", output_head="none"), TEXT))
    assert "removal moves the last states by less than 0.01" in verdict(weighed, [""] * 99)
    assert (costs_of(weighed, ["encoder"])[1][0] > 0).all()


def test_a_click_is_on_the_trace_that_is_shown_after_a_change_was_taken_back(small, monkeypatch):
    no_server(monkeypatch)
    session = looking(small, TEXT)
    session.keep()
    weigh(session)
    for changes in ([RemovedHead(*HEAD)], []):
        session.change(changes)
        session.trace_input(small, TEXT, "")
        weigh(session)
    assert session.memory[importance.KEPT][-1].trace is not session.trace
    assert importance.clicked_measurement(session).trace is session.trace


@pytest.mark.parametrize("changes", ["decoder.9.9:remove", "decoder.1.1:remove;decoder.1.1:remove", "cross.*.*:remove"])
def test_a_hostile_address_breaks_nothing(small, changes):
    app = opened(source=TEXT, below="importance", changes=changes)
    assert not app.exception
    assert sent(app, Part.EFFECTS)


# Beside a pinned trace: what both were measured for is compared, and nothing else.


def test_the_pinned_trace_is_compared_with_where_it_was_measured(small):
    session, before = pinned(small)
    weighed = weigh(session)
    figure, values = costs_of(weighed)
    assert len(ranking_chart(weighed, HEAD).series) == 2
    assert figure.panels[0].scale.difference
    expected = [[weighed.cost(("encoder", *at)) - before.cost(("encoder", *at)) for at in row] for row in PLACES]
    assert np.allclose(values[0], expected, atol=1e-6)
    assert np.abs(values[0]).max() > 1e-6


PLACES = [[(layer, head) for head in (0, 1)] for layer in (0, 1)]


@pytest.mark.parametrize(
    ("kind", "options", "known"),
    [("encoder-only", {"n_heads": 1}, [True, False, True, False]), ("decoder-only", {}, [False] * 4)],
)
def test_heads_that_a_pinned_model_lacks_have_no_part_in_the_mean(tmp_path, kind, options, known):
    session, _before = pinned(write(tmp_path / "b", "encoder-only"), write(tmp_path / "a", kind, **options))
    figure, (values,) = costs_of(weigh(session), ["encoder"])
    assert np.isfinite(values).ravel().tolist() == known
    assert str(figure.panels[0].note) == (f"mean {significant(float(np.nanmean(values)))}" if any(known) else "")


def test_a_pinned_model_that_predicts_nothing_is_not_subtracted(tmp_path):
    bare = write(tmp_path / "a", "encoder-only", output_head="none")
    session, _before = pinned(write(tmp_path / "b", "encoder-only"), bare)
    weighed = weigh(session)
    figure, (values,) = costs_of(weighed, ["encoder"])
    assert not figure.panels[0].scale.difference
    assert np.allclose(values.ravel(), [effect.loss for effect in weighed.effects.values()], atol=1e-6)
    assert len(ranking_chart(weighed, HEAD).series) == 1
    assert "different quantities" in importance.pinned_sentence(session, weighed)


def test_a_pinned_trace_that_was_not_measured_is_a_sentence(small):
    session = looking(small, OTHER, pinned=(small, TEXT, ""))
    assert "was not measured" in importance.pinned_sentence(session, weigh(session))
