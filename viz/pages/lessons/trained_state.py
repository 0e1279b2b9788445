"""State of a step whose model is in training: a demonstration, begun from its seed and trained to the step, live."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import streamlit as st

from model.training.demonstration import DEMONSTRATIONS
from viz.components import progress
from viz.i18n.catalogue import _
from viz.state import training
from viz.state.demonstration import begin_demonstration
from viz.state.session import Session
from viz.ui.parts import Drawing, Views

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

    from model.inference.text_model import TextModel
    from model.training.demonstration import Demonstration
    from model.training.live.live_training import LiveTraining


class Part(StrEnum):
    """Names in the session state; the first two are parameters of the address bar."""

    NAME = "training"
    STEP = "training_step"
    PROGRESS = "lesson_training"


def train_to(session: Session, name: str, step: int) -> None:
    """Show the demonstration of this name, trained to a step; its run goes on where it is untouched, else it begins
    anew. In a callback, or before widgets are drawn.
    """
    demonstration = DEMONSTRATIONS[name]
    live = own_run(session)
    if live is None or not is_untouched(live, demonstration):
        if live is None:
            leave(session)
        live = begin_demonstration(session, demonstration)
        if live is None:
            return
        session.training.lesson_run = session.training.run
    live.go_to(step)
    training.show()
    session.address.set(Part.NAME, name)
    session.address.set(Part.STEP, str(step))


def train_at_least(session: Session, name: str, step: int) -> None:
    """Show the demonstration of this name, trained to a step; a run that has come further stays, and so does one of
    which the visitor has made another. In a callback.
    """
    live, demonstration = own_run(session), DEMONSTRATIONS[name]
    if live is None or live.source != demonstration.source or live.snapshot.status in ("failed", "stopped"):
        train_to(session, name, step)
        return
    snapshot = live.snapshot
    if not is_untouched(live, demonstration):
        step = snapshot.step
    elif max(snapshot.step, snapshot.wanted) < step:
        live.go_to(step)
    training.show()
    session.address.set(Part.NAME, name)
    session.address.set(Part.STEP, str(max(step, snapshot.step)))


def own_run(session: Session) -> LiveTraining | None:
    """Training that a lesson has begun here, if it is still there."""
    key = session.training.lesson_run
    return training.steered(session) if key and key == session.training.run else None


def is_untouched(live: LiveTraining, demonstration: Demonstration) -> bool:
    """True if a training has gone as everybody's of this demonstration has."""
    run = live.current
    untouched = live.source == demonstration.source and live.snapshot.status not in ("failed", "stopped")
    return untouched and (run is None or (run.number == 1 and not run.changes))


def leave(session: Session) -> None:
    """Turn away from the training that the session has; it goes on being there under its key."""
    if (live := training.steered(session)) is not None:
        live.pause()
    session.training.run = ""
    session.address.set(training.RUN, None)


def end(session: Session) -> bool:
    """Free the training that a lesson has begun here; whether there was one."""
    live = own_run(session)
    session.training.lesson_run = ""
    for name in (Part.NAME, Part.STEP):
        session.address.set(name, None)
    if live is None:
        return False
    training.trainings().end(session.training.run)
    leave(session)
    return True


def begin(session: Session) -> None:
    """Training that the address of a new window asks for, where it is not there yet."""
    name, step = (st.query_params.get(each) for each in (Part.NAME, Part.STEP))
    if name not in DEMONSTRATIONS:
        return
    if training.steered(session) is not None:
        session.training.lesson_run = session.training.run
        return
    total = DEMONSTRATIONS[name].steps
    leave(session)
    train_to(session, name, min(int(step), total) if step and step.isascii() and step.isdigit() else 0)


def awaited(session: Session) -> tuple[LiveTraining, int] | None:
    """Training on its way to the state's step, and that step; None: it is there, or there is none."""
    step, live = session.address.get(Part.STEP), own_run(session)
    if live is None or step is None or not step.isdigit():
        return None
    snapshot = live.snapshot
    failed = snapshot.status in ("failed", "stopped", "paused")
    return None if failed or snapshot.step >= int(step) else (live, int(step))


def watched(session: Session, place: DeltaGenerator, views: Views) -> Views:
    """Views of a page, and before them how far the training is that the lesson waits for."""
    if awaited(session) is None:
        return views
    bar = place.container()

    def both(model: TextModel) -> Drawing:
        waiting = awaited(session)
        if waiting is None:
            session.rerun_requested = True  # the question comes
            yield [(bar, progress.progress(Part.PROGRESS, None, ""))]
        else:
            live, step = waiting
            now = live.snapshot.step
            words = _("Training: step {now} of {step}").format(now=f"{now:,}", step=f"{step:,}")
            yield [(bar, progress.progress(Part.PROGRESS, now / step, words))]
        return (yield from views(model))

    return both
