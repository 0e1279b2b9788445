"""Locks in one order, so that no two threads wait for one another: docs/threads.md says what each of them guards."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

# Names of all locks, the outermost first: a thread that holds one waits only for those behind it.
ORDER = (
    "session",
    "window",
    "texts",
    "class sessions",
    "opened checkpoints",
    "training of a key",
    "registry",
    "rehearsal",
    "turns",
    "job",
    "choices",
    "jobs",
    "slots",
    "prepared data",
    "speed",
    "transformers",
    "random numbers",
    "tokenizer process",
    "tokenizer processes",
    "hooks",
    "layouts",
    "uploaded bytes",
    "once",
    "ledger",
    "film",
    "curves",
)
_RANKS = {name: rank for rank, name in enumerate(ORDER)}


class _Thread(threading.local):
    """Locks that a thread holds; one that it holds twice stands there twice."""

    def __init__(self) -> None:
        self.locks: list[Lock] = []


_thread = _Thread()


@cache
def report(name: str, under: str) -> None:
    """Log, once, that a thread which holds the lock `under` waits for `name`, which ORDER does not have behind it."""
    sentence = "the lock %r is waited for under %r: see docs/threads.md"
    logging.getLogger(__name__).error(sentence, name, under, stack_info=True)


class Lock:
    """Lock that one thread holds at a time, once. name: one of ORDER. No finalizer may wait for it."""

    _reentrant = False  # whether who holds it may take it once more
    _new: Callable[[], Any] = staticmethod(threading.Lock)

    def __init__(self, name: str) -> None:
        self.name, self._rank, self._lock = name, _RANKS[name], self._new()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; False: another thread holds it, after `timeout` seconds too. Only who waits needs an order.

        Raises:
            RuntimeError: this thread holds it already, and would wait for ever.
        """
        own = _thread.locks
        if blocking and timeout < 0 and not self._reentrant and self in own:
            raise RuntimeError(f"this thread holds the lock {self.name!r} already, and would wait for itself")
        if own and blocking and not (self._reentrant and self in own):
            for other in own:
                if other._rank >= self._rank:
                    report(self.name, other.name)
        if not self._lock.acquire(blocking, timeout):
            return False
        own.append(self)
        return True

    def release(self) -> None:
        """Give the lock back.

        Raises:
            ValueError: this thread does not hold it.
        """
        own = _thread.locks
        own.remove(self)
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_error: object) -> None:
        self.release()

    def _is_owned(self) -> bool:
        """True if this thread holds it, as threading.Condition asks."""
        return self in _thread.locks


def condition(name: str) -> threading.Condition:
    """Condition with a lock of this name."""
    return threading.Condition(Lock(name))  # type: ignore[arg-type]  # it needs acquire, release and _is_owned


class RLock(Lock):
    """Lock that one thread holds at a time, as often as it likes."""

    _reentrant = True
    _new = staticmethod(threading.RLock)


class NotifyingLock(RLock):
    """Lock that calls whoever has found it taken, once it is free."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._callbacks: set[Callable[[], None]] = set()

    def acquire_or_notify(self, callback: Callable[[], None]) -> bool:
        """Take the lock if it is free; else `callback` is called when it is, in the thread that has released it.

        It may be called once more than that: after a call the lock may be taken again.
        """
        if self.acquire(blocking=False):
            return True
        self._callbacks.add(callback)
        return self.acquire(blocking=False)  # it may have been released before anybody knew of the callback

    def release(self) -> None:
        super().release()
        if self._callbacks and self not in _thread.locks:
            with suppress(KeyError):  # another thread has called the last one
                while self._callbacks:
                    self._callbacks.pop()()
