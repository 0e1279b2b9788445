"""The strip in the sidebar: what each button does to the training, and what is said of where it stands."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from model.checkpoints.load import open_checkpoint
from model.training.live.live_training import LiveTraining
from model.training.live.registry import RETENTION
from model.training.settings import BatchSizes
from tests.browser.server import ROOT
from tests.model.training.live.live_examples import LONG, SETTINGS, Gate, live, probe, settled
from tests.viz.frame.window import Window, open_window
from tests.viz.no_server import no_server
from viz.frame import channel, training_strip
from viz.frame.page_layout import PageLayout
from viz.pages.training import runs
from viz.state import training
from viz.state.session import Key, Session, current_session
from viz.ui.parts import no_views


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveTraining]:
    """A training that is this session's, and is shown."""
    found = live(replace(SETTINGS, steps=30))
    no_server(monkeypatch, training).session_state[Key.SESSION] = Session()
    monkeypatch.setattr(training, "training", lambda session: found)
    yield settled(found)
    found.close()


def press(name: str, **more: Any) -> None:
    training_strip.on_act(None, True, {"name": name, **more})  # type: ignore[arg-type]  # the model that is shown: only what begins a training asks for it


def texts(training: LiveTraining) -> list[str]:
    return [fact["text"] for fact in training_strip.facts(training.snapshot)]


def drawn(session: Session, begun: LiveTraining) -> None:
    """As the script leaves the session after a run."""
    session.stage = PageLayout(begun.start, True, no_views, "en")
    session.training.moving, session.training.drawn_state = training.is_moving(begun), training.standing(begun)
    session.rerun_requested = False
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


def test_before_a_click_it_is_said_which_model_is_trained(begun):
    """Another may be shown, and one click makes the one in training the one that is shown."""
    name = begun.start.name
    ours, other = (training_strip.strip_data(begun, "", model_name=shown) for shown in ("", "another"))
    assert (ours["words"]["of"], other["words"]["of"]) == (name, "another")
    assert (ours["words"]["steps"], other["words"]["steps"]) == (f"Train steps · {name}", "Train steps · another")
    assert (ours["summary"], ours["sentence"]) == ("step\xa00", "")
    assert other["summary"] == f"{name} · step\xa00"
    assert other["about"][0] == "A step begins the training of a copy of another in its place."
    gate = Gate(begun)
    begun.run()
    assert gate.reached.wait(LONG)
    moving = training_strip.strip_data(begun, "", model_name="another")
    sentence = f"A step trains the copy of {name} that is in training, and shows it in the place of another."
    assert (moving["about"][0], moving["question"], "pause" in moving["possible"]) == (sentence, [], True)
    gate.open.set()
    settled(begun)
    assert training_strip.strip_data(None, "", model_name="another")["words"]["of"] == "another"


def test_a_training_at_rest_gives_way_to_one_of_the_shown_model_which_asks_first_where_runs_are_lost(
    begun, monkeypatch
):
    """Finished or paused: its buttons were grey for every other model."""
    place = no_server(monkeypatch, training)
    session = place.session_state[Key.SESSION] = Session()
    shown = open_checkpoint(ROOT / "checkpoints" / "reverse")
    started: list[Any] = []

    def begin(_session, model, *_material, **_more):
        started.append(model.name)
        raise ValueError("it is not trained here")

    monkeypatch.setattr(training, "begin", begin)
    strip = training_strip.strip_data(begun, "", model_name=shown.name)
    assert (strip["question"], "advance" in strip["possible"]) == ([], True)  # nothing was learnt
    begun.advance(30)
    assert settled(begun).snapshot.status == "finished"
    strip = training_strip.strip_data(begun, "", model_name=shown.name)
    assert strip["possible"] == ["advance", "batch", "reset", "run"]
    assert strip["question"] == [f"Give up the run of new and train {shown.name}", "Show new"]
    onto = f"A step begins the training of a copy of {shown.name} in its place."
    assert (strip["sentence"], strip["about"][0]) == ("finished", onto)
    assert training_strip.strip_data(begun, "why", model_name=shown.name)["possible"] == ["reset"]
    begun.reset()
    settled(begun)
    runs = training_strip.strip_data(begun, "", model_name=shown.name)["question"][0]
    assert runs == f"Give up the 2 runs of new and train {shown.name}"
    training_strip.on_act(shown, False, {"name": "advance", "count": 10})
    assert not started
    training_strip.on_act(shown, False, {"name": "advance", "count": 10, "anew": True})
    assert (started, session.message) == ([shown.name], "it is not trained here")
    training_strip.on_act(shown, False, {"name": "show"})
    assert place.session_state[Key.MODEL] == training.ENTRY


def test_going_back_leaves_another_model_that_is_shown(begun, monkeypatch):
    place = no_server(monkeypatch, training)
    place.session_state[Key.SESSION], place.session_state[Key.MODEL] = Session(), "shakespeare"
    begun.advance(2)
    settled(begun)
    other = open_checkpoint(ROOT / "checkpoints" / "reverse")
    assert training_strip.strip_data(begun, "", model_name="other")["words"]["reset"].endswith(": new")
    training_strip.on_act(other, False, {"name": "reset"})
    assert (settled(begun).snapshot.step, place.session_state[Key.MODEL]) == (0, "shakespeare")


def test_before_a_training_its_data_are_said_and_the_small_print_is_apart():
    data = training_strip.strip_data(None, "", ("sentences made by rule", "Trains on them. Rate 3."))
    assert (data["summary"], data["about"][0]) == ("on sentences made by rule", "Trains on them. Rate 3.")
    assert (data["sentence"], data["facts"]) == ("", [])


def test_after_a_click_the_page_is_drawn_however_soon_the_step_is_done(begun):
    """So soon that nobody sees that it moves, nor that it stands elsewhere."""
    session = current_session()
    drawn(session, begun)
    press("advance", count=1)
    assert settled(begun).snapshot.step == 1
    session.training.drawn_state = training.standing(begun)

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
    assert max(channel.PACE, channel.STRIP_PACE, channel.REST) < RETENTION
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
    assert data["possible"] == ["advance", "batch", "pause", "reset", "run"]
    assert (data["status"], data["step"], len(data["losses"])) == ("running", 2, 2)
    step, loss, rate, left = data["facts"]
    assert step == {"short": True, "text": "step 2", "title": "of 30"}
    assert data["summary"] == " · ".join(text.replace(" ", "\xa0") for text in ("step 2", loss["text"]))
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
    assert (refused["summary"], refused["about"]) == ("cannot be trained", ["it has no gradients"])
    assert refused["possible"] == []
    assert training_strip.strip_data(None, "")["possible"] == ["advance", "batch", "run"]


def test_beside_the_buttons_stands_how_large_the_batches_are_and_another_size_can_be_chosen(begun):
    full = SETTINGS.batch_tokens
    assert training_strip.batch_data(None)["sizes"] == []
    assert training_strip.batch_data(BatchSizes(256, 1500)) == {
        "sentence": "Batches of {size} tokens, quick to watch; ▶ takes 1,500",
        "chosen": 256,
        "sizes": [[64, "64"], [256, "256"], [1024, "1,024"], [1500, "1,500"]],
    }
    same = training_strip.batch_data(begun.batches)  # begun with a size that somebody chose
    assert (same["sentence"], same["sizes"]) == ("Batches of {size} tokens, as ▶", [[full, str(full)]])
    press("batch", count=7)
    assert begun.batches == BatchSizes(7, full)
    press("batch", count=10**9)  # what no browser of ours asks for
    assert begun.batches == BatchSizes(full, full)
    assert settled(begun).snapshot.step == 0  # it is no step


@pytest.mark.parametrize(("chosen", "name", "first"), [(0, "advance", 256), (64, "advance", 64), (0, "run", 1500)])
def test_the_first_click_begins_with_the_batches_that_it_asks_for(monkeypatch, chosen, name, first):
    session = Session()
    no_server(monkeypatch, training).session_state[Key.SESSION] = session
    model = open_checkpoint(ROOT / "checkpoints" / "eng-cmn")
    started: list[Any] = []

    def begin(_session, _model, _material, settings, _source, needed, batches):
        started.append((settings.batch_tokens, batches, needed))
        raise ValueError("it is not trained here")

    monkeypatch.setattr(training, "begin", begin)
    monkeypatch.setattr(training, "training", lambda session: None)
    if chosen:
        training_strip.on_act(model, False, {"name": "batch", "count": chosen})
        assert not started
    training_strip.on_act(model, False, {"name": name, "count": 10})
    (size, batches, needed) = started[0]
    assert (size, batches) == (first, BatchSizes(chosen or 256, 1500))
    full = training.usual_plan(model).settings
    material = training.material_of(model, training.usual_plan(model).data(model))
    assert needed == training.trainings().require_room("", model.config, material, full, model.device)


def test_what_a_click_needs_is_prepared_before_it_by_a_server_alone(monkeypatch):
    model = open_checkpoint(ROOT / "checkpoints" / "reverse")
    monkeypatch.setattr(training, "AHEAD", 0.0)
    done = threading.Event()
    monkeypatch.setattr(training, "_prepare", lambda reference: done.set())
    monkeypatch.setattr(training, "served", threading.Event())
    training.prepare_ahead(model)
    assert not done.wait(0.1)
    training.served.set()
    training.prepare_ahead(model)
    assert done.wait(LONG)
    done.clear()
    training.prepare_ahead(model)  # once for a model
    assert not done.wait(0.1)
