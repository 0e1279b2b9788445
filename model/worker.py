"""A thread that is there while there is something to do."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

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
