"""A computation that is given up at its next layer, decoding step or tensor, because nobody waits for it any more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_stale: ContextVar[threading.Event | None] = ContextVar("stale", default=None)
_waits: ContextVar[threading.Event | None] = ContextVar("waits", default=None)


class SupersededError(BaseException):
    """Nobody waits for this any more; what was computed so far is thrown away. No `except Exception` takes it for a
    fault of what was computed.
    """


@contextmanager
def watch(stale: threading.Event, waits: threading.Event | None = None) -> Iterator[None]:
    """A block whose computation ends, at its next `check`, once `stale` is set.

    waits: by which it ends at its next `check_waiting`; None: by the same.
    """
    token, token_of_waits = _stale.set(stale), _waits.set(waits or stale)
    try:
        yield
    finally:
        _stale.reset(token)
        _waits.reset(token_of_waits)


def check() -> None:
    """Called between layers, decoding steps, and tensors that are read.

    Raises:
        SupersededError: what is being computed is no longer wanted.
    """
    if (stale := _stale.get()) is not None and stale.is_set():
        raise SupersededError


def check_waiting() -> None:
    """Called while another process is waited for: nothing that was computed here is thrown away with it.

    Raises:
        SupersededError: what is being waited for is no longer wanted.
    """
    if (stale := _waits.get()) is not None and stale.is_set():
        raise SupersededError
