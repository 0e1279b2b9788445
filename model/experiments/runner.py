"""Runner of an experiment in a thread of its own; any thread may read its results so far."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from model.message import Message
from model.runtime.device import compute_alone, give_back_memory
from model.runtime.errors import MissingQuantityError, first_line, is_out_of_memory
from model.runtime.locks import Lock, condition

Result = TypeVar("Result")
Status = Literal["waiting", "running", "finished", "stopped", "failed"]

SEEN = 10.0  # seconds without a look after which an experiment pauses
KEPT = 600.0  # seconds without a look after which it ends
NO_ROOM = "this experiment does not fit into memory: choose smaller numbers"
BROKEN_OFF = "this experiment broke off with {name}: {first}; begin it again, or with other numbers"
_turn = Lock("experiment")  # one at a time in this process: two would measure one another


@dataclass(frozen=True)
class Report(Generic[Result]):
    """Share of an experiment that is done, 0 to 1, and its results so far."""

    share: float
    result: Result


def explained(error: Exception) -> str:
    """Sentence about the error that ended an experiment; an unexpected one is logged too."""
    if isinstance(error, MissingQuantityError):
        return error.reason
    if isinstance(error, ValueError | FloatingPointError):
        return str(error)
    if is_out_of_memory(error):
        return NO_ROOM
    logging.getLogger(__name__).error("an experiment broke off", exc_info=error)
    return Message(BROKEN_OFF, name=type(error).__name__, first=first_line(error))


class Running(Generic[Result]):
    """A running experiment; it pauses, and later ends, when nobody looks at it any more.

    alone: it computes on one core, as trainings do, so that the page answers; time measurements may use all cores.
    """

    def __init__(
        self,
        experiment: Callable[[], Iterator[Report[Result]]],
        *,
        alone: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._experiment, self._alone, self._clock = experiment, alone, clock
        self._newest: Report[Result] | None = None
        self.status: Status = "waiting"
        self.message = ""
        self.missing: MissingQuantityError | None = None  # what the model lacks, where that ended the experiment
        self._seen = clock()
        self._worked = 0.0  # seconds of computing
        self._changed = condition("reports")
        self._wanted_end = False
        self._thread = threading.Thread(target=self._run, name="experiment", daemon=True)
        self._thread.start()

    def look(self) -> Report[Result] | None:
        """Newest report; the experiment goes on only as long as this is called again and again."""
        with self._changed:
            self._seen = self._clock()
            self._changed.notify_all()
            return self._newest

    @property
    def newest(self) -> Report[Result] | None:
        """Newest report, without the look that keeps the experiment going."""
        return self._newest

    @property
    def ended(self) -> bool:
        """Whether the experiment has ended, for whatever reason."""
        return self.status in ("finished", "stopped", "failed")

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds of computing that are left, by the share that is done; None while nothing is."""
        newest = self._newest
        return self._worked * (1 - newest.share) / newest.share if newest and newest.share > 0 else None

    def stop(self) -> None:
        """End the experiment after its present report; the results stay."""
        with self._changed:
            self._wanted_end = True
            self._changed.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, at most `timeout` seconds, until the experiment has ended; return whether it has."""
        self._thread.join(timeout)
        return self.ended

    def _run(self) -> None:
        if self._alone:
            compute_alone()
        try:
            status = self._go_through()
        except MissingQuantityError as absent:
            self.missing, self.message, status = absent, str(absent.reason), "failed"
        except Exception as error:  # noqa: BLE001 - else the page would wait for ever
            self.message = explained(error)
            status = "failed"
        give_back_memory()  # before anybody asks whether the next one fits
        self.status = status

    def _go_through(self) -> Status:
        reports = self._experiment()
        while self._in_turn():
            try:
                while True:
                    began = self._clock()
                    newest = next(reports, None)
                    if newest is None:
                        return "finished"
                    with self._changed:
                        self._worked += self._clock() - began
                        self._newest = newest
                    if self._wanted_end or self._unseen(SEEN):
                        break
            finally:
                _turn.release()  # while nobody looks, others may compute
            with self._changed:
                while self._unseen(SEEN) and not self._over:
                    self._changed.wait(1.0)
        return "stopped"

    def _in_turn(self) -> bool:
        """Wait until no other experiment computes; return False if this one has been ended meanwhile."""
        self.status = "waiting"
        while not self._over:
            if _turn.acquire(timeout=0.2):
                self.status = "running"
                return True
        return False

    @property
    def _over(self) -> bool:
        return self._wanted_end or self._unseen(KEPT)

    def _unseen(self, seconds: float) -> bool:
        return self._clock() - self._seen > seconds
