"""What the tensors of a file measure, found in a thread of its own: the page shows what is there already."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import streamlit as st

from viz.i18n import _
from viz.sections.checkpoints_subjects import Subject

if TYPE_CHECKING:
    from model.analysis.weights import Statistics
    from model.tensors import TensorInfo

EVERY = 0.4  # seconds between two looks at what has been measured
AT_ONCE = 0.12  # seconds that a page waits for a small file
TOLD = 1.0  # seconds after which the progress is shown
KEPT = 64  # numbers of single tensors that a file keeps, the latest


class Measured:
    """The statistics of a table, by the place in the file; one thread fills them in, any number of sessions read them."""

    def __init__(self, table: list[TensorInfo]) -> None:
        self.table = table
        self.found: dict[str, Statistics] = {}
        self.failed: dict[str, str] = {}
        self.read = 0
        self._own = list({info.place: info for info in reversed(table)}.values())[::-1]
        self.total = sum(info.bytes for info in self._own)
        self._began = time.monotonic()
        self._finished = threading.Event()
        self._stopped = threading.Event()
        self._memory: OrderedDict[Hashable, Any] = OrderedDict()
        self._start()

    def of(self, info: TensorInfo) -> Statistics | None:
        return self.found.get(info.place)

    def remember(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """What was computed under this key before, or computed now: a keystroke draws it again."""
        if key not in self._memory:
            self._memory[key] = compute()
            while len(self._memory) > KEPT:
                self._memory.popitem(last=False)
        return self._memory[key]

    def remembers(self, key: Hashable) -> bool:
        return key in self._memory

    @property
    def finished(self) -> bool:
        """Nothing more is being measured."""
        return self._finished.is_set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    @property
    def seconds(self) -> tuple[float, float]:
        """How long it has taken, and how much longer it will, by the bytes that are left."""
        taken = time.monotonic() - self._began
        return taken, taken * (self.total - self.read) / max(1, self.read)

    def wait(self, seconds: float) -> None:
        self._finished.wait(seconds)

    def stop(self) -> None:
        self._stopped.set()

    def go_on(self) -> None:
        if self.stopped and self.finished:
            self._stopped.clear()
            self._finished.clear()
            self._start()

    def _start(self) -> None:
        self._began = time.monotonic()
        threading.Thread(target=self._run, name="statistics", daemon=True).start()

    def _run(self) -> None:
        from model.analysis.weights import all_statistics

        try:
            for info in self._own:
                if self._stopped.is_set():
                    return
                if info.place in self.found or info.place in self.failed:
                    continue
                try:
                    self.found |= {info.place: statistics for _info, statistics in all_statistics([info])}
                except ValueError as error:
                    self.failed[info.place] = str(error)
                self.read += info.bytes
        finally:
            self._finished.set()


def measured(subject: Subject) -> Measured:
    """Begun when it is first asked for; the same for every session, and another when the file has changed.

    Raises:
        CheckpointError: the file is damaged, or must not be read.
    """
    return _measured(str(subject.path), changed(subject), subject)


@st.cache_resource(max_entries=8, show_spinner=False, hash_funcs={Subject: lambda subject: str(subject.path)})
def _measured(path: str, changed: int, subject: Subject) -> Measured:
    return Measured(subject.table())


def changed(subject: Subject) -> int:
    """When it was last changed."""
    return max(path.stat().st_mtime_ns for path in [subject.path, *subject.path.glob("*")])


def progress(found: Measured) -> dict[str, Any] | None:
    """How far it has come, once it has taken a while."""
    taken, left = found.seconds
    if found.finished or taken < TOLD:
        return None
    text = _("measured {done} of {all} · {seconds} s left").format(
        done=f"{len(found.found):,}", all=f"{len(found._own):,}", seconds=f"{max(1, left):.0f}"
    )
    return {"share": found.read / max(1, found.total), "text": text}
