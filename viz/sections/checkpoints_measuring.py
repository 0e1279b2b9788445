"""What takes a while for a whole file, done in a thread of its own: the page shows what is there already."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from viz.i18n import _
from viz.sections.checkpoints_subjects import Subject

if TYPE_CHECKING:
    from torch import Tensor

    from model.analysis.health import Finding
    from model.analysis.moved import Moved
    from model.analysis.weights import Statistics
    from model.tensors import TensorInfo

TOLD = 1.0  # seconds after which the progress is shown
FIRST, LAST = "\0first", "\0last"  # keys of findings among those of tensors, which no name is
KEPT = 64  # numbers of single tensors that a file keeps, the latest

Job = tuple[str, int, Callable[[], Any]]  # a key, bytes to be read, and what is to be computed


class Filling:
    """Numbers by their keys, which one thread fills in and any number of sessions read."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.found: dict[str, Any] = {}
        self.failed: dict[str, str] = {}
        self._jobs = jobs
        self._read, self._total = 0, sum(size for _key, size, _compute in jobs)
        self._finished, self._stopped = threading.Event(), threading.Event()
        self._memory: OrderedDict[Hashable, Any] = OrderedDict()
        self._start()

    def remember(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """What was computed under this key before, or computed now: a keystroke draws it again."""
        if key not in self._memory:
            made = compute()
            self._memory[key] = made
            while len(self._memory) > KEPT:
                self._memory.popitem(last=False)
            return made
        return self._memory[key]

    def remembers(self, key: Hashable) -> bool:
        return key in self._memory

    @property
    def finished(self) -> bool:
        """Nothing more is being computed."""
        return self._finished.is_set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    @property
    def seconds(self) -> tuple[float, float]:
        """How long it has taken, and how much longer it will, by the bytes that are left."""
        taken = time.monotonic() - self._began
        return taken, taken * (self._total - self._read) / max(1, self._read - self._before)

    @property
    def progress(self) -> dict[str, Any] | None:
        """How far it has come, once it has taken a while."""
        taken, left = self.seconds
        if self.finished or taken < TOLD:
            return None
        text = _("measured {done} of {all} · {seconds} s left").format(
            done=f"{len(self.found):,}", all=f"{len(self._jobs):,}", seconds=f"{max(1, left):.0f}"
        )
        return {"share": self._read / max(1, self._total), "text": text}

    def wait(self, seconds: float) -> None:
        """Until it is finished, or so long after its beginning: only the first look at a file waits."""
        self._finished.wait(max(0.0, seconds - (time.monotonic() - self._began)))

    def stop(self) -> None:
        self._stopped.set()

    def go_on(self) -> None:
        if self.stopped and self.finished:
            self._stopped.clear()
            self._finished.clear()
            self._start()

    def _start(self) -> None:
        self._began, self._before = time.monotonic(), self._read
        threading.Thread(target=self._run, name="statistics", daemon=True).start()

    def _run(self) -> None:
        try:
            for key, size, compute in self._jobs:
                if self._stopped.is_set():
                    return
                if key in self.found or key in self.failed:
                    continue
                try:
                    self.found[key] = compute()
                except (ValueError, RuntimeError, OSError, MemoryError) as error:
                    self.failed[key] = str(error) or type(error).__name__
                self._read += size
        finally:
            self._finished.set()


class Measured(Filling):
    """The statistics of a table, by the place in the file."""

    def __init__(self, table: list[TensorInfo]) -> None:
        from model.analysis.weights import first_of_places, readable

        self.table = table
        own = [info for info in first_of_places(table) if readable(info)]
        super().__init__([(info.place, info.bytes, partial(_statistics, info)) for info in own])

    def of(self, info: TensorInfo) -> Statistics | None:
        return self.found.get(info.place)


class Moving(Filling):
    """How far every tensor that two tables have moved, by its name."""

    def __init__(self, before: list[TensorInfo], after: list[TensorInfo]) -> None:
        from model.analysis.moved import moved
        from model.analysis.weights import readable

        old = {info.name: info for info in before if readable(info)}
        self.both = [info for info in after if readable(info) and info.name in old]
        self.same = [info for info in self.both if old[info.name].shape == info.shape]
        super().__init__([(info.name, 2 * info.bytes, partial(moved, old[info.name], info)) for info in self.same])

    def of(self, info: TensorInfo) -> Moved | None:
        return self.found.get(info.name)


class Examined(Filling):
    """What is wrong with a file, as `findings`: at first without what only the singular values tell."""

    def __init__(self, measured: Measured) -> None:
        from model.analysis.spectra import has_spectrum, spectrum
        from model.analysis.weights import first_of_places

        own = [info for info in first_of_places(measured.table) if has_spectrum(info)]
        jobs: list[Job] = [(FIRST, 0, partial(self._health, measured, {}))]
        jobs += [(info.place, info.bytes, partial(spectrum, info)) for info in own]
        super().__init__([*jobs, (LAST, 0, lambda: self._health(measured, self._spectra()))])

    @property
    def findings(self) -> list[Finding] | None:
        found: list[Finding] | None = self.found.get(LAST, self.found.get(FIRST))
        return found

    def _spectra(self) -> dict[str, Tensor]:
        return {place: values for place, values in self.found.items() if place != FIRST}

    @staticmethod
    def _health(measured: Measured, spectra: dict[str, Tensor]) -> list[Finding]:
        from model.analysis.health import health

        return health(measured.table, measured.found, spectra)


def _statistics(info: TensorInfo) -> Statistics:
    from model.analysis.weights import statistics

    return statistics(info.load())


def measured(subject: Subject) -> Measured:
    """Begun when it is first asked for; the same for every session, and another when the file has changed.

    Raises:
        CheckpointError: the file is damaged, or must not be read.
    """
    return _measured(str(subject.path), subject.changed, subject)


def moving(before: Subject, after: Subject) -> Moving:
    """The same of two files."""
    places = (str(before.path), before.changed, str(after.path), after.changed)
    return _moving(places, before, after)


BY_PATH: dict[str | type[Any], Callable[[Any], Any]] = {Subject: lambda subject: str(subject.path)}


@st.cache_resource(max_entries=12, show_spinner=False, hash_funcs=BY_PATH)
def _measured(path: str, changed: int, subject: Subject) -> Measured:
    return Measured(subject.table())


@st.cache_resource(max_entries=4, show_spinner=False, hash_funcs=BY_PATH)
def _moving(places: tuple[str, int, str, int], before: Subject, after: Subject) -> Moving:
    return Moving(before.table(), after.table())
