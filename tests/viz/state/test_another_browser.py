"""A copied link to a training: whoever follows it sees it, and steers nothing."""

from __future__ import annotations

import pytest

from tests.app_reading import opened, sent, sound
from tests.viz.small import write_small
from viz.frame import training_strip
from viz.state import browsers, checkpoints, training
from viz.state.serving import serving


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
    place.setattr(browsers, "browser", lambda: secret)
    return sound(opened("training", **address))


def acted(app, **act):
    """A click on a button of the strip, as the browser sends it."""
    session = app.session_state["session"]
    with serving(session):
        live, before = training.training(session), session.message
        training_strip.on_act(session.model, True, {"name": act["name"], **act})
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
    other.session_state["begin_form"] = True
    session = other.session_state["session"]
    assert training.own_key(session) == ""
    with serving(session):
        plan = training.usual_plan(live.start)
        data = plan.data(live.start)
        made = training.begin(session, live.start, training.material_of(live.start, data), plan.settings, data.source)
    assert made is not live
    assert session.training.run != key
    assert training.trainings().get(key) is live
    assert made.owner == training.owner(session) != live.owner
    assert "theirs" not in made.owner  # the secret itself
    assert made.settled(20)


def test_its_own_browser_finds_it_again_after_a_reload(place):
    _app, key, live = begun(place)
    again = visit(place, "mine", run=key, model=training.ENTRY)
    assert training.steered(again.session_state["session"]) is live
    assert "reset" in sent(again, training_strip.STRIP)[0]["possible"]


# Where the server ends, and another one of the same folder is asked.


def ended_without_farewell() -> None:
    """Another process has none of this one's trainings."""
    trainings = training.trainings()
    for key, live in list(trainings._trainings.items()):
        live.close(forget=False)
        del trainings._trainings[key]


def test_another_server_of_the_same_folder_shows_it_as_it_stood_and_its_own_browser_goes_on(place, tmp_path):
    place.setenv(training.TRAININGS, str(tmp_path / "trainings"))
    _app, key, live = begun(place)
    losses = live.current.curves.get("loss")[1].tolist()
    assert len(losses) == 2
    ended_without_farewell()
    (kept,) = (tmp_path / "trainings").iterdir()
    assert key not in kept.name  # who can read the folder has no link
    other = visit(place, "theirs", run=key, model=training.ENTRY)
    session = other.session_state["session"]
    found = training.training(session)
    assert found is not live
    assert found.settled(20)
    assert training.steered(session) is None
    again = visit(place, "mine", run=key, model=training.ENTRY)
    mine = training.steered(again.session_state["session"])
    assert mine is found
    assert (mine.snapshot.step, mine.current.curves.get("loss")[1].tolist()) == (2, losses)
    assert len(mine.current.film) == 3
    mine.change(steps=3)
    mine.advance(1)
    assert mine.settled(20)
    assert mine.snapshot.step == 3
    training.trainings().end(key)  # given up
    assert not kept.exists()


@pytest.mark.slow
def test_what_was_kept_and_cannot_be_read_is_no_training(place, tmp_path):
    place.setenv(training.TRAININGS, str(tmp_path / "trainings"))
    _app, key, _live = begun(place)
    ended_without_farewell()
    (kept,) = (tmp_path / "trainings").iterdir()
    (kept / "state.safetensors").write_bytes(b"x")
    app = visit(place, "mine", run=key)
    assert training.training(app.session_state["session"]) is None


@pytest.mark.slow
def test_without_a_folder_for_them_none_is_kept(place, tmp_path):
    place.delenv(training.TRAININGS, raising=False)
    begun(place)
    assert training.kept_folder("any") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small"]
