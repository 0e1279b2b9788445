"""Thread of the channel: which session it serves, where no script runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from viz.state.session import Session

served: ContextVar[Session | None] = ContextVar("served", default=None)


@contextmanager
def serving(session: Session) -> Iterator[None]:
    """A block in a thread of the channel, where this session is the current one and no script runs."""
    before = served.set(session)
    try:
        yield
    finally:
        served.reset(before)


def by_channel() -> bool:
    """Whether this is drawn for the channel: without widgets, address bar or session state."""
    return served.get() is not None
