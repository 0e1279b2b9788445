"""How many trainings may run at once in this process, and who waits."""

from __future__ import annotations

import threading
from typing import Protocol, runtime_checkable


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
