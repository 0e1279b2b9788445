"""Measuring the importance of each head: by itself where that is quick, in a thread of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import streamlit as st

from model.analysis.head_importance import Effect, Place, Removals, removable
from model.capture.interventions import RemovedHead
from model.capture.trace import AttentionKind, Trace
from model.inference.model import Inspectable
from viz.attention.importance_words import Weighed
from viz.i18n.errors import lacks
from viz.state.workbench import Workbench, attention_kinds
from viz.ui.background import Filling
from viz.ui.prediction import subject_of

LIGHT = 5e10  # multiplications and additions of all passes that take about a second on one core
QUICK = 4.0  # seconds of as many passes as there are heads: together they take about a third of it
WAIT = 1.0  # seconds that the page waits for a measurement that began by itself
KEPT = "head_importance"  # in the session: what was measured of this trace, and of the pinned one


class Measuring(Filling):
    """The effects of all heads of these kinds, group by group."""

    patience = 10.0  # the page that asked for them may be closed, or another one open

    def __init__(self, removals: Removals, kinds: list[AttentionKind]) -> None:
        groups = removals.groups(kinds)
        super().__init__([(str(each), len(each.heads), partial(removals.without_each, each)) for each in groups])

    @property
    def effects(self) -> dict[Place, Effect]:
        return {place: effect for group in self.found.values() for place, effect in group.items()}

    @property
    def whole(self) -> bool:
        """Whether every head was measured."""
        return self.finished and not self.stopped and not self.failed


@dataclass
class Measured:
    """Of one trace: the passes that it takes, and what they gave so far. most: seconds that all of them will take."""

    trace: Trace
    removals: Removals
    kinds: list[AttentionKind]
    most: float
    measuring: Measuring | None = None
    ranked: list[Place] = field(default_factory=list)

    def begin(self) -> None:
        if self.measuring is None:
            self.measuring = Measuring(self.removals, self.kinds)
        else:
            self.measuring.go_on()


def measured(bench: Workbench, lens: Inspectable) -> Measured:
    """What there is of the workbench's trace; begun now, where it is quick."""
    assert bench.trace is not None
    kept: list[Measured] = st.session_state.setdefault(KEPT, [])
    pinned = bench.pin.trace if bench.pin else None
    for each in kept:
        if each.trace is bench.trace:
            return each
        if each.measuring is not None and each.trace is not pinned:
            each.measuring.stop()  # nobody will see it
    made = _new(bench, bench.trace, lens)
    kept[:] = [*(each for each in kept if each.trace is pinned), made]
    work = 2.0 * lens.model.parameter_count() * made.removals.length * len(made.removals.places(made.kinds))
    if work < LIGHT or made.most < QUICK:
        made.begin()
    return made


def shown(bench: Workbench) -> Measured:
    """What there is of the trace that a click was made on: not the newest one, where a change was taken back."""
    kept: list[Measured] = st.session_state[KEPT]
    return next(each for each in kept if each.trace is bench.trace)


def _new(bench: Workbench, trace: Trace, lens: Inspectable) -> Measured:
    assert bench.source is not None
    actual = subject_of(bench).ids if lens.predicts else []
    kinds = [kind for kind in attention_kinds(lens.model) if not lacks(lens.model, removable(kind))]
    removals = Removals(lens, bench.source, bench.target, actual, trace.changes)
    return Measured(trace, removals, kinds, removals.seconds() * len(removals.places(kinds)))


def weigh(bench: Workbench, found: Measured) -> Weighed | None:
    """What was measured, once it is all there."""
    if found.measuring is None:
        return None
    found.measuring.wait(WAIT)
    if not found.measuring.whole:
        return None
    removed = [(each.kind, each.layer, each.head) for each in found.trace.changes if isinstance(each, RemovedHead)]
    loss, predicts = found.removals.loss, found.removals.predicts
    pinned, unlike = None, False
    for each in st.session_state[KEPT]:
        if bench.pin and each.trace is bench.pin.trace and each.measuring is not None and each.measuring.whole:
            unlike = each.removals.predicts != predicts
            pinned = None if unlike else each.measuring.effects
    differing = bench.differing and pinned is not None
    return Weighed(found.trace, found.measuring.effects, loss, predicts, removed, pinned, differing, unlike)
