"""Objects that a process has one of, whichever thread asks first."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import TypeVar

from model.runtime.locks import RLock

Result = TypeVar("Result")


def once(make: Callable[[], Result]) -> Callable[[], Result]:
    """Function that calls `make` once, and gives the same object to every thread; who asks meanwhile waits.

    `functools.cache` alone lets two threads make two, of which one is forgotten with what was written in it.
    """
    lock, make_once = RLock("once"), cache(make)

    @wraps(make)
    def one() -> Result:
        with lock:
            return make_once()

    return one
