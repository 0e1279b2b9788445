"""Slots of live trainings, and the thread of each, which does one job after another."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar, runtime_checkable

from model.runtime.locks import Lock, condition


@runtime_checkable
class Waiting(Protocol):
    """Something that can wait for a slot."""

    def wake(self) -> None:
        """Try again to take a slot."""
        ...


class Slots:
    """Slots of the trainings that run at once; others wait in the order in which they came. For any thread.

    Raises:
        ValueError: the limit is less than 1.
    """

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"limit ({limit}) must be at least 1: else no training could ever run")
        self.limit = limit
        self._running: list[Waiting] = []
        self._waiting: list[Waiting] = []
        self._lock = Lock("slots")

    @property
    def busy(self) -> bool:
        """True if any slot is taken."""
        return bool(self._running)

    def take(self, who: Waiting) -> bool:
        """Take a slot, or begin to wait for one, to be woken later; return whether `who` has a slot."""
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
        """Give back the slot of `who`, or its place in the queue, and wake those whose turn it is."""
        with self._lock:
            for queue in (self._running, self._waiting):
                if who in queue:
                    queue.remove(who)
            first = self._waiting[: self.limit - len(self._running)]
        for other in first:
            other.wake()

    def ahead_of(self, who: Waiting) -> int:
        """Number of trainings that wait before `who`."""
        with self._lock:
            return self._waiting.index(who) if who in self._waiting else 0


Job = Callable[[], None]
Result = TypeVar("Result")


class Worker:
    """Worker that does jobs one by one, in their order, in a thread that ends when none is left."""

    def __init__(self, begin: Job, spare: Callable[[], Job | None], failed: Callable[[Exception], None]) -> None:
        """All three are called in the thread. begin: as it starts. spare: to get a job when none waits. failed: when a
        job has raised; the next one is done all the same.
        """
        self._begin, self._spare, self._failed = begin, spare, failed
        self._jobs: deque[Job] = deque()
        self._woken = False
        self._thread: threading.Thread | None = None
        self._changed = condition("jobs")

    @property
    def busy(self) -> bool:
        """True if there is something to do."""
        return self._thread is not None

    def do(self, job: Job) -> None:
        """Queue a job."""
        with self._changed:
            self._jobs.append(job)
        self.wake()

    def ask(self, job: Callable[[], Result]) -> Future[Result]:
        """Queue a job; return the future of its result or exception."""
        future: Future[Result] = Future()

        def set_future() -> None:
            try:
                future.set_result(job())
            except Exception as error:  # noqa: BLE001 - whoever waits for the job raises it
                future.set_exception(error)

        self.do(set_future)
        return future

    def wake(self) -> None:
        """Start the thread, or have it ask once more for a spare job."""
        with self._changed:
            self._woken = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="training", daemon=True)
                self._thread.start()

    def settled(self, timeout: float | None = None) -> bool:
        """Wait, at most `timeout` seconds, until there is nothing to do; return whether that is so."""
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
            except Exception as error:  # noqa: BLE001 - the training fails with it, its thread lives on
                self._failed(error)
            if job is None and self._end():
                return

    def _end(self) -> bool:
        """End the thread unless a job has come meanwhile; return whether it ends."""
        with self._changed:
            if self._jobs or self._woken:
                return False
            self._thread = None
            self._changed.notify_all()
            return True
