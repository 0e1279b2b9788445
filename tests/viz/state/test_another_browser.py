"""A copied link to a training: whoever follows it sees it, and steers nothing."""

from __future__ import annotations

import pytest

import viz.frame.app
from tests.app_reading import opened, sent, sound
from tests.viz.small import write_small
from viz.frame import training_strip
from viz.state import checkpoints, training
from viz.state.session import serving


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "CHECKPOINTS", tmp_path)
    write_small(tmp_path / "small")
    yield monkeypatch
    trainings = training.trainings()
    for key in list(trainings._trainings):
        trainings.end(key)


def visit(place, secret, **address):
    """The page as the browser with this secret sees it."""
    place.setattr(viz.frame.app.checkpoints, "browser", lambda: secret)
    return sound(opened("training", **address))


def acted(app, **act):
    """A click on a button of the strip, as the browser sends it."""
    session = app.session_state["session"]
    with serving(session):
        live, before = training.training(session), session.message
        training_strip.on_act(session.model, {"name": act["name"], **act})
    return live, before


def begun(place):
    app = visit(place, "mine", training_data="phrases", begin="on")
    app.session_state["setting_steps"] = "2"
    app.run().button(key="begin_button").click().run()
    key = sound(app).query_params["run"]
    key = key[0] if isinstance(key, list) else key
    live = training.trainings().get(key)
    assert live.settled(20)
    return app, key, live


def test_who_follows_a_link_sees_the_training_and_can_neither_pause_nor_reset_it(place):
    _app, key, live = begun(place)
    probe = live.current.film.probe
    other = visit(place, "theirs", run=key, model=training.ENTRY)
    header = sent(other, training_strip.STRIP)[0]
    assert header["possible"] == []
    assert "another browser" in header["sentence"]
    assert any("another browser" in info.value for info in other.info)
    session = other.session_state["session"]
    assert training.training(session) is live
    assert training.steered(session) is None
    for name in ("reset", "pause", "run", "advance"):
        acted(other, name=name, count=1)
        assert "another browser" in session.message
    assert live.settled(20)
    assert (live.snapshot.step, len(live.runs)) == (2, 1)
    assert live.current.film.probe == probe  # nor what it is filmed on


def test_what_they_begin_is_their_own_and_ends_no_other(place):
    _app, key, live = begun(place)
    other = visit(place, "theirs", run=key, training_data="phrases", begin="on")
    other.session_state["setting_steps"] = "1"
    other.session_state["begin_formTrue"] = True
    session = other.session_state["session"]
    assert training.own_key(session) == ""
    with serving(session):
        plan = training.usual_plan(live.start)
        data = plan.data(live.start)
        made = training.begin(session, live.start, training.material_of(live.start, data), plan.settings, data.source)
    assert made is not live
    assert session.run != key
    assert training.trainings().get(key) is live
    assert made.owner == "theirs"
    assert made.settled(20)


def test_its_own_browser_finds_it_again_after_a_reload(place):
    _app, key, live = begun(place)
    again = visit(place, "mine", run=key, model=training.ENTRY)
    assert training.steered(again.session_state["session"]) is live
    assert "reset" in sent(again, training_strip.STRIP)[0]["possible"]
