"""What sessions have opened: found again by the key, freed with its files when no window shows it any more."""

from __future__ import annotations

import threading

import pytest

from model.checkpoints.uploads import OpenedSessions
from tests.model.clock import Clock


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sessions(clock):
    made = OpenedSessions(retention=60.0, clock=clock, timer=clock.timer, patience=0.0)
    yield made
    made.close()


def sent(sessions, key):
    """A session with an upload, shown in a window; gives its file."""
    session = sessions.begin(key)
    sessions.enter(key)
    return session.uploads.add([("model.safetensors", b"nothing")])


def test_an_upload_is_removed_some_time_after_its_window_is_closed(sessions, clock):
    file, other = sent(sessions, "a"), sent(sessions, "b")
    clock.go(10_000)
    assert file.exists()  # it is looked at
    sessions.leave("a")
    clock.go(59)
    assert file.exists()
    assert sessions.begin("a") is sessions.get("a")
    clock.go(1)
    assert not file.exists()
    assert sessions.get("a") is None
    assert other.exists()
    assert sessions.begin("c").places == {}


@pytest.mark.parametrize("reloaded", [True, False], ids=["a reload", "the second of two windows"])
def test_a_window_that_shows_it_keeps_it(sessions, clock, reloaded):
    file = sent(sessions, "a")
    for act in (sessions.leave, sessions.enter) if reloaded else (sessions.enter, sessions.leave):
        act("a")
        clock.go(50)
    clock.go(10_000)
    assert file.exists()
    sessions.leave("a")
    clock.go(60)
    assert not file.exists()


def test_a_key_is_good_only_for_its_browser_and_when_no_window_shows_it(sessions, clock):
    session = sessions.begin("a", "mine")
    sessions.enter("a")
    assert sessions.take("a", "mine") is None
    sessions.leave("a")
    clock.go(50)
    for owner in ("yours", ""):
        assert sessions.take("a", owner) is None
    assert sessions.take("b", "mine") is None
    assert sessions.take("a", "mine") is session
    sessions.begin("nobody's")
    assert sessions.take("nobody's", "") is None
    clock.go(10)
    assert sessions.take("a", "mine") is None  # freed


def test_a_reload_waits_for_its_window_to_be_closed(sessions):
    sessions.patience = 20.0
    session = sessions.begin("a", "mine")
    sessions.enter("a")
    closing = threading.Timer(0.05, sessions.leave, ["a"])
    closing.start()
    assert sessions.take("a", "mine") is session
    closing.join()


def test_the_end_of_the_process_removes_everything(sessions, clock):
    files = [sent(sessions, key) for key in "ab"]
    sessions.leave("a")
    sessions.close()
    assert not any(file.exists() for file in files)
    assert len(sessions) == 0
    assert not clock.waiting
