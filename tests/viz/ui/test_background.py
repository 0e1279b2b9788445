"""Numbers that a thread fills in: progress, what fails, stopping and going on."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest

from tests.viz.no_server import no_server
from viz.components.view import View
from viz.pages.lab.experiment import progress_words
from viz.state.session import current_session
from viz.ui.background import KEPT, LONG, TOLD, Filling, bar, follow


def failing() -> int:
    raise ValueError("no such value")


def test_what_fails_is_kept_and_the_rest_goes_on():
    filling = Filling([("a", 1, lambda: 1), ("b", 1, failing), ("c", 1, lambda: 3)])
    filling.wait(5)
    assert filling.finished
    assert filling.found == {"a": 1, "c": 3}
    assert filling.failed == {"b": "no such value"}
    assert filling.progress is None


def test_what_nobody_expected_fails_as_anything_does_and_is_said(caplog):
    def astray() -> int:
        return {}["layer"]

    filling = Filling([("a", 1, lambda: 1), ("b", 1, astray), ("c", 1, lambda: 3)])
    filling.wait(5)
    assert filling.found == {"a": 1, "c": 3}
    assert filling.failed == {"b": "computing this broke off with KeyError: 'layer'; the log says where"}
    assert "astray" in caplog.text


def test_it_is_stopped_between_two_numbers_and_goes_on(monkeypatch):
    begun, go = threading.Event(), threading.Event()

    def slow() -> int:
        begun.set()
        assert go.wait(5)
        return 1

    filling = Filling([("a", 100, slow), ("b", 300, lambda: 2)])
    assert begun.wait(5)
    assert not filling.finished
    filling._began += 100
    assert filling.progress == {"share": 0, "text": "measured 0 of 2"}
    filling._began -= 100
    filling._began -= TOLD + 1
    told = filling.progress
    assert told is not None
    assert told["share"] == 0
    filling.stop()
    go.set()
    filling._began += TOLD + 1
    filling.wait(5)
    assert filling.finished
    assert filling.found == {"a": 1}
    taken, left = filling.seconds
    assert left == pytest.approx(3 * taken, rel=0.2)  # 100 of 400 are done
    filling.go_on()
    filling.wait(5)
    assert filling.found == {"a": 1, "b": 2}


def test_what_goes_on_says_how_long():
    begun, go = threading.Event(), threading.Event()
    filling = Filling([("a", 100, lambda: 1), ("b", 300, lambda: begun.set() or go.wait(5))])
    assert begun.wait(5)
    filling._began = time.monotonic() - 10
    assert filling.progress == {"share": 0.25, "text": "measured 1 of 2 · 30 s left"}
    go.set()
    filling.wait(20)
    running = SimpleNamespace(status="running", seconds_left=None)
    assert progress_words(running) == "begins"
    running.seconds_left = 41.6
    assert progress_words(running) == "42 s left"
    running.status = "waiting"
    assert "waits for another" in progress_words(running)


def test_it_stops_where_nobody_looks_and_goes_on_when_asked_to():
    class Patient(Filling):
        patience = 10.0

    def unseen() -> int:
        filling._seen -= 11
        return 1

    begun = threading.Event()
    filling = Patient([("a", 1, lambda: begun.wait(5) and unseen()), ("b", 1, lambda: 2)])
    begun.set()
    assert filling._finished.wait(5)
    assert filling.found == {"a": 1}
    assert filling.stopped
    filling.go_on()
    filling.wait(5)
    assert filling.found == {"a": 1, "b": 2}


def test_the_latest_of_what_was_computed_is_remembered():
    filling, computed = Filling([]), []
    for number in [0, 0, *range(1, KEPT + 1), 0]:
        filling.remember(number, lambda number=number: computed.append(number))
    assert computed == [*range(KEPT + 1), 0]
    assert filling.remembers(KEPT)
    assert not filling.remembers(1)


def test_a_page_is_watched_until_all_numbers_are_there_and_drawn_again_where_its_buttons_change(monkeypatch):
    no_server(monkeypatch)
    monkeypatch.setattr("viz.ui.background.AT_ONCE", 0)
    go = threading.Event()
    filling = Filling([("a", 1, lambda: go.wait(5)), ("b", 1, lambda: 2)])
    drawn: list[int] = []

    def view() -> View | None:
        drawn.append(len(filling.found))
        return bar("bar", filling)

    assert follow([filling], view, lambda: "b" in filling.found)
    (watched,) = current_session().watched
    assert not watched.is_old
    assert [shown.key for shown in watched.views()] == ["bar"]
    filling._began -= LONG + TOLD + 1
    filling._done = 0
    assert filling.is_long
    assert watched.is_old  # there is a button to stop it
    go.set()
    filling.wait(60)
    assert watched.is_old
    assert watched.views() == []
    current_session().watched.clear()
    assert not follow([filling], view)
    assert current_session().watched == []
    assert drawn == [0, 0, 2, 2]
