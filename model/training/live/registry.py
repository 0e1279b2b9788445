"""Live trainings of a process, each under the key of its session: kept for a reconnect, then freed."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from weakref import WeakValueDictionary

import torch

from model.data.prepared import prepared
from model.data.sources import TrainingData
from model.network.config import TransformerConfig
from model.runtime.locks import Lock, RLock
from model.runtime.memory import ledger
from model.training import cost
from model.training.live.live_training import LiveTraining
from model.training.live.worker import Slots
from model.training.settings import TrainingSettings

LIMIT = 2  # trainings that run at once; more of them share two cores, and memory, badly
RETENTION = 600.0  # seconds without a heartbeat


def weak_size(training: LiveTraining) -> Callable[[], int]:
    """Function that gives the bytes of a training; 0 once it is gone."""
    reference = weakref.ref(training)

    def size() -> int:
        live = reference()
        return live.size if live else 0

    return size


class TrainingRegistry:
    """Live trainings by key, for any thread. A timer frees trainings without a heartbeat for `retention` seconds.

    What ends, makes and registers under one key is done by one thread at a time, see `alone`.
    """

    def __init__(
        self,
        limit: int = LIMIT,
        retention: float = RETENTION,
        clock: Callable[[], float] = time.monotonic,
        timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer,
        **others: float,
    ) -> None:
        retention = others.pop(
            "kept", retention
        )  # its name until November 2026, which scripts outside of this tree know
        if others:
            raise TypeError(f"a registry has no {', '.join(others)}")
        self.slots, self.retention, self._clock, self._new_timer = Slots(limit), retention, clock, timer
        self._trainings: dict[str, LiveTraining] = {}
        self._timer: threading.Timer | None = None
        self._lock = Lock("registry")  # around the dictionary, never while a training is made or freed
        self._locks: WeakValueDictionary[str, RLock] = WeakValueDictionary()  # of those in use

    def __len__(self) -> int:
        return len(self._trainings)

    def require_room(
        self,
        key: str,
        config: TransformerConfig,
        material: TrainingData,
        settings: TrainingSettings,
        device: torch.device,
    ) -> int:
        """Bytes that a new training needs, checked to fit into memory once the present one under `key` is freed.

        Raises:
            ValueError: it does not fit, or there is nothing to train on.
        """
        train, _validation = prepared().corpora(material, config.max_length, settings.bpe_dropout)
        with self._lock:
            present = self._trainings.get(key)
        return cost.require_room(config, train, settings, device, freed=present.size if present else 0)

    def alone(self, key: str) -> RLock:
        """Lock under which trainings of this key begin and end, one after the other."""
        with self._lock:
            return self._locks.setdefault(key, RLock("training of a key"))

    def begin(self, key: str, make: Callable[[Slots], LiveTraining], needed: int = 0) -> LiveTraining:
        """Free the training under `key`, and make a new one, which competes for the registry's slots.

        needed: bytes that are promised to it until it is freed, with those of its film.

        Raises:
            ValueError: they do not fit beside what is promised to others; the present training then goes on.
        """
        with self.alone(key):
            before = self._trainings.get(key)
            promise = ledger().reserve("the training", needed, before.promise if before else None) if needed else None
            try:
                self.end(key)
                training = make(self.slots)
            except BaseException:
                if promise:
                    promise.release()
                raise
            if promise:
                promise.realised = weak_size(training)
            training.promise = promise
            with self._lock:
                self._trainings[key] = training
        self.sweep()
        return training

    def get(self, key: str) -> LiveTraining | None:
        """Training under `key`, None if there is none; asking for it is a heartbeat."""
        with self._lock:
            training = self._trainings.get(key)
        if training:
            training.heartbeat()
        return training

    def all(self) -> tuple[LiveTraining, ...]:
        """Every training; asking for them is no heartbeat."""
        with self._lock:
            return tuple(self._trainings.values())

    def end(self, key: str) -> None:
        """Free the training under `key`, if there is one."""
        with self.alone(key):
            with self._lock:
                training = self._trainings.pop(key, None)
                self._set_timer(self._clock())
            if training:
                training.close()

    def sweep(self) -> None:
        """Free trainings without a heartbeat for too long, and come back when the next one may be due."""
        for key in [key for key, training in self._items() if self._is_left(training)]:
            lock = self.alone(key)
            if not lock.acquire(blocking=False):  # another thread is at it: the timer comes back
                continue
            try:
                with self._lock:
                    training = self._trainings.get(key)
                    if training is None or not self._is_left(training):  # somebody has come back
                        continue
                    del self._trainings[key]
                training.close(forget=False)
            finally:
                lock.release()
        with self._lock:
            self._set_timer(self._clock())

    def _items(self) -> list[tuple[str, LiveTraining]]:
        with self._lock:
            return list(self._trainings.items())

    def _is_left(self, training: LiveTraining) -> bool:
        return self._clock() - training.seen >= self.retention

    def _set_timer(self, now: float) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._trainings:
            due = min(training.seen for training in self._trainings.values()) + self.retention
            self._timer = self._new_timer(max(1.0, due - now), self.sweep)
            self._timer.daemon = True
            self._timer.start()
