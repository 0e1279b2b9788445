"""Training while someone looks: a run in a thread of its own, told what to do and read from any other."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from model.data import sources
from model.data.sources import TrainingData
from model.inference.text_model import TextModel
from model.training.live import saving
from model.training.live.camera import Probe
from model.training.live.key_frames import KeyFrame
from model.training.live.recorded_trainer import RecordedTrainer
from model.training.live.runs import Run
from model.training.live.snapshot import Snapshot, View
from model.training.live.worker import Slots, TrainingWorker
from model.training.settings import RunSettings, TrainingSettings

_numbers = itertools.count(1)
UNSEEN = 9.0  # seconds without a heartbeat after which a run pauses, so that it stands still within ten


class LiveTraining:
    """One training, on a copy of `start`. Commands return at once and are done in their order, between steps.

    There is a thread while there is something to do, and none else. number: no other training of the process has it.
    """

    def __init__(
        self,
        start: TextModel,
        material: TrainingData,
        settings: TrainingSettings,
        probe: Probe,
        *,
        source: sources.Source | None = None,
        slots: Slots | None = None,
        clock: Callable[[], float] = time.monotonic,
        unseen: float = UNSEEN,
        **budgets: int,
    ) -> None:
        """source: for the model card. unseen: seconds without `heartbeat` after which it pauses.
        budgets: of the film.

        Raises:
            ValueError: the settings cannot be watched.
        """
        self.number = next(_numbers)
        self.start, self.material, self.source = start, material, source or sources.Source()
        self._choices = RunSettings.of(settings, start.config)  # as asked for, perhaps not in force yet
        self._driver = TrainingWorker(
            lambda: RecordedTrainer(start, material, settings, probe, **budgets),
            self._choices,
            slots or Slots(1),
            clock,
            unseen,
        )

    @property
    def snapshot(self) -> Snapshot:
        driver = self._driver
        return replace(driver.snapshot, busy=driver.worker.busy, ahead=driver.ahead)

    @property
    def choices(self) -> RunSettings:
        """The settings as asked for; those in force are the snapshot's."""
        return self._choices

    @property
    def runs(self) -> tuple[Run, ...]:
        """Those that are kept, oldest first; none while the first is being prepared."""
        watched = self._driver.watched
        return tuple(watched.runs) if watched else ()

    @property
    def current(self) -> Run | None:
        """The run that is trained: its film, its curves."""
        watched = self._driver.watched
        return watched.run if watched else None

    @property
    def size(self) -> int:
        """Bytes that are free again once it is; none while it is being prepared."""
        watched = self._driver.watched
        return watched.size if watched else 0

    @property
    def seen(self) -> float:
        """When someone looked last, by the clock."""
        return self._driver.seen

    def view(self) -> View | None:
        """The newest look at the probe; a newer one follows after the next step. None while it is being prepared."""
        return self._driver.view()

    def heartbeat(self) -> None:
        """Someone is looking."""
        self._driver.heartbeat()

    def settled(self, timeout: float | None = None) -> bool:
        """Wait until there is nothing to do; whether that came within so many seconds."""
        return self._driver.worker.settled(timeout)

    def advance(self, steps: int = 1) -> None:
        """Train so many steps more."""
        if steps < 1:
            raise ValueError(f"steps ({steps}) must be at least 1")
        self._do(lambda: self._driver.want_more(steps))

    def run(self) -> None:
        """Train to the end of the run."""
        self._do(lambda: self._driver.want(lambda own: own.trainer.total_steps))

    def pause(self) -> None:
        """Stand still after the step that is being done, or before it where only some of its batches are done."""
        self._do(lambda: self._driver.halt("paused"), at_once=True)

    def stop(self) -> None:
        """End the run, and wait until its thread is gone. What was recorded stays, and can be gone back to."""
        self._do(lambda: self._driver.halt("stopped"), at_once=True)
        self.settled()

    def reset(self) -> None:
        """Another run from the first weights, with the settings now in force; those so far are kept."""
        self._do(lambda: self._driver.leap(RecordedTrainer.restart), at_once=True)

    def rewind(self, key: KeyFrame) -> None:
        """Go back to a key frame; what its run did after it is forgotten.

        Raises:
            ValueError: the batches of that time do not fit into memory now.
        """
        self._choices = self._allowed(key.choices)
        self._do(lambda: self._driver.leap(lambda own: own.rewind(key)), at_once=True)

    def branch(self, key: KeyFrame, **changes: Any) -> None:
        """Take another course from a key frame, with the same batches and other settings; this one is kept.

        Raises:
            ValueError: something cannot be changed in a run, is out of its range, or does not fit into memory.
        """
        self._choices = self._allowed(key.choices.with_changes(changes, self.start.config))
        self._do(lambda: self._driver.leap(lambda own: own.branch(key, changes)), at_once=True)

    def change(self, **changes: Any) -> None:
        """From the next step on, train with other settings or dropouts.

        Raises:
            ValueError: something cannot be changed in a run, is out of its range, or does not fit into memory.
        """
        self._choices = self._allowed(self._choices.with_changes(changes, self.start.config))
        self._do(lambda: self._driver.own.change(changes))

    def set_probe(self, probe: Probe) -> None:
        """Watch another text from now on; the film's `rerender` shows it in the past too."""
        self._do(lambda: self._driver.show(probe))

    def save(self, folder: Path) -> None:
        """Write the run as it is now as a checkpoint of ours."""
        saving.save(folder, *self._frozen())

    def zip(self, name: str, curves: bool = False) -> bytes:
        """The same as one file, which unpacks into a folder of that name. curves: of all runs, for TensorBoard.

        Raises:
            ValueError: curves are wanted, and TensorBoard is not installed.
        """
        return saving.zipped(name, *self._frozen(), self.runs if curves else ())

    def close(self) -> None:
        """Free everything, and wait until the thread is gone."""
        self._do(self._driver.free, at_once=True)
        self.settled()

    def _allowed(self, choices: RunSettings) -> RunSettings:
        """These, if they fit into memory: asked before it is the thread's turn, so that whoever asks is told."""
        watched = self._driver.watched
        if watched is None and choices.settings.batch_tokens > self._choices.settings.batch_tokens:
            watched = self._driver.worker.ask(lambda: self._driver.own).result()  # it is being prepared
        if watched:
            watched.require_room(choices)
        return choices

    def _do(self, job: Callable[[], None], at_once: bool = False) -> None:
        """Commands are signs of someone who looks, too. at_once: after the batch, not the step, that is being done."""
        self.heartbeat()
        if at_once:
            self._driver.break_off()
        self._driver.worker.do(job)

    def _frozen(self) -> tuple[TextModel, saving.Record]:
        return self._driver.worker.ask(lambda: saving.frozen(self._driver.own, self.start, self.source)).result()
