"""Locks are taken in one order, who waits for a session is called, and no finalizer waits for a lock."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack

import pytest
import torch

from model.checkpoints.uploads import Allowance, Uploads
from model.fast import packed_weights
from model.inference import pass_memory
from model.runtime import locks
from model.runtime.ledger import Ledger, NoRoomError
from model.runtime.locks import ORDER, Lock, NotifyingLock, RLock, condition
from tests.two_threads import LONG, elsewhere, in_thread

REPORT = locks.report  # which no test calls otherwise


@pytest.fixture
def reports(monkeypatch) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    monkeypatch.setattr(locks, "report", lambda *names: found.append(names))
    return found


# The order.


def test_whoever_waits_for_a_lock_out_of_order_is_reported(reports):
    outer, inner, again = Lock("session"), Lock("ledger"), RLock("film")
    with outer, inner, again, again:
        pass
    assert reports == []
    with inner, outer:
        pass
    with again, RLock("film"):  # another one of its name
        pass
    assert reports == [("session", "ledger"), ("film", "film")]


def test_a_lock_is_reported_only_under_those_that_the_same_thread_holds_still(reports):
    outer, inner = Lock("session"), Lock("ledger")
    with inner:
        in_thread(lambda: outer.acquire() and outer.release())
        assert outer.acquire(blocking=False)  # who does not wait needs no order
        outer.release()
    with outer:
        pass
    assert reports == []


def test_a_lock_that_its_thread_waits_for_for_ever_is_reported(reports):
    lock = Lock("slots")
    with lock:
        assert not lock.acquire(timeout=0.001)
    assert reports == [("slots", "slots")]


def test_another_order_is_logged_once(caplog):
    for _ in range(2):
        REPORT("session", "ledger")
    REPORT.cache_clear()
    (record,) = caplog.records
    assert "'session' is waited for under 'ledger'" in record.message


def test_a_report_between_two_tests_is_kept_for_the_next(lock_reports, monkeypatch):
    monkeypatch.undo()
    with Lock("ledger"), Lock("session"):
        pass
    assert lock_reports.pop()[:2] == ("session", "ledger")


def test_a_lock_that_is_not_held_is_not_released():
    lock = Lock("slots")
    with elsewhere(lock), pytest.raises(ValueError, match="not in list"):
        lock.release()
    with lock:
        pass


def test_who_waits_in_a_condition_lets_its_lock_go(reports):
    changed, told = condition("jobs"), []

    def tell() -> None:
        with changed:
            told.append(True)
            changed.notify_all()

    with changed:
        thread = threading.Thread(target=tell)
        thread.start()
        assert changed.wait_for(lambda: told, LONG)
    thread.join()
    with pytest.raises(RuntimeError, match="un-acquired"):
        changed.wait()
    assert reports == []


def test_a_lock_has_one_of_the_names():
    assert len(set(ORDER)) == len(ORDER)
    with pytest.raises(KeyError):
        Lock("another")


# A session that is held: who found it so is called, whenever it is released.


class Callbacks(set):
    """Callbacks of a lock, with what happens just before or after one more is known."""

    def __init__(self, before: Callable[[], object] = lambda: None, after: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.before, self.after = before, after

    def add(self, callback: Callable[[], None]) -> None:
        self.before()
        super().add(callback)
        self.after()


def test_who_found_a_lock_taken_is_called_once_it_is_free():
    lock, calls = NotifyingLock("session"), []

    def call() -> None:
        calls.append(lock._is_owned())

    with elsewhere(lock):
        assert not lock.acquire_or_notify(call)
        assert calls == []
    assert calls == [False]
    assert lock.acquire_or_notify(call)
    lock.release()
    assert calls == [False]


def test_a_lock_that_is_held_twice_is_free_after_the_second_release():
    lock, calls = NotifyingLock("session"), []
    with lock:
        with lock:
            in_thread(lambda: lock.acquire_or_notify(lambda: calls.append("free")))
        assert calls == []
    assert calls == ["free"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_no_call_is_lost_where_the_lock_is_released_between_the_look_and_the_note(when):
    """Just before the callback is known nobody would call it, and the lock is taken; just after it somebody does."""
    lock, calls = NotifyingLock("session"), []
    with elsewhere(lock) as let_go:
        lock._callbacks = Callbacks(**{when: let_go})
        assert lock.acquire_or_notify(lambda: calls.append("free"))
    assert calls == ["free"] * (when == "after")
    lock.release()
    in_thread(lambda: lock.acquire_or_notify(lambda: None) and lock.release())


@pytest.mark.parametrize("when", ["before", "after"])
def test_no_call_is_lost_where_another_takes_the_lock_between_the_look_and_the_note(when):
    lock, calls = NotifyingLock("session"), []
    with ExitStack() as stack:
        let_go = stack.enter_context(elsewhere(lock))

        def another_takes_it() -> None:
            let_go()
            stack.enter_context(elsewhere(lock))

        lock._callbacks = Callbacks(**{when: another_takes_it})
        assert not lock.acquire_or_notify(lambda: calls.append("free"))
        assert calls == ["free"] * (when == "after")  # and who is called looks again
    assert calls == ["free"]


# Finalizers: they run in any thread, which may hold any lock, or another thread holds it and waits.


def test_memory_of_a_text_that_is_gone_is_given_back_whoever_counts(monkeypatch):
    """Else a collection of garbage under another lock, and one under the ledger's, would wait for one another."""
    book = Ledger(1000, lambda: 0, lambda: None)
    monkeypatch.setattr(pass_memory, "ledger", lambda: book)
    room = [pass_memory.Room(600)]
    with elsewhere(book._lock):
        in_thread(room.clear)
        assert book.promises == ()


def test_a_text_that_is_gone_while_it_is_counted_hides_no_other():
    book = Ledger(1000, lambda: 0, lambda: None)
    first, _second, _third = (book.reserve("the text", size) for size in (100, 200, 300))
    first.realised = lambda: first.release() or 0
    with pytest.raises(NoRoomError, match="needs about"), book.taking("a map", 401):
        pass


def test_nobody_waits_for_the_ledger_while_garbage_is_collected():
    def collect() -> None:
        in_thread(lambda: book.reserve("the text", 10))

    book = Ledger(1000, lambda: 0, lambda: None, (collect,))
    with pytest.raises(NoRoomError, match="needs about"):
        book.reserve("the training", 2000)
    assert [each.size for each in book.promises] == [10]


def test_room_of_a_layout_is_given_back_whoever_lays_out():
    weight = [torch.nn.Parameter(torch.zeros(200, 200), requires_grad=False)]
    before = dict(packed_weights._sizes)
    layout = [packed_weights._Layout(weight[0], test_room_of_a_layout_is_given_back_whoever_lays_out)]
    assert layout[0].packed(None) is not None
    assert len(packed_weights._sizes) == len(before) + 1
    with elsewhere(packed_weights._lock):
        in_thread(layout.clear)
        assert packed_weights._sizes == before


def test_uploads_that_are_gone_are_counted_out_whoever_counts():
    allowance = Allowance(1000)
    uploads = [Uploads(allowance=allowance)]
    uploads[0].add([("config.json", b"{}")])
    assert allowance.used == 2
    with elsewhere(allowance._lock):
        in_thread(uploads.clear)
    assert allowance.used == 0
