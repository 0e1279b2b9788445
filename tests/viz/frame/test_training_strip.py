"""The strip in the sidebar: what each button does to the training, and what is said of where it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from model.training.live.live_training import LiveTraining
from model.training.live.registry import KEPT
from tests.model.training.live.live_examples import LONG, SETTINGS, Gate, live, probe, settled
from viz.frame import training_strip
from viz.pages.training import runs
from viz.state.session import Key, Session


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveTraining]:
    """A training that is this session's, and is shown."""
    training, session = live(replace(SETTINGS, steps=30)), Session()
    for place in (training_strip, runs):
        monkeypatch.setattr(place.training, "training", lambda session: training)
        monkeypatch.setattr(place, "current_session", lambda: session)
    monkeypatch.setattr(training_strip.st, "session_state", {Key.MODEL: training_strip.training.ENTRY})
    yield settled(training)
    training.close()


def press(name: str, **more: Any) -> None:
    training_strip.st.session_state[training_strip.STRIP] = SimpleNamespace(act={"name": name, **more})
    training_strip._act(None)  # type: ignore[arg-type]  # the model that is shown: only what begins a training asks for it


def texts(training: LiveTraining) -> list[str]:
    return [fact["text"] for fact in training_strip.facts(training.snapshot)]


def test_each_button_does_what_it_says(begun):
    for steps, stands in ((1, 1), (10, 11), (100, 30)):  # no further than the run's end
        press("advance", count=steps)
        assert settled(begun).snapshot.step == stands
    ended = training_strip.strip_data(begun, "")
    assert (ended["sentence"], ended["possible"]) == ("finished", ["reset"])  # no button that would do nothing
    press("reset")
    assert (settled(begun).snapshot.step, len(begun.runs)) == (0, 2)
    press("run")
    assert settled(begun).snapshot.step == 30
    first, second = (run.curves.get("loss")[1].tolist() for run in begun.runs)
    assert first == second  # the weights of before the training, and the same batches


def test_after_a_click_the_page_is_drawn_however_soon_the_step_is_done(begun, monkeypatch):
    """And not by news that the run which follows would throw away."""

    class RerunError(Exception):
        pass

    def again() -> None:
        raise RerunError

    session = training_strip.current_session()
    monkeypatch.setattr(training_strip.st, "rerun", again)
    monkeypatch.setattr(training_strip.catalogue, "use", lambda language: None)
    training_strip.st.session_state[Key.LANGUAGE] = "en"
    press("advance", count=1)
    assert settled(begun).snapshot.step == 1
    with pytest.raises(RerunError):
        training_strip.strip(session, begun.start, moving=False, stands=training_strip.training.standing(begun))
    assert session.sent.steps == set()
    assert not session.begun


def test_an_open_page_keeps_a_training_that_rests_and_sees_what_another_tab_does_to_it(begun, monkeypatch):
    class RerunError(Exception):
        pass

    def again() -> None:
        raise RerunError

    session = training_strip.current_session()
    monkeypatch.setattr(training_strip.st, "rerun", again)
    monkeypatch.setattr(training_strip.catalogue, "use", lambda language: None)
    training_strip.st.session_state[Key.LANGUAGE] = "en"
    drawn: list[dict[str, Any]] = []
    monkeypatch.setattr(training_strip, "training_strip", lambda header, *_: drawn.append(header))
    stood = training_strip.training.standing(begun)
    training_strip.strip(session, begun.start, moving=False, stands=stood)
    assert [header["step"] for header in drawn] == [0]
    for done in (lambda: begun.advance(1), lambda: begun.set_probe(probe(begun.start, "dcba"))):  # in another tab
        done()
        settled(begun)
        with pytest.raises(RerunError):
            training_strip.strip(session, begun.start, moving=False, stands=stood)
        stood = training_strip.training.standing(begun)
        training_strip.strip(session, begun.start, moving=False, stands=stood)
    assert [header["step"] for header in drawn] == [0, 1, 1]
    assert training_strip.pace(None, moving=False, trained=False) is None
    often = [
        training_strip.pace(begun, moving, trained) for moving, trained in ((False, True), (True, True), (True, False))
    ]
    assert often == [training_strip.RESTING, training_strip.SELDOM, training_strip.training.EVERY]
    assert max(often) < KEPT


def test_it_says_where_a_run_stands_and_how_long_it_takes(begun):
    assert texts(begun) == ["step 0"]
    press("advance", count=2)
    settled(begun)
    gate = Gate(begun)
    press("run")
    assert gate.reached.wait(LONG)
    snapshot = begun.snapshot
    data = training_strip.strip_data(begun, "")
    assert data["possible"] == ["advance", "pause", "reset", "run"]
    assert (data["status"], data["step"], len(data["losses"])) == ("running", 2, 2)
    step, loss, rate, left = data["facts"]
    assert step == {"text": "step 2", "title": "of 30"}
    assert loss["title"] == str(begun.current.curves.latest("loss"))
    assert rate["text"] == f"{snapshot.tokens_per_second:,.0f} tokens/s"
    minutes, seconds = left["text"].removesuffix(" left").split(":")
    assert 60 * int(minutes) + int(seconds) == round(snapshot.seconds_left)
    assert snapshot.seconds_left > 0
    press("pause")
    gate.open.set()
    assert settled(begun).snapshot.status == "paused"
    assert begun.snapshot.step == 3
    assert not any(text.endswith("left") for text in texts(begun))
    assert "run" in training_strip.strip_data(begun, "")["possible"]


def test_stop_ends_the_run_and_keeps_what_it_recorded(begun):
    gate = Gate(begun)
    press("run")
    assert gate.reached.wait(LONG)
    gate.open.set()
    runs._stop()
    snapshot = begun.snapshot
    assert snapshot.status == "stopped"
    assert len(begun.current.curves.get("loss")[0]) == snapshot.step
    assert training_strip.status_sentence(snapshot) == "stopped"
    assert training_strip.strip_data(begun, "")["possible"] == ["reset"]


def test_what_does_not_simply_run_is_said(begun):
    snapshot = replace(begun.snapshot, busy=False)
    for status, sentence in (
        ("preparing", "preparing the data …"),
        ("waiting", "waiting: place 3 in the queue"),
        ("failed", "it broke"),
        ("paused", ""),
    ):
        given = replace(snapshot, status=status, ahead=2, message="it broke")
        assert training_strip.status_sentence(given) == sentence
    assert (
        training_strip.status_sentence(replace(snapshot, status="paused", unseen=True)) == "paused: nobody was looking"
    )
    refused = training_strip.strip_data(None, "it has no gradients")
    assert (refused["sentence"], refused["possible"]) == ("it has no gradients", [])
    assert training_strip.strip_data(None, "")["possible"] == ["advance", "run"]
