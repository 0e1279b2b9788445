"""What goes on in the thread of a live training: one thing after the other, so that no two meet."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Protocol, TypeVar, runtime_checkable

from model.runtime.device import compute_alone
from model.runtime.errors import describe_training_error
from model.training.live.camera import Probe
from model.training.live.pending_steps import MANY
from model.training.live.recorded_trainer import RecordedTrainer
from model.training.live.snapshot import Snapshot, Status, View
from model.training.settings import RunSettings
from model.training.trainer import BrokenOffError

RECENT = 2 * MANY  # steps that the speed is measured on: some of them stop to be filmed


class TrainingWorker:
    """Trains while steps are wanted, someone looks and a slot is free; publishes a snapshot after whatever it does.

    Methods are for the thread's jobs, but for `view`, `heartbeat`, `wake` and `break_off`, and for reading `watched`
    and `snapshot`.
    """

    def __init__(
        self,
        prepare: Callable[[], RecordedTrainer],
        choices: RunSettings,
        slots: Slots,
        clock: Callable[[], float],
        patience: float,
    ) -> None:
        """prepare: makes what is trained. patience: seconds without a heartbeat after which it pauses."""
        self._prepare, self._slots, self._clock, self._patience = prepare, slots, clock, patience
        self.watched: RecordedTrainer | None = None
        self.snapshot = Snapshot("preparing", choices)
        self.worker = Worker(compute_alone, self._next, self._fail)
        self.seen = clock()
        self._view: View | None = None
        self._view_wanted = self._view_is_old = self._ended = self._unseen = False
        self._in_haste = False  # a job is coming that makes the step that is being done superfluous
        self._wanted, self._message = 0, ""
        self._status: Status = "preparing"
        self._speeds: deque[tuple[int, float]] = deque(maxlen=RECENT)
        self.worker.do(self._begin)

    @property
    def ahead(self) -> int:
        """How many others wait before this one."""
        return self._slots.ahead_of(self)

    @property
    def own(self) -> RecordedTrainer:
        """What is trained.

        Raises:
            ValueError: it could not be prepared, or has been freed.
        """
        if self.watched is None:
            raise ValueError(self._message or "this training has been freed: begin another one")
        return self.watched

    def view(self) -> View | None:
        """The newest one; the next step leaves another."""
        self._view_wanted = True
        return self._view

    def heartbeat(self) -> None:
        self.seen = self._clock()

    def wake(self) -> None:
        """A slot may be free."""
        self.worker.wake()

    def break_off(self) -> None:
        """A step of many batches is not done to its end: a `halt`, a `leap` or `free` follows."""
        self._in_haste = True

    def want(self, step: Callable[[RecordedTrainer], int]) -> None:
        """Train to the step that `step` says."""
        own = self.own
        if not self._ended:
            self._wanted, self._status, self._message, self._unseen = step(own), "idle", "", False

    def want_more(self, steps: int) -> None:
        """Train so many steps more than are wanted already."""
        self.want(lambda own: max(self._wanted, own.stands) + steps)

    def halt(self, status: Status) -> None:
        """Train no further."""
        self._in_haste = False
        if status == "stopped" or self._wanted > self.own.stands:
            self._status = status
        self._ended = self._ended or status == "stopped"
        self._wanted = 0

    def leap(self, there: Callable[[RecordedTrainer], None]) -> None:
        """Go to another place of this or another run, and stand there."""
        self._in_haste = False
        own = self.own
        self._wanted, self._ended, self._status, self._message, self._unseen = 0, False, "idle", "", False
        self._speeds.clear()
        there(own)
        self._view_is_old = True

    def show(self, probe: Probe) -> None:
        self.own.show(probe)
        self._view_is_old = True

    def free(self) -> None:
        """Keep nothing."""
        self._in_haste = False
        self.watched = self._view = None
        self._wanted, self._status, self._message = 0, "stopped", ""

    def _begin(self) -> None:
        self.watched = self._prepare()
        self.watched.trainer.in_haste = lambda: self._in_haste or self._nobody_looks
        self._status, self._view_is_old = "idle", True

    @property
    def _nobody_looks(self) -> bool:
        return self._clock() - self.seen > self._patience

    def _next(self) -> Job | None:
        """What to do when nothing else was asked for: train, or look at where the training has come to."""
        own = self.watched
        if own and self._wanted > own.stands and not own.trainer.finished:
            if self._nobody_looks:
                self.halt("paused")
                self._unseen = True
            elif self._slots.take(self):
                self._status = "running"
            else:
                self._status = "waiting"
        elif own and not self._ended and self._status in ("idle", "running", "finished"):
            self._status = "finished" if own.trainer.finished else "idle"
        self._publish()
        if self._status == "running":
            return self._train
        if self._status != "waiting":
            self._slots.leave(self)
        return self._look if own and self._view_is_old else None

    def _train(self) -> None:
        began = time.perf_counter()
        self._view_is_old = True  # a step that fails may go back
        try:
            report = self.own.step(at_once=False)
        except BrokenOffError:
            return
        if self._view_wanted:
            self._look()
        self._speeds.append((report.tokens, time.perf_counter() - began))

    def _look(self) -> None:
        self._view_wanted = self._view_is_old = False  # a look that fails is not tried again by itself
        self._view = self.own.look()

    def _fail(self, error: Exception) -> None:
        own = self.watched
        stands, batch = (own.stands, own.choices.settings.batch_tokens) if own else (0, 0)
        self._message = describe_training_error(error, stands, batch)
        self._wanted, self._status = 0, "failed"

    def _publish(self) -> None:
        own = self.watched
        if own is None:
            self.snapshot = replace(self.snapshot, status=self._status, message=self._message)
            return
        film = own.run.film
        tokens, seconds = (sum(column) for column in zip(*self._speeds, strict=True)) if self._speeds else (0, 0.0)
        wanted = max(own.stands, min(self._wanted, own.trainer.total_steps))
        self.snapshot = Snapshot(
            status=self._status,
            choices=own.choices,
            step=own.stands,
            wanted=wanted,
            total=own.trainer.total_steps,
            loss=own.latest("loss"),
            validation=own.latest("validation"),
            accuracy=own.latest("accuracy"),
            exact_match=own.latest("exact match"),
            tokens_per_second=tokens / seconds if seconds else None,
            seconds_left=(wanted - own.stands) * seconds / len(self._speeds) if seconds else None,
            message=self._message,
            unseen=self._unseen,
            run=own.run.number,
            marks=tuple(own.run.changes),
            frames=len(film),
            film_every=film.every,
            key_steps=tuple(key.step for key in film.key_frames),
        )


# How many trainings may run at once in this process, and who waits.


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


# A thread that is there while there is something to do.

Job = Callable[[], None]
Made = TypeVar("Made")


class Worker:
    """Does jobs one by one, in the order in which they came, in a thread that ends when none is left."""

    def __init__(self, begin: Job, spare: Callable[[], Job | None], failed: Callable[[Exception], None]) -> None:
        """All three are called in the thread. begin: first of all. spare: what to do, if anything, when no job waits.

        failed: a job has raised; the next one is done all the same.
        """
        self._begin, self._spare, self._failed = begin, spare, failed
        self._jobs: deque[Job] = deque()
        self._woken = False
        self._thread: threading.Thread | None = None
        self._changed = threading.Condition()

    @property
    def busy(self) -> bool:
        return self._thread is not None

    def do(self, job: Job) -> None:
        """Queue a job."""
        with self._changed:
            self._jobs.append(job)
        self.wake()

    def ask(self, job: Callable[[], Made]) -> Future[Made]:
        """Queue a job whose result, or exception, is wanted."""
        answer: Future[Made] = Future()

        def answered() -> None:
            try:
                answer.set_result(job())
            except Exception as error:
                answer.set_exception(error)

        self.do(answered)
        return answer

    def wake(self) -> None:
        """Ask again for what to do."""
        with self._changed:
            self._woken = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="training", daemon=True)
                self._thread.start()

    def settled(self, timeout: float | None = None) -> bool:
        """Wait until there is nothing to do; whether that came within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self._thread is None, timeout)

    def _work(self) -> None:
        self._begin()
        while True:
            with self._changed:
                self._woken = False
                job = self._jobs.popleft() if self._jobs else None
            try:
                job = job or self._spare()
                if job is not None:
                    job()
            except Exception as error:
                self._failed(error)
            if job is None and self._end():
                return

    def _end(self) -> bool:
        """Whether the thread can go: nothing has come meanwhile."""
        with self._changed:
            if self._jobs or self._woken:
                return False
            self._thread = None
            self._changed.notify_all()
            return True
