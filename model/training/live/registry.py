"""The live trainings of a process, each under the key of its session: kept for a reconnect, then freed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import torch

from model.data.sources import TrainingData
from model.network.config import TransformerConfig
from model.training import cost
from model.training.live.live_training import LiveTraining
from model.training.live.worker import Slots
from model.training.settings import TrainingSettings

LIMIT = 2  # trainings that run at once; more of them share two cores, and memory, badly
KEPT = 600.0  # seconds without a sign of whoever looks


class TrainingRegistry:
    """Any thread may ask. While there are any, a timer frees those that nobody has looked at for too long."""

    def __init__(
        self,
        limit: int = LIMIT,
        kept: float = KEPT,
        clock: Callable[[], float] = time.monotonic,
        timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer,
    ) -> None:
        self.slots, self.kept, self._clock, self._new_timer = Slots(limit), kept, clock, timer
        self._trainings: dict[str, LiveTraining] = {}
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._trainings)

    def require_room(
        self,
        key: str,
        config: TransformerConfig,
        material: TrainingData,
        settings: TrainingSettings,
        device: torch.device,
    ) -> None:
        """A training that begins under `key` fits into memory, once the one that is there is freed: asked before that
        one is given up for it.

        Raises:
            ValueError: it does not, or there is nothing to train on.
        """
        train, _validation = material.corpora(config.max_length, settings.undo_merges)
        with self._lock:
            there = self._trainings.get(key)
        cost.require_room(config, train, settings, device, freed=there.size if there else 0)

    def begin(self, key: str, make: Callable[[Slots], LiveTraining]) -> LiveTraining:
        """A new training under `key`, with these slots; the one that was there is freed."""
        self.end(key)
        made = make(self.slots)
        with self._lock:
            self._trainings[key] = made
        self.sweep()
        return made

    def get(self, key: str) -> LiveTraining | None:
        """The training of a session that has come back; being asked for is a sign that someone looks."""
        with self._lock:
            found = self._trainings.get(key)
        if found:
            found.heartbeat()
        return found

    def end(self, key: str) -> None:
        """Free the training under `key`, if there is one."""
        with self._lock:
            found = self._trainings.pop(key, None)
            self._set_timer(self._clock())
        if found:
            found.close()

    def sweep(self) -> None:
        """Free what nobody has looked at for too long, and come back when the next one may be due."""
        now = self._clock()
        with self._lock:
            old = [key for key, training in self._trainings.items() if now - training.seen >= self.kept]
            freed = [self._trainings.pop(key) for key in old]
            self._set_timer(now)
        for training in freed:
            training.close()

    def _set_timer(self, now: float) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._trainings:
            due = min(training.seen for training in self._trainings.values()) + self.kept
            self._timer = self._new_timer(max(1.0, due - now), self.sweep)
            self._timer.daemon = True
            self._timer.start()
