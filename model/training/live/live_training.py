"""Training while someone looks: a run in a thread of its own, commanded and read from any other."""

from __future__ import annotations

import itertools
import logging
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from model.data import sources
from model.data.sources import TrainingData
from model.inference.text_model import TextModel
from model.message import InputError, Message
from model.runtime.device import compute_alone
from model.runtime.errors import CheckpointError, describe_training_error
from model.runtime.ledger import Reservation
from model.runtime.locks import Lock
from model.runtime.memory import collect
from model.training.live import saving
from model.training.live.frame_recorder import Probe
from model.training.live.key_frames import KeyFrame
from model.training.live.pending_steps import MANY
from model.training.live.recorded_trainer import RecordedTrainer
from model.training.live.runs import Run
from model.training.live.saved_training import SavedTraining, go_on, keep_first, keep_state, remove_saved_training
from model.training.live.snapshot import Snapshot, Status, View
from model.training.live.worker import Job, Slots, Worker
from model.training.settings import BatchSizes, RunSettings, TrainingSettings
from model.training.trainer import BrokenOffError

_numbers = itertools.count(1)
KEEP_EVERY = 30.0  # seconds between the states that are kept of a training
LOOK_EVERY = 0.1  # seconds between looks at steps that are taken to be watched: nobody sees more
UNSEEN = 9.0  # seconds without a heartbeat after which a run pauses, so that it stands still within ten
USED_UP = (
    "this training has had its {minutes:g} minutes, which is all that this server gives to one: look at its film, "
    "download it, or begin another one"
)
NOT_SAVED = "this training is not kept for a restart of the server any more: {reason}"
RECENT = 2 * MANY  # steps that the speed is measured on: some of them stop to be filmed


class LiveTraining:
    """One training, on a copy of `start`. Commands return at once and are done in their order, between steps.

    There is a thread only while there is something to do: it does the commands, trains while steps are wanted, someone
    looks and a slot is free, and publishes a snapshot after each job.

    number: unique in the process. settings: as they were wished last; in force are those of `recorded`. batches: sizes
    that `advance` and `run` take; whoever chooses another one in the settings has chosen it for both. seen: time by
    the clock when someone looked last. promise: of its memory, returned when it is freed; None: nobody made one.
    """

    promise: Reservation | None = None
    save_error = ""  # why its folder does not hold it any more

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
        longest: float = math.inf,
        owner: str = "",
        batches: BatchSizes | None = None,
        folder: Path | None = None,
        going_on: SavedTraining | None = None,
        **budgets: int,
    ) -> None:
        """source: for the model card. unseen: seconds without `heartbeat` after which it pauses. longest: seconds that
        its steps may take in all. batches: which `advance` and `run` take; None: those of the settings, which are those
        of the first step. owner: by what it is known who may steer it. folder: in which another process finds
        it, by `read_saved_training`. going_on: what was found there, to stand where that stood. budgets: see `Film`.

        Raises nothing: where a training cannot be prepared, the snapshot has failed, with a sentence that says why.
        """
        self.number, self.owner = next(_numbers), owner
        self.start, self.material, self.source = start, material, source or sources.Source()
        self.settings = RunSettings.of(settings, start.config)
        self.batches = batches or BatchSizes(settings.batch_tokens, settings.batch_tokens)
        self.seen = clock()
        self._prepare: Callable[[], RecordedTrainer] = lambda: RecordedTrainer(
            start, material, settings, probe, **budgets
        )
        self._folder, self._going_on, self._has_start = folder, going_on, False
        self._save_time, self._save_step = clock(), going_on.state["step"] if going_on else 0
        self._longest, self._used = longest, 0.0  # seconds of its steps
        self._choosing = Lock("choices")  # around what is read of the settings and written back
        self._slots, self._clock, self._patience = slots or Slots(1), clock, unseen
        self._recorded: RecordedTrainer | None = None
        self._snapshot = Snapshot("preparing")
        self._status: Status = "preparing"
        self._wanted, self._message = 0, ""
        self._ended = self._unseen = self._watched = False
        self._looked_at = -math.inf  # by the clock
        self._break_off = False  # a command waits that makes the present step superfluous
        self._view: View | None = None
        self._view_wanted = self._view_is_old = False
        self._speeds: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self._worker = Worker(compute_alone, self._next, self._fail)
        self._worker.do(self._begin)

    # Readable from any thread.

    @property
    def snapshot(self) -> Snapshot:
        """Present state of the training."""
        return replace(self._snapshot, busy=self._worker.busy, ahead=self._slots.ahead_of(self._worker))

    @property
    def runs(self) -> tuple[Run, ...]:
        """Runs that are kept, oldest first; none while the first is being prepared."""
        recorded = self._recorded
        return tuple(recorded.runs) if recorded else ()

    @property
    def current(self) -> Run | None:
        """Run that is trained; None while it is being prepared."""
        recorded = self._recorded
        return recorded.run if recorded else None

    @property
    def size(self) -> int:
        """Bytes that are released when the training is freed; 0 while it is being prepared."""
        recorded = self._recorded
        return recorded.size if recorded else 0

    @property
    def recorded(self) -> RecordedTrainer:
        """Trainer and recordings: for the thread alone while that is busy.

        Raises:
            ValueError: the training could not be prepared, or has been freed.
        """
        if self._recorded:
            return self._recorded
        if self._message:
            raise ValueError(self._message)
        raise ValueError("this training has been freed: begin another one")

    def view(self) -> View | None:
        """Newest view of the probe; a newer one follows after the next step. None while the run is being prepared."""
        self._view_wanted = True
        return self._view

    def heartbeat(self) -> None:
        """Note that someone is looking."""
        self.seen = self._clock()

    def settled(self, timeout: float | None = None) -> bool:
        """Wait, at most `timeout` seconds, until there is nothing to do; return whether that is so."""
        return self._worker.settled(timeout)

    # Commands.

    def advance(self, steps: int = 1) -> None:
        """Train `steps` steps more than are wanted already: in batches to be watched, unless others are being trained.

        Raises:
            ValueError: steps are fewer than 1.
        """
        if steps < 1:
            raise InputError("steps ({steps}) must be at least 1", steps=steps)

        def want() -> None:
            done = self.recorded.steps_done
            if self._wanted <= done:
                self._watched = True
                self._take_batches(self.batches.watched)
            self._want(max(self._wanted, done) + steps)

        self._do(want)

    def run(self) -> None:
        """Train to the end of the run, in full batches."""

        def want() -> None:
            self._watched = False
            self._take_batches(self.batches.full)
            self._want(self.recorded.trainer.total_steps)

        self._do(want)

    def go_to(self, step: int) -> None:
        """Train to a step of the run and wait there; to one that is past from the key frame before it, and steps after
        that are forgotten.
        """

        def go() -> None:
            recorded = self.recorded
            if step < recorded.steps_done:
                recorded.rewind(recorded.run.film.keys_until(step)[-1])
                self._speeds.clear()
                self._view_is_old = True
            self._ended, self._watched = False, True
            self._want(step)

        self._do(go, at_once=True)

    def watch_batches(self, tokens: int) -> None:
        """Take batches of so many tokens from the next `advance` on.

        Raises:
            ValueError: they are larger than those of `run`, or empty.
        """
        with self._choosing:
            self.batches = replace(self.batches, watched=tokens)
        self.heartbeat()

    def pause(self) -> None:
        """Pause after the present step, or before it where only some of its batches are done."""
        self._do(lambda: self._halt("paused"), at_once=True)

    def stop(self) -> None:
        """End the run, and wait until its thread is gone. `rewind` and `branch` still go on from its recordings."""
        self._do(lambda: self._halt("stopped"), at_once=True)
        self.settled()

    def reset(self) -> None:
        """Begin another run from the first weights, with the settings now in force; the runs so far are kept."""
        self._leap(RecordedTrainer.restart)

    def rewind(self, key: KeyFrame) -> None:
        """Go back to a key frame; later steps of its run are forgotten.

        Raises:
            ValueError: batches of the size that the run had there do not fit into memory now.
        """
        self.settings = self._allowed(key.settings)
        self._leap(lambda recorded: recorded.rewind(key))

    def branch(self, key: KeyFrame, **changes: Any) -> None:
        """Begin another run from a key frame, with the same batches and other settings; the present run is kept.

        Raises:
            ValueError: something cannot be changed in a run, is out of its range, or does not fit into memory.
        """
        self.settings = settings = self._allowed(key.settings.with_changes(changes))
        self.batches = BatchSizes(settings.batch_tokens, settings.batch_tokens)  # it differs in nothing else
        self._leap(lambda recorded: recorded.branch(key, changes))

    def change(self, **changes: Any) -> None:
        """Train with other settings or dropout rates from the next step on.

        Raises:
            ValueError: something cannot be changed in a run, is out of its range, or does not fit into memory.
        """
        self._allowed(self.settings.with_changes(changes))
        with self._choosing:  # once more: another window may have changed something else meanwhile
            self.settings = settings = self.settings.with_changes(changes)
            if "batch_tokens" in changes:
                self.batches = BatchSizes(settings.batch_tokens, settings.batch_tokens)
        self._do(lambda: self.recorded.change(changes))

    def set_probe(self, probe: Probe) -> None:
        """Watch another text from now on; `Film.rerender` shows it in the past too."""

        def show() -> None:
            self.recorded.show(probe)
            self._view_is_old = True

        self._do(show)

    def save(self, folder: Path) -> None:
        """Write the run as it is now as a checkpoint in our format."""
        saving.save(folder, *self._frozen())

    def zip(self, name: str, curves: bool = False) -> bytes:
        """Checkpoint of the run as a zip file, which unpacks into a folder of that name.

        curves: add the curves of all runs, for TensorBoard.

        Raises:
            ValueError: curves are wanted, and TensorBoard is not installed.
        """
        return saving.zipped(name, *self._frozen(), self.runs if curves else ())

    def keep(self) -> Path | None:
        """Have its folder hold how the run stands now, for another process; None: it has no folder, or cannot be kept.

        Raises:
            ValueError: the training could not be prepared, or has been freed.
        """

        def keep() -> Path | None:
            self._keep_state()
            return self._folder

        return self._worker.ask(keep).result()

    def close(self, forget: bool = True) -> None:
        """Free all memory, and wait until the thread is gone. forget: remove what was kept of it, too."""
        self._do(self._free, at_once=True)
        self.settled()
        if forget and self._folder:
            remove_saved_training(self._folder)
        if self.promise:
            self.promise.release()
        collect.expect()

    def _allowed(self, settings: RunSettings) -> RunSettings:
        """The settings, if they fit into memory: checked here, not in the thread, so that the caller gets the error."""
        recorded = self._recorded
        if settings.batch_tokens <= self.batches.full:
            return settings
        if recorded is None:
            recorded = self._worker.ask(lambda: self.recorded).result()  # wait while it is being prepared
        more = recorded.require_room(settings)
        if self.promise and more:
            self.promise.grow(more)
        return settings

    def _do(self, job: Job, at_once: bool = False) -> None:
        """Give the thread a command, which shows that someone looks. at_once: after the present batch, not the step."""
        self.heartbeat()
        if not at_once:
            self._worker.do(job)
            return

        def after_break() -> None:
            self._break_off = False
            job()

        self._break_off = True
        self._worker.do(after_break)

    def _leap(self, go: Callable[[RecordedTrainer], None]) -> None:
        """Go to another step of this or another run, and wait there."""

        def leap() -> None:
            recorded = self.recorded
            self._wanted, self._ended, self._status, self._message, self._unseen = 0, False, "idle", "", False
            self._speeds.clear()
            go(recorded)
            self._view_is_old = True

        self._do(leap, at_once=True)

    def _frozen(self) -> tuple[TextModel, saving.Record]:
        return self._worker.ask(lambda: saving.frozen(self.recorded, self.start, self.source)).result()

    # Jobs of the thread, one after the other.

    def _begin(self) -> None:
        recorded = self._prepare()
        if self._going_on:
            go_on(recorded, self._going_on)
            self.settings, self._going_on = recorded.settings, None
            self._has_start = True
        self._recorded = recorded
        recorded.trainer.should_break_off = lambda: self._break_off or self._nobody_looks
        self._status, self._view_is_old = "idle", True

    @property
    def _nobody_looks(self) -> bool:
        return self._clock() - self.seen > self._patience

    def _take_batches(self, tokens: int) -> None:
        """Train in batches of so many tokens from the next step on; their memory was promised at the beginning."""
        recorded = self.recorded
        if tokens == recorded.settings.batch_tokens or self._ended or recorded.trainer.finished:
            return
        recorded.change({"batch_tokens": tokens})
        with self._choosing:
            self.settings = self.settings.with_changes({"batch_tokens": tokens})
        self._speeds.clear()

    def _want(self, step: int) -> None:
        """Train to a step, unless the run has ended."""
        if not self._ended:
            self._wanted, self._status, self._message, self._unseen = step, "idle", "", False

    def _halt(self, status: Status) -> None:
        """Train no further."""
        if status == "stopped" or self._wanted > self.recorded.steps_done:
            self._status = status
        self._ended = self._ended or status == "stopped"
        self._wanted = 0

    def _free(self) -> None:
        """Release all memory."""
        self._recorded = self._view = None
        self._wanted, self._status, self._message = 0, "stopped", ""

    def _next(self) -> Job | None:
        """Job when no command waits: train a step, or take a view of the newest one; None if there is nothing to do."""
        recorded = self._recorded
        if recorded and self._wanted > recorded.steps_done and not recorded.trainer.finished:
            if self._nobody_looks:
                self._halt("paused")
                self._unseen = True
            elif self._used >= self._longest:
                self._message = Message(USED_UP, minutes=self._longest / 60)
                self._wanted, self._status = 0, "failed"
            elif self._slots.take(self._worker):
                self._status = "running"
            else:
                self._status = "waiting"
        elif recorded and not self._ended and self._status in ("idle", "running", "finished"):
            self._status = "finished" if recorded.trainer.finished else "idle"
        self._publish()
        if self._status == "running":
            return self._train
        if recorded and self._folder and recorded.steps_done != self._save_step and self._status != "waiting":
            return self._keep_state
        if self._status != "waiting":
            self._slots.leave(self._worker)
        return self._look if recorded and self._view_is_old else None

    def _train(self) -> None:
        began = time.perf_counter()
        self._view_is_old = True  # a step that fails may go back
        try:
            report = self.recorded.step(at_once=False)
        except BrokenOffError:
            return
        if self._view_wanted or (self._watched and self._clock() - self._looked_at > LOOK_EVERY):
            self._look()
        took = time.perf_counter() - began
        self._used += took
        self._speeds.append((report.tokens, took))
        if self._folder and self._clock() - self._save_time > KEEP_EVERY:
            self._keep_state()

    def _keep_state(self) -> None:
        """Have the folder, if there is one, hold how the run stands now."""
        self._save_time, self._save_step = self._clock(), self.recorded.steps_done
        recorded, data = self.recorded, self.material.data
        if self._has_start:
            self._keep(lambda folder: keep_state(folder, recorded, self.batches))
        elif data is not None:  # after the first step, which is waited for; without its data nobody could go on with it
            origin = self.start, data, self.source, self.owner
            self._keep(lambda folder: keep_first(folder, *origin, recorded, self.batches))
            self._has_start = True

    def _keep(self, write: Callable[[Path], None]) -> None:
        """A training goes on where its folder cannot be written, and is kept no longer."""
        try:
            if self._folder:
                write(self._folder)
        except CheckpointError as error:
            logging.getLogger(__name__).exception("a training is not kept any more")
            self._folder, self.save_error = None, Message(NOT_SAVED, reason=error)

    def _look(self) -> None:
        self._looked_at = self._clock()
        self._view_wanted = self._view_is_old = False  # a look that fails is not tried again by itself
        self._view = self.recorded.look()

    def _fail(self, error: Exception) -> None:
        recorded = self._recorded
        step, batch = (recorded.steps_done, recorded.settings.batch_tokens) if recorded else (0, 0)
        self._message = describe_training_error(error, step, batch)
        self._wanted, self._status = 0, "failed"

    def _publish(self) -> None:
        recorded = self._recorded
        if recorded is None:
            self._snapshot = replace(self._snapshot, status=self._status, message=self._message)
            return
        film = recorded.run.film
        tokens, seconds = (sum(column) for column in zip(*self._speeds, strict=True)) if self._speeds else (0, 0.0)
        wanted = max(recorded.steps_done, min(self._wanted, recorded.trainer.total_steps))
        self._snapshot = Snapshot(
            status=self._status,
            step=recorded.steps_done,
            wanted=wanted,
            total=recorded.trainer.total_steps,
            loss=recorded.latest("loss"),
            validation=recorded.latest("validation"),
            accuracy=recorded.latest("accuracy"),
            exact_match=recorded.latest("exact match"),
            tokens_per_second=tokens / seconds if seconds else None,
            seconds_left=(wanted - recorded.steps_done) * seconds / len(self._speeds) if seconds else None,
            message=self._message,
            unseen=self._unseen,
            watched=self._watched and self._status == "running",
            run=recorded.run.number,
            marks=tuple(recorded.run.changes),
            frames=len(film),
            film_every=film.every,
        )
