"""Threads of live trainings: how many may train at once, and a thread that does one job after another."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar, runtime_checkable

# How many trainings may run at once in this process, and who waits.


@runtime_checkable
class Waiting(Protocol):
    """Who can wait for a slot."""

    def wake(self) -> None:
        """There may be a free one now."""
        ...


class Slots:
    """So many may run; the others wait in the order in which they came. Any thread may ask."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"limit ({limit}) must be at least 1: else no training could ever run")
        self.limit = limit
        self._running: list[Waiting] = []
        self._waiting: list[Waiting] = []
        self._lock = threading.Lock()

    @property
    def busy(self) -> bool:
        """Whether anyone runs."""
        return bool(self._running)

    def take(self, who: Waiting) -> bool:
        """Whether `who` may run now; if not, it waits and will be woken."""
        with self._lock:
            if who in self._running:
                return True
            if who not in self._waiting:
                self._waiting.append(who)
            if self._waiting.index(who) >= self.limit - len(self._running):
                return False
            self._waiting.remove(who)
            self._running.append(who)
            return True

    def leave(self, who: Waiting) -> None:
        """`who` neither runs nor waits any more; those whose turn it is are woken."""
        with self._lock:
            for place in (self._running, self._waiting):
                if who in place:
                    place.remove(who)
            next_ones = self._waiting[: self.limit - len(self._running)]
        for other in next_ones:
            other.wake()

    def ahead_of(self, who: Waiting) -> int:
        """How many wait before `who`."""
        with self._lock:
            return self._waiting.index(who) if who in self._waiting else 0


# A thread that is there while there is something to do.

Job = Callable[[], None]
Made = TypeVar("Made")


class Worker:
    """Does jobs one by one, in the order in which they came, in a thread that ends when none is left."""

    def __init__(self, begin: Job, spare: Callable[[], Job | None], failed: Callable[[Exception], None]) -> None:
        """All three are called in the thread. begin: first of all. spare: what to do, if anything, when no job waits.

        failed: a job has raised; the next one is done all the same.
        """
        self._begin, self._spare, self._failed = begin, spare, failed
        self._jobs: deque[Job] = deque()
        self._woken = False
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()

    @property
    def busy(self) -> bool:
        return self._thread is not None

    def do(self, job: Job) -> None:
        """Queue a job."""
        with self._changed:
            self._jobs.append(job)
        self.wake()

    def ask(self, job: Callable[[], Made]) -> Future[Made]:
        """Queue a job whose result, or exception, is wanted."""
        answer: Future[Made] = Future()

        def answered() -> None:
            try:
                answer.set_result(job())
            except Exception as error:
                answer.set_exception(error)

        self.do(answered)
        return answer

    def wake(self) -> None:
        """Ask again for what to do."""
        with self._changed:
            self._woken = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="training", daemon=True)
                self._thread.start()

    def settled(self, timeout: float | None = None) -> bool:
        """Wait until there is nothing to do; whether that came within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None, timeout)

    def _work(self) -> None:
        self._begin()
        while True:
            with self._changed:
                self._woken = False
                job = self._jobs.popleft() if self._jobs else None
            try:
                job = job or self._spare()
                if job is not None:
                    job()
            except Exception as error:
                self._failed(error)
            if job is None and self._end():
                return

    def _end(self) -> bool:
        """Whether the thread can go: nothing has come meanwhile."""
        with self._changed:
            if self._jobs or self._woken:
                return False
            self._thread = None
            self._changed.notify_all()
            return True
