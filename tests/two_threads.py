"""Schedules of two threads that a test forces."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from model.runtime.locks import Lock

LONG = 240.0  # seconds; nothing here takes so long


class Seen:
    """Lock that says when a thread finds it taken. waits: set from then on."""

    def __init__(self) -> None:
        self.waits = threading.Event()
        self._lock = threading.RLock()

    def acquire(self, blocking: bool = True) -> bool:
        if self._lock.acquire(blocking=False):
            return True
        self.waits.set()
        return blocking and self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()


class Second:
    """A second thread for a first one that is in the middle of something: `go` lets it do its work, until it has done
    it, or waits for the lock that the first one holds.
    """

    def __init__(self, lock: Seen, work: Callable[[], object]) -> None:
        self.lock, self._thread = lock, threading.Thread(target=self._do, args=(work,), daemon=True)

    def go(self) -> None:
        """Called by the first thread; a second time it does nothing."""
        if self._thread.ident is None:
            self._thread.start()
            assert self.lock.waits.wait(LONG)

    def end(self) -> None:
        """Wait until the work is done."""
        self._thread.join(LONG)
        assert not self._thread.is_alive()

    def _do(self, work: Callable[[], object]) -> None:
        try:
            work()
        finally:
            self.lock.waits.set()


def in_thread(work: Callable[[], object]) -> None:
    """Do it in another thread, and wait for its end."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(LONG)
    assert not thread.is_alive()


@contextmanager
def elsewhere(lock: Lock) -> Iterator[Callable[[], None]]:
    """Block in which another thread holds a lock, until it is told to let go; it is told at the end."""
    taken, over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            over.wait(LONG)

    def let_go() -> None:
        over.set()
        thread.join(LONG)

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(LONG)
    try:
        yield let_go
    finally:
        let_go()
