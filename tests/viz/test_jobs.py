"""A job: progress, remaining time, cancelling and going on, errors, memory given back at every end, turns."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from model.message import Message
from model.runtime import cancellation
from model.runtime.ledger import Ledger, NoRoomError
from viz.jobs import KNOWN_AFTER, REMEMBERED, Job, TableJob, TableTask, Turns


class Clock:
    """Time that goes on only when told to."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Work(Job[str]):
    """Waits until it may end or fails; ends at once when cancelled."""

    def __init__(self, fails: Exception | None = None, **options: Any) -> None:
        self.begun, self.go, self.fails = threading.Event(), threading.Event(), fails
        super().__init__(**options)

    def compute(self) -> str:
        self.begun.set()
        while not self.go.wait(0.001):
            cancellation.check()
        if self.fails:
            raise self.fails
        return "made"


def ended(job: Any) -> Any:
    assert job.wait(20)
    return job


def table(*tasks: tuple[str, float, Callable[[], Any]], **options: Any) -> TableJob:
    return TableJob([TableTask(*each) for each in tasks], **options)


def failing() -> int:
    raise ValueError("no such value")


# How far it is, and how long it will take.


def test_what_it_gives_is_there_at_its_end():
    job = Work()
    assert job.begun.wait(20)
    assert (job.status, job.ended, job.result, job.share) == ("running", False, None, None)
    assert not job.wait(0)
    job.go.set()
    assert (ended(job).status, job.result, job.error, job.complete) == ("finished", "made", "", True)


def test_remaining_time_is_estimated_by_its_own_pace_and_unknown_before():
    clock = Clock()
    job = Work(total=400.0, clock=clock)
    assert job.seconds_left is None
    clock.now += KNOWN_AFTER + 9
    assert job.seconds_left is None  # nothing is done yet
    job.advance(100.0)
    assert (job.share, job.seconds_left) == (0.25, 30.0)
    clock.now += 5
    assert job.seconds_left == 25
    clock.now += 25  # what was silent for long is silent as long again
    assert job.seconds_left == 30
    job.skip(30.0)  # it waited for another one
    assert job.seconds_left == 30
    job.cancel()
    ended(job)
    clock.now += 1000
    job.start()  # of the pace of before nothing counts
    clock.now += 10
    job.advance(100.0)
    assert job.seconds_left == 20
    job.go.set()


# Who waits is woken.


def test_who_looks_is_woken_once_when_it_goes_on_and_once_at_its_end():
    job, woken = Work(total=2.0), []
    job.look(lambda: woken.append("one"))
    job.look(lambda: woken.append("other"))
    job.advance(1.0)
    job.advance(0.5)
    assert sorted(woken) == ["one", "other"]
    job.look(lambda: woken.append("end"))
    job.go.set()
    ended(job)
    job.look(lambda: woken.append("late"))  # or a page that shows its end would be woken for ever
    assert woken[2:] == ["end"]
    job.notify(lambda: woken.append("at once"))
    assert woken[3:] == ["at once"]


def test_an_end_between_two_looks_of_who_begins_to_wait_is_not_lost():
    job, woken = Work(), threading.Event()

    class Late(set[Any]):
        """At the moment when somebody is noted, the job ends."""

        def add(self, observer: Any) -> None:
            job.go.set()
            ended(job)
            super().add(observer)

    job._observers = Late()
    job.look(woken.set)
    assert woken.is_set()


# Its ends.


def test_cancelled_it_ends_and_goes_on_when_asked_to():
    job = Work()
    assert job.begun.wait(20)
    job.cancel()
    assert job.cancelled
    assert (ended(job).status, job.result, job.complete) == ("cancelled", None, False)
    job.go.set()
    job.start()
    assert ended(job).result == "made"
    job.cancel()  # too late
    assert (job.status, job.cancelled) == ("finished", False)
    job.start()
    assert job.ended


def test_of_two_that_let_it_go_on_at_once_one_does():
    job, threads, asked = Work(), list[threading.Thread](), list[int]()
    job.cancel()
    ended(job)
    both = threading.Barrier(2)

    def promise() -> None:
        asked.append(1)

    class Status:
        """Read by both threads before either goes on, where nothing keeps them apart."""

        def __ne__(self, other: object) -> bool:
            with suppress(threading.BrokenBarrierError):  # nobody else comes so far
                both.wait(0.3)
            return False

        __hash__ = None  # type: ignore[assignment]

    job._promise, job.status = promise, Status()  # type: ignore[assignment]
    for _ in range(2):
        threads.append(threading.Thread(target=job.start))
        threads[-1].start()
    for each in threads:
        each.join(20)
    assert asked == [1]
    job.go.set()
    ended(job)


def test_its_error_is_a_sentence_and_holds_nothing_that_was_in_use():
    class Large:
        pass

    alive: list[weakref.ref[Large]] = []

    class Failing(Job[None]):
        def compute(self) -> None:
            large = Large()
            alive.append(weakref.ref(large))
            raise ValueError("d_ff (0) must be at least 1")

    job = ended(Failing())
    assert (job.status, job.error, job.complete) == ("failed", "d_ff (0) must be at least 1", False)
    assert isinstance(job.exception, ValueError)
    assert alive[0]() is None


def test_where_nobody_looks_it_ends_by_itself():
    clock = Clock()

    class Patient(Work):
        patience = 10.0

    job = Patient(clock=clock)
    assert job.begun.wait(20)
    clock.now += 9
    job.look()
    clock.now += 9
    assert not job.cancelled
    assert job.cancellation.due == 1
    clock.now += 2
    assert ended(job).status == "cancelled"
    job.look()
    assert job.cancelled  # it has ended, and says so


@pytest.mark.parametrize("end", ["result", "error", "cancel", "session gone", "no thread"])
def test_memory_is_given_back_at_every_end(end, monkeypatch):
    clock, ledger = Clock(), Ledger(1000, lambda: 0, lambda: None)

    class Patient(Work):
        patience = 10.0

    def job() -> Patient:
        fails = ValueError("no") if end == "error" else None
        return Patient(fails, promise=lambda: ledger.reserve("it", 600), clock=clock)

    if end == "no thread":
        monkeypatch.setattr(threading.Thread, "start", lambda _thread: (_ for _ in ()).throw(RuntimeError("no thread")))
        with pytest.raises(RuntimeError, match="no thread"):
            job()
    else:
        first = job()
        assert first.begun.wait(20)
        with pytest.raises(NoRoomError):
            job()
        if end == "cancel":
            first.cancel()
        elif end == "session gone":
            clock.now += 11
        else:
            first.go.set()
        ended(first)
    assert ledger.promises == ()


# Tables.


def test_what_fails_is_kept_and_the_rest_goes_on(caplog):
    job = ended(table(("a", 1, lambda: 1), ("b", 1, failing), ("c", 1, lambda: {}["layer"]), ("d", 1, lambda: 4)))
    assert job.values == {"a": 1, "d": 4}
    broken = "computing this broke off with KeyError: 'layer'; the log says where"
    assert job.errors == {"b": "no such value", "c": broken}
    assert (job.error, job.complete, job.share) == ("no such value", False, 1)
    assert [record.levelname for record in caplog.records] == ["ERROR"]  # of what nobody expected


def test_a_table_is_cancelled_between_or_within_two_values_and_goes_on():
    made, begun, computed = threading.Event(), threading.Event(), list[str]()

    def slow() -> int:
        computed.append("b")
        assert made.wait(20)
        job.advance(200)
        begun.set()
        while len(computed) == 1:
            cancellation.check()
        return 2

    job = table(("a", 100, lambda: 1), ("b", 300, slow))
    made.set()
    assert begun.wait(20)
    assert job.share == 0.75
    assert job.sentence == "measured 1 of 2"
    assert isinstance(job.sentence, Message)
    job.cancel()
    assert ended(job).values == {"a": 1}
    assert job.done == 100
    job.start()
    assert ended(job).values == {"a": 1, "b": 2}
    assert (computed, job.done, job.complete) == (["b", "b"], 400, True)


def test_what_is_known_is_not_computed_again():
    job = ended(table(("a", 100, failing), ("b", 300, lambda: 2), values={"a": 1}))
    assert (job.values, job.errors, job.done) == ({"a": 1, "b": 2}, {}, 400)


def test_the_latest_of_what_was_computed_is_remembered():
    job, computed = table(), list[int]()
    for number in [0, 0, *range(1, REMEMBERED + 1), 0]:
        job.remember(number, lambda number=number: computed.append(number))
    assert computed == [*range(REMEMBERED + 1), 0]
    assert job.remembers(REMEMBERED)
    assert not job.remembers(1)


# Turns.


class InTurn(Work):
    """Notes when it has its turn."""

    def __init__(self, turns: Turns, order: list[str], label: str, **options: Any) -> None:
        self.turns, self.order, self.label = turns, order, label
        super().__init__(**options)

    def compute(self) -> str:
        with self.turns.turn(self):
            self.order.append(self.label)
            return super().compute()


def until_waiting(turns: Turns, count: int) -> None:
    for _ in range(20_000):
        if len(turns) == count:
            return
        threading.Event().wait(0.001)
    raise AssertionError("it does not wait")


def test_turns_come_in_the_order_of_asking_and_who_is_cancelled_waits_no_longer():
    turns, order, jobs = Turns(), list[str](), list[InTurn]()
    for count, label in enumerate(("first", "second", "third"), start=1):
        jobs.append(InTurn(turns, order, label))
        until_waiting(turns, count)
    jobs[1].cancel()
    assert ended(jobs[1]).status == "cancelled"
    assert order == ["first"]
    jobs[0].go.set()
    assert jobs[2].begun.wait(20)
    jobs[2].go.set()
    ended(jobs[2])
    assert order == ["first", "third"]
    assert len(turns) == 0


def test_who_waits_for_a_turn_and_is_not_looked_at_any_more_waits_no_longer():
    class Patient(InTurn):
        patience = 0.05

    turns, order = Turns(), list[str]()
    first = InTurn(turns, order, "first")
    assert first.begun.wait(20)
    assert ended(Patient(turns, order, "second")).status == "cancelled"
    first.go.set()
    ended(first)
    assert order == ["first"]
