"""Thread of the channel: which session it serves, where no script runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

served: ContextVar[Any] = ContextVar("served", default=None)  # a Session, which imports this


@contextmanager
def serving(session: Any) -> Iterator[None]:
    """A block in a thread of the channel, where this session is the current one and no script runs."""
    before = served.set(session)
    try:
        yield
    finally:
        served.reset(before)


def by_channel() -> bool:
    """True if this is drawn for the channel: without widgets, address bar or session state."""
    return served.get() is not None
