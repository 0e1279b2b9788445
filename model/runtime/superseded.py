"""A computation that is given up at its next layer, decoding step or tensor, because nobody waits for it any more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_stale: ContextVar[threading.Event | None] = ContextVar("stale", default=None)


class SupersededError(BaseException):
    """Nobody waits for this any more; what was computed so far is thrown away. No `except Exception` takes it for a
    fault of what was computed.
    """


@contextmanager
def watch(stale: threading.Event) -> Iterator[None]:
    """A block whose computation ends, at its next `check`, once `stale` is set."""
    token = _stale.set(stale)
    try:
        yield
    finally:
        _stale.reset(token)


def check() -> None:
    """Called between layers, decoding steps, and tensors that are read.

    Raises:
        SupersededError: what is being computed is no longer wanted.
    """
    if (stale := _stale.get()) is not None and stale.is_set():
        raise SupersededError
