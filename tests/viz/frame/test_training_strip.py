"""The strip in the sidebar: what each button does to the training, and what is said of where it stands."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from model.training.live.live_training import LiveTraining
from model.training.live.registry import KEPT
from tests.model.training.live.live_examples import LONG, SETTINGS, Gate, live, probe, settled
from tests.viz.frame.window import Window, open_window
from tests.viz.no_server import no_server
from viz.frame import channel, training_strip
from viz.frame.drawing import Stage
from viz.pages.training import runs
from viz.state import training
from viz.state.session import Key, Session, current_session
from viz.ui.parts import no_views


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveTraining]:
    """A training that is this session's, and is shown."""
    found = live(replace(SETTINGS, steps=30))
    no_server(monkeypatch, training_strip).session_state[Key.SESSION] = Session()
    monkeypatch.setattr(training, "training", lambda session: found)
    yield settled(found)
    found.close()


def press(name: str, **more: Any) -> None:
    training_strip.on_act(None, {"name": name, **more})  # type: ignore[arg-type]  # the model that is shown: only what begins a training asks for it


def texts(training: LiveTraining) -> list[str]:
    return [fact["text"] for fact in training_strip.facts(training.snapshot)]


def drawn(session: Session, begun: LiveTraining) -> None:
    """As the script leaves the session after a run."""
    session.stage = Stage(begun.start, True, no_views, "en")
    session.moving, session.stands = training.is_moving(begun), training.standing(begun)
    session.begun = False
    session.runs += 1


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


def test_after_a_click_the_page_is_drawn_however_soon_the_step_is_done(begun):
    """So soon that nobody sees that it moves, nor that it stands elsewhere."""
    session = current_session()
    drawn(session, begun)
    press("advance", count=1)
    assert settled(begun).snapshot.step == 1
    session.stands = training.standing(begun)

    async def use(window: Window) -> None:
        await window.script()

    open_window(session, use)


def test_an_open_page_sees_what_another_tab_does_to_a_training_that_rests(begun, monkeypatch):
    monkeypatch.setattr(channel, "REST", 0.02)
    session = current_session()
    drawn(session, begun)
    steps = []

    async def use(window: Window) -> None:
        steps.append((await window.view(training_strip.STRIP))["step"])
        begun.advance(1)
        settled(begun)
        steps.append((await window.view(training_strip.STRIP))["step"])
        await window.script()  # the list of models, and all that only the script draws
        drawn(session, begun)
        begun.set_probe(probe(begun.start, "dcba"))
        settled(begun)
        await window.script()

    open_window(session, use)
    assert steps == [0, 1]


def test_a_training_that_is_gone_is_taken_off_the_page(begun, monkeypatch):
    monkeypatch.setattr(channel, "REST", 0.02)
    session = current_session()
    drawn(session, begun)

    async def use(window: Window) -> None:
        await window.view(training_strip.STRIP)
        monkeypatch.setattr(training, "training", lambda session: None)
        await window.script()

    open_window(session, use)


def test_an_open_page_keeps_a_training_that_rests_though_it_is_hidden(begun, monkeypatch):
    """Being asked for is a sign of life."""
    assert max(channel.PACE, channel.STRIP_PACE, channel.REST) < KEPT
    monkeypatch.setattr(channel, "REST", 0.02)
    session = current_session()
    drawn(session, begun)

    async def use(window: Window) -> None:
        window.say(hidden=True)
        await asyncio.sleep(0.1)
        asked = threading.Event()
        monkeypatch.setattr(training, "training", lambda session: asked.set() or begun)
        assert await asyncio.to_thread(asked.wait, LONG)

    open_window(session, use)


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
