"""Film of a training, as the page sends it to the browser, and what is done from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from streamlit.testing.v1 import AppTest

from model.options import field_text
from tests.app_reading import component, sound
from tests.model.training.live.live_examples import SETTINGS, live, probe, watched
from viz.pages.training import branch, film
from viz.state.session import Session


def film_page() -> None:
    import streamlit as st

    from tests.viz.pages.training.training_page import draw
    from viz.pages.training import film

    draw(film.page(st.container(horizontal=True)))


def shown() -> AppTest:
    return sound(AppTest.from_function(film_page, default_timeout=240).run())


@pytest.fixture
def begin(monkeypatch):
    """Begins a training that the page shows, and takes so many steps of it; it ends with the test."""
    begun = []

    def begin(steps: int, *settings, **options):
        training = live(*settings, **options)
        for section in (film, branch):
            monkeypatch.setattr(section, "training", lambda session: training, raising=False)
            monkeypatch.setattr(section, "steered", lambda session: training)
        begun.append(training)
        if steps:
            training.advance(steps)
            training.settled()
        return training

    yield begin
    for training in begun:
        training.close()


def test_the_film_names_its_tokens_and_renders_another_text_in_the_past(begin):
    training = begin(8)
    run = training.current
    app = shown()
    header, (visible,) = component(app, "film")
    assert header["kind"] == "cross"
    assert header["labels"]["columns"] == run.film.probe.source.labels
    assert visible.shape == run.film.shape("cross")[2:]
    assert not app.button
    training.set_probe(probe(training.start, "dcba"))
    training.settled()
    assert len(run.film) == 1
    app.run().button[0].click().run()
    assert not app.exception
    assert len(run.film) == len(run.film.key_frames) + (run.film.steps[-1] not in [k.step for k in run.film.key_frames])
    assert not app.button
    assert np.diff(run.film.steps).min() > 0


def test_a_film_that_is_full_says_which_steps_it_keeps(begin):
    training = begin(0, budget=4 * watched().run.film.frame_size)
    full = "The film is full: of the steps so far it keeps one in 8, evenly, and takes no others."
    for steps, said in ((2, []), (18, [full])):
        training.advance(steps)
        training.settled()
        app = shown()
        assert [each.value for each in app.caption] == said
    assert training.current.film.steps.tolist() == [0, 8, 16, 20]
    assert not app.button  # it would not keep the key frames 4 and 12


def test_without_a_training_there_is_no_film(monkeypatch):
    monkeypatch.setattr(film, "training", lambda session: None)
    monkeypatch.setattr(film, "steered", lambda session: None)
    assert "from the sidebar" in AppTest.from_function(film_page).run().caption[0].value


@pytest.mark.parametrize("name", ["rewind", "branch"])
def test_a_key_frame_chosen_on_the_film_is_gone_back_to_or_offers_its_settings(begin, monkeypatch, name):
    training, session = begin(6), Session()
    state: dict[str, Any] = {}
    monkeypatch.setattr(film, "current_session", lambda: session)
    monkeypatch.setattr(film.st, "session_state", state)
    steps = [key.step for key in training.current.film.key_frames]
    act = {"rewind": film.on_rewind, "branch": film.on_branch}[name]
    for step, found in ((99, False), (steps[-2], True)):
        act({"step": step, "edition": 1})
        training.settled()
        assert bool(session.message) != found
    assert session.rerun_requested == (name == "rewind")
    if name == "rewind":
        monkeypatch.setattr(training, "rewind", lambda key: int("no room"))
        act({"step": steps[-2], "edition": 1})
        assert session.message
    assert training.snapshot.step == (steps[-2] if name == "rewind" else 6)
    assert len(training.runs) == 1
    if name == "branch":
        assert state[branch.Part.PLACE] == (training.number, 1, steps[-2])
        assert state["branch_rate"] == "0.005"


def test_a_branch_from_the_film_changes_a_setting_and_runs_on_beside_the_other_future(begin):
    training = begin(8, replace(SETTINGS, rate=0.0050000001))  # more digits than its field shows
    key = training.current.film.key_frames[1]
    app = AppTest.from_function(film_page, default_timeout=240)
    app.session_state[branch.Part.PLACE] = (training.number, 1, key.step)
    for option in branch.NAMES:
        app.session_state[f"branch_{option}"] = field_text(getattr(key.settings, option))
    app.run()
    assert "Branch from step 4" in app.markdown[0].value
    app.button(key="branch_run").click().run()
    assert "Nothing is changed yet" in app.error[0].value
    app.text_input(key="branch_dropout").set_value("1.5").run()
    assert any("dropout (1.5) must be" in each.proto.body for each in app.get("html"))
    assert app.button(key="branch_run").disabled
    assert len(training.runs) == 1
    app.text_input(key="branch_dropout").set_value("0.2").run()
    app.text_input(key="branch_rate").set_value("0.001").run()
    app.button(key="branch_run").click().run()
    training.settled()
    first, second = training.runs
    assert (second.parent, second.begins, second.settings.rate) == (1, 4, first.settings.rate)
    assert [turn.changes for turn in second.turns] == [{"rate": (0.0050000001, 0.001)}]
    assert training.snapshot.status == "finished"  # it ran on
    app.run()
    header, _arrays = component(sound(app), "film")
    (other,) = header["others"]
    assert (header["run"], other["run"], other["steps"]) == (2, 1, first.film.steps.tolist())
    assert_allclose(other["losses"], first.film.series("loss"), rtol=1e-6)
    assert not any("Branch from step" in each.value for each in app.markdown)
    app.session_state[branch.Part.PLACE] = (training.number, 1, key.step)
    assert any("Branch from step" in each.value for each in app.run().markdown)
    training = begin(8)
    assert key.step in [each.step for each in training.current.film.key_frames]
    assert not any("Branch from step" in each.value for each in app.run().markdown)


def test_the_film_of_a_model_whose_answers_are_not_known_is_shown_beside_its_other_runs(begin):
    training = begin(0, kind="encoder-only")
    for again in (training.reset, training.pause):
        training.advance(2)
        training.settled()
        again()
    training.settled()
    assert len(training.runs) == 2
    header, _arrays = component(shown(), "film")
    assert header["others"] == [{"run": 1, "steps": [0, 1, 2], "losses": [None] * 3}]
