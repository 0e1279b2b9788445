"""What each session has opened, under the session's key: kept for a reconnect, then freed with its files."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from model.uploads import Uploads

if TYPE_CHECKING:
    from model.hub import Download

KEPT = 600.0  # seconds after the last window of a session was closed: a reload, or a short loss of the connection


@dataclass
class Opened:
    """What one session has opened, by name; another session does not see it.

    uploads: the folder with what was sent here. heads: of tensors that do not tell their number of heads.
    """

    places: dict[str, Path] = field(default_factory=dict)
    uploads: Uploads = field(default_factory=Uploads)
    heads: dict[str, int] = field(default_factory=dict)
    download: Download | None = None

    def close(self) -> None:
        """Remove the files that were sent here and end what is being fetched."""
        if self.download:
            self.download.cancel()
        self.places.clear()
        self.uploads.close()


class OpenedSessions:
    """Any thread may ask. A session that no window shows any more is freed when `kept` seconds have passed."""

    def __init__(
        self,
        kept: float = KEPT,
        clock: Callable[[], float] = time.monotonic,
        timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer,
    ) -> None:
        self.kept, self._clock, self._new_timer = kept, clock, timer
        self._sessions: dict[str, Opened] = {}
        self._windows: dict[str, int] = {}
        self._left: dict[str, float] = {}
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()
        atexit.register(self.close)

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, key: str) -> Opened:
        """What the session of this key has opened, nothing at first."""
        with self._lock:
            return self._sessions.setdefault(key, Opened())

    def get(self, key: str) -> Opened | None:
        """The same, if the session has opened anything and is not freed yet."""
        with self._lock:
            return self._sessions.get(key)

    def enter(self, key: str) -> None:
        """A window shows this session."""
        with self._lock:
            self._windows[key] = self._windows.get(key, 0) + 1
            self._left.pop(key, None)

    def leave(self, key: str) -> None:
        """A window that showed it is closed."""
        with self._lock:
            self._windows[key] = max(0, self._windows.get(key, 0) - 1)
            if not self._windows[key]:
                del self._windows[key]
                self._left[key] = self._clock()
            self._set_timer()

    def sweep(self) -> None:
        """Free what no window has shown for too long, and come back when the next one is due."""
        with self._lock:
            now = self._clock()
            due = [key for key, left in self._left.items() if now - left >= self.kept]
            freed = [self._sessions.pop(key, None) for key in due]
            for key in due:
                del self._left[key]
            self._set_timer()
        for session in freed:
            if session:
                session.close()

    def close(self) -> None:
        """Free everything: the process ends."""
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
            self._left.clear()
            self._set_timer()
        for session in sessions:
            session.close()

    def _set_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._left:
            due = min(self._left.values()) + self.kept - self._clock()
            self._timer = self._new_timer(max(1.0, due), self.sweep)
            self._timer.daemon = True
            self._timer.start()
