"""What takes a while, done in a thread of its own: the page shows what is there already."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from model.runtime import superseded
from model.runtime.errors import describe
from viz.components.progress import progress
from viz.components.view import View
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import literal
from viz.state.session import current_session

TOLD = 1.0  # seconds after which the time that is left can be told
KEPT = 64  # numbers that were asked for one by one, the latest
Job = tuple[Any, int, Callable[[], Any]]  # a key, how much work it is, and what is to be computed


class Filling:
    """Numbers by their keys, which one thread fills in and any number of sessions read.

    patience: seconds without a look at how far it is, after which it stops by itself.
    """

    patience = math.inf

    def __init__(self, jobs: Sequence[Job], found: Mapping[Any, Any] = {}) -> None:
        """found: what is known already."""
        self.found: dict[Any, Any] = dict(found)
        self.failed: dict[Any, str] = {}
        self._jobs = jobs
        self._done = sum(size for key, size, _compute in jobs if key in found)
        self._within, self._total = 0, sum(size for _key, size, _compute in jobs)
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
        """How long it has taken, and how much longer it will, by the work that is left."""
        taken = time.monotonic() - self._began
        done = self._done + self._within
        return taken, taken * (self._total - done) / max(1, done - self._before)

    def advance(self, size: int) -> None:
        """So much of the work that is being done is done; for a long one to call."""
        self._within += size

    @property
    def is_long(self) -> bool:
        """Whether it goes on for so long that somebody may want to stop it."""
        taken, left = self.seconds
        return not self.finished and taken > TOLD and left > LONG

    @property
    def progress(self) -> dict[str, Any] | None:
        """How far it has come; from its beginning, and after a while how long it goes on."""
        taken, left = self.seconds
        self._seen = time.monotonic()
        if self.finished:
            return None
        known = taken >= TOLD and self._done + self._within > self._before
        share = (self._done + self._within) / max(1, self._total)
        return {"share": share, "text": self.words(left if known else None)}

    def words(self, left: float | None) -> str:
        """How far it has come. left: seconds that it goes on; None where nobody knows yet."""
        done, count = f"{len(self.found):,}", f"{len(self._jobs):,}"
        if left is None:
            return _("measured {done} of {all}").format(done=done, all=count)
        return _("measured {done} of {all} · {seconds} s left").format(
            done=done, all=count, seconds=f"{max(1, left):.0f}"
        )

    def wait(self, seconds: float) -> None:
        """Until it is finished, or so long after its beginning: only the first look at a file waits."""
        self._seen = time.monotonic()
        self._finished.wait(max(0.0, seconds - (time.monotonic() - self._began)))

    def wait_for_end(self, seconds: float) -> None:
        """Until it has ended, or so long from now."""
        self._finished.wait(seconds)

    def stop(self) -> None:
        """End it at its next tensor, layer or decoding step; what is there stays."""
        self._stopped.set()

    def go_on(self) -> None:
        if self.stopped and self.finished:
            self._stopped.clear()
            self._finished.clear()
            self._start()

    def _start(self) -> None:
        self._began = self._seen = time.monotonic()
        self._before = self._done
        threading.Thread(target=self._run, name="filling", daemon=True).start()

    def _run(self) -> None:
        try:
            self._work()
        finally:
            self._finished.set()

    def _work(self) -> None:
        """What its thread does, until all is there or it is stopped."""
        for key, size, compute in self._jobs:
            if time.monotonic() - self._seen > self.patience:
                self.stop()
            if self.stopped:
                return
            if key in self.found or key in self.failed:
                continue
            self._within = 0
            try:
                with superseded.watch(self._stopped):
                    self.found[key] = compute()
            except superseded.SupersededError:  # it was stopped, and is computed when it goes on
                return
            except Exception as error:  # noqa: BLE001 - else what is there would look like all of it
                self.failed[key] = describe(error)
            self._done, self._within = self._done + size, 0


# What is shown of it while it goes on.

AT_ONCE = 0.12  # seconds that a page waits for a small file
LONG = 5.0  # seconds that are left, from which on there is a button to stop


@dataclass(frozen=True)
class Watched:
    """What goes on beside the page: its views, drawn again and again by the channel.

    drawn: what `stands` was when the script began to draw it; where it is another, the script runs again.
    """

    stands: Callable[[], Hashable]
    drawn: Hashable
    views: Callable[[], Sequence[View]] = tuple

    @property
    def is_old(self) -> bool:
        """Whether the script is to draw it again."""
        return self.stands() != self.drawn


def watch(watched: Watched) -> None:
    """Draw its views here, and follow it as long as this page is shown."""
    current_session().watched.append(watched)
    for shown in watched.views():
        shown()


def follow(
    fillings: Sequence[Filling], view: Callable[[], View | None], also: Callable[[], Hashable] = lambda: None
) -> bool:
    """Draw what is known while numbers are being filled in, with buttons to stop what takes long and to go on.

    view: made in any thread; None where there is nothing to be seen. also: where it changes, the script runs again.
    Returns whether it still goes on.
    """
    for filling in fillings:
        filling.wait(AT_ONCE)

    def stands() -> Hashable:
        return [(each.finished, each.stopped, each.is_long, bool(each.failed)) for each in fillings], also()

    drawn = stands()
    if going := not all(each.finished for each in fillings):
        watch(Watched(stands, drawn, lambda: [shown for shown in [view()] if shown]))
    elif shown := view():
        shown()
    for number, filling in enumerate(fillings):
        buttons(filling, number)
    return going


def bar(key: str, filling: Filling) -> View | None:
    """How far it is, until it is there."""
    told = filling.progress
    return progress(key, told["share"], told["text"]) if told else None


def buttons(filling: Filling, number: int) -> None:
    """What takes long can be stopped, and gone on with; what could not be read is said."""
    if filling.is_long:
        st.button(_("Stop measuring"), on_click=filling.stop, key=f"stop_measuring_{number}")
    if filling.finished and filling.stopped:
        st.button(_("Measure the rest"), on_click=filling.go_on, key=f"go_on_measuring_{number}")
    if filling.failed:
        st.caption(
            _("Not measured: {reason}").format(reason=literal(translate_error(next(iter(filling.failed.values())))))
        )
