"""Jobs: whatever takes longer than half a second, in a thread of its own, with its progress, its end and its memory.

They know no Streamlit and no session; any thread may look at one, wait for it, cancel it. `ui/job_view.py` shows one.
"""

from __future__ import annotations

import math
import threading
import time
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from model.message import Message
from model.runtime import cancellation
from model.runtime.errors import describe
from model.runtime.ledger import Reservation
from model.runtime.locks import condition

Result = TypeVar("Result")
Status = Literal["waiting", "running", "finished", "cancelled", "failed"]
Promise = Callable[[], Reservation | None]

KNOWN_AFTER = 1.0  # seconds after which the pace of a job can be told
REMEMBERED = 64  # values that were computed one by one, the latest


class Cancellation(threading.Event):
    """Set once a job is cancelled, and while nobody has looked at it for `patience` seconds."""

    def __init__(self, patience: float, clock: Callable[[], float]) -> None:
        super().__init__()
        self._patience, self._clock, self.seen = patience, clock, clock()

    @property
    def unseen(self) -> float:
        """Seconds since somebody looked."""
        return self._clock() - self.seen

    def is_set(self) -> bool:
        return super().is_set() or self.unseen > self._patience

    @property
    def due(self) -> float | None:
        """Seconds until it is set by itself; None: never."""
        return None if math.isinf(self._patience) else max(0.0, self._patience - self.unseen)


class Job(Generic[Result]):
    """Work of a thread, which begins at once; a heir says by `compute` what it is.

    patience: seconds without a `look` after which it is cancelled. total: of the work, in its own unit; 0: unknown.
    done: of `total` already. promise: reserves memory, which is given back at whatever end; a refusal is the maker's.

    result: of the work, also what there is of it before the end. error: sentence about what ended it, or "".

    Raises:
        NoRoomError: memory has no room for it.
    """

    thread_name = "job"
    patience = math.inf

    def __init__(
        self,
        *,
        total: float = 0.0,
        done: float = 0.0,
        promise: Promise = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total, self.done, self._promise, self.clock = total, done, promise, clock
        self.result: Result | None = None
        self.exception: BaseException | None = None
        self.status: Status = "cancelled"  # until it begins
        self._observers: set[Callable[[], None]] = set()
        self._changed = condition("job")
        self.start()

    def compute(self) -> Result | None:
        """The work; it ends at its next `cancellation.check` once the job is cancelled."""
        raise NotImplementedError

    def release(self) -> None:
        """Let go of what the work has used, in its thread at whatever end, before the job has ended."""

    @property
    def sentence(self) -> Message | None:
        """Progress in a sentence, without the time that is left."""
        return None

    def explain(self, error: Exception) -> str:
        """Sentence about an error that ended it."""
        return describe(error)

    # State of the job.

    @property
    def ended(self) -> bool:
        """True if nothing more is being computed."""
        return self.status in ("finished", "cancelled", "failed")

    @property
    def cancelled(self) -> bool:
        """True if somebody has cancelled it, or nobody looks any more; it may take a moment to end."""
        return self.status == "cancelled" or (not self.ended and self.cancellation.is_set())

    @property
    def complete(self) -> bool:
        """True if all of it was computed."""
        return self.status == "finished" and not self.error

    @property
    def error(self) -> str:
        return self._error

    @property
    def seconds(self) -> float:
        """Seconds since it began, or went on."""
        return self.clock() - self._began

    @property
    def share(self) -> float | None:
        """Share of the work that is done, 0 to 1; None where nobody knows."""
        return min(1.0, self.done / self.total) if self.total else None

    @property
    def seconds_left(self) -> float | None:
        """Estimated by its own pace; None while that is unknown. What was silent for long is silent as long again."""
        worked, advanced = self._advanced - self._began, self.done - self._before
        if self.status != "running" or self.seconds < KNOWN_AFTER or worked <= 0 or advanced <= 0 or not self.total:
            return None
        silent = self.clock() - self._advanced
        return max(worked * (self.total - self.done) / advanced - silent, silent)

    # For whoever waits.

    def look(self, wake: Callable[[], None] | None = None) -> None:
        """Say that somebody waits for it. wake: called once, in any thread, when it has gone on or ended."""
        self.cancellation.seen = self.clock()
        if wake is not None and not self.ended:
            self.notify(wake)

    def notify(self, wake: Callable[[], None]) -> None:
        """Have `wake` called once, when the job goes on, is cancelled or ends; at once where it has ended."""
        self._observers.add(wake)
        if self.ended:
            self._wake()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end, at most so many seconds; whether it has ended."""
        with self._changed:
            return self._changed.wait_for(lambda: self.ended, seconds)

    def cancel(self) -> None:
        """End it at its next tensor, layer or decoding step; what is there stays."""
        self.cancellation.set()
        with self._changed:
            self._changed.notify_all()
        self._wake()

    def start(self) -> None:
        """Begin, or go on after it was cancelled.

        Raises:
            NoRoomError: memory has no room for it.
        """
        with self._changed:
            if self.status != "cancelled":
                return
            self.status, self.cancellation = "waiting", Cancellation(self.patience, self.clock)
        promise = None
        try:
            promise = self._promise()
            self._began = self._advanced = self.clock()
            self._before, self._error = self.done, ""
            threading.Thread(target=self._run, args=(promise,), name=self.thread_name, daemon=True).start()
        except BaseException:
            self._end("cancelled", promise)
            raise

    # In its thread.

    def advance(self, size: float) -> None:
        """Count so much more of the work as done."""
        self.done += size
        self._advanced = self.clock()
        self._wake()

    def skip(self, seconds: float) -> None:
        """Leave out of the pace so many seconds in which it waited for others."""
        self._began, self._advanced = self._began + seconds, self._advanced + seconds

    def _run(self, promise: Reservation | None) -> None:
        status: Status = "failed"
        self.status = "running"
        try:
            with cancellation.watch(self.cancellation):
                self.result = self.compute()
            status = "finished"
        except cancellation.SupersededError:
            status = "cancelled"
        except BaseException as error:  # noqa: BLE001 - else whoever waits would wait for ever
            self._error = self.explain(error) if isinstance(error, Exception) else type(error).__name__
            self.exception = without_values(error)
        try:
            self.release()
        finally:
            self._end(status, promise)

    def _end(self, status: Status, promise: Reservation | None) -> None:
        if promise is not None:
            promise.release()
        with self._changed:
            self.status = status
            self._changed.notify_all()
        self._wake()

    def _wake(self) -> None:
        while self._observers:
            try:
                observer = self._observers.pop()
            except KeyError:  # another thread has called the last one
                return
            observer()


def without_values(error: BaseException) -> BaseException:
    """The error, whose traceback no longer holds what was in use when it was raised."""
    for each in filter(None, (error, error.__cause__, error.__context__)):
        traceback.clear_frames(each.__traceback__)
    return error


class TableTask(NamedTuple):
    """One value of a table: its key, how much work it is, and what computes it."""

    key: Any
    size: float
    compute: Callable[[], Any]


class TableJob(Job[None]):
    """Values by their keys, computed one after the other, which any thread reads as far as they are there.

    values: also those that are known already. errors: sentences, by the keys of what failed.
    """

    def __init__(self, tasks: Sequence[TableTask], values: Mapping[Any, Any] = {}, **options: Any) -> None:
        self.tasks, self.values, self.errors = tasks, dict(values), dict[Any, str]()
        self._memory: OrderedDict[Hashable, Any] = OrderedDict()
        known = sum(task.size for task in tasks if task.key in values)
        super().__init__(total=sum(task.size for task in tasks), done=known, **options)

    @property
    def error(self) -> str:
        """Sentence about the first of what failed."""
        return self._error or next(iter(self.errors.values()), "")

    @property
    def sentence(self) -> Message:
        return Message("measured {done} of {all}", done=f"{len(self.values):,}", all=f"{len(self.tasks):,}")

    def compute(self) -> None:
        for key, size, compute in self.tasks:
            cancellation.check()
            if key in self.values or key in self.errors:
                continue
            before = self.done
            try:
                self.values[key] = compute()
            except cancellation.SupersededError:
                self.done = before
                raise
            except Exception as error:  # noqa: BLE001 - else what is there would look like all of it
                self.errors[key] = self.explain(error)
            self.advance(before + size - self.done)

    def remember(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """Cached value of this key, computed where it is missing: a keystroke draws it again."""
        if key not in self._memory:
            value = compute()
            self._memory[key] = value
            while len(self._memory) > REMEMBERED:
                self._memory.popitem(last=False)
            return value
        return self._memory[key]

    def remembers(self, key: Hashable) -> bool:
        return key in self._memory


class Turns:
    """One job at a time, in the order of asking."""

    def __init__(self) -> None:
        self._queue: deque[object] = deque()
        self._changed = condition("turns")

    def __len__(self) -> int:
        return len(self._queue)

    @contextmanager
    def turn(self, job: Job[Any]) -> Iterator[None]:
        """A block of a job's thread in which no other job has a turn.

        Raises:
            SupersededError: the job was cancelled before it was its turn.
        """
        ticket = object()
        with self._changed:
            self._queue.append(ticket)
        try:
            with self._changed:
                while self._queue[0] is not ticket:
                    job.notify(self._wake)
                    cancellation.check()
                    self._changed.wait(job.cancellation.due)
            yield
        finally:
            with self._changed:
                self._queue.remove(ticket)
                self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
