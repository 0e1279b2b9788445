"""What each session has opened, under the session's key: kept for a reconnect, then freed with its files."""

from __future__ import annotations

import atexit
import hmac
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from model.uploads import Uploads

if TYPE_CHECKING:
    from model.hub import Download

PATIENCE = 2.0  # seconds that a reload waits for its own window to be closed
KEPT = 600.0  # seconds after the last window of a session was closed: a reload, or a short loss of the connection


@dataclass
class Opened:
    """What one session has opened, by name; another session does not see it.

    owner: what only its own browser knows. uploads: the folder with what was sent here.
    """

    owner: str = ""
    places: dict[str, Path] = field(default_factory=dict)
    uploads: Uploads = field(default_factory=Uploads)
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
        patience: float = PATIENCE,
    ) -> None:
        self.kept, self.patience, self._clock, self._new_timer = kept, patience, clock, timer
        self._sessions: dict[str, Opened] = {}
        self._windows: dict[str, int] = {}
        self._left: dict[str, float] = {}
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()
        self._left_one = threading.Condition(self._lock)
        atexit.register(self.close)

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, key: str, owner: str = "") -> Opened:
        """What the session of this key has opened, nothing at first. owner: what only its own browser knows."""
        with self._lock:
            return self._sessions.setdefault(key, Opened(owner))

    def get(self, key: str) -> Opened | None:
        """The same, if the session has opened anything and is not freed yet."""
        with self._lock:
            return self._sessions.get(key)

    def take(self, key: str, owner: str) -> Opened | None:
        """What was opened under a key that came with an address: only for the browser that opened it, and only where no
        window shows it any more. So a reload finds it, and a copied link does not; the window that is being reloaded
        may take a moment to be gone.
        """
        with self._left_one:
            found = self._sessions.get(key)
            if not (found and owner and hmac.compare_digest(found.owner.encode(), owner.encode())):
                return None
            gone = self._left_one.wait_for(lambda: not self._windows.get(key), self.patience)
            return self._sessions.get(key) if gone else None

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
                self._left_one.notify_all()
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
