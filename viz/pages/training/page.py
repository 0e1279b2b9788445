"""Training: what to train and on what, where it stands, settings, curves, film, going back and branching."""

from __future__ import annotations

from enum import StrEnum

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.inference.text_model import TextModel
from model.message import Message
from model.training.live.live_training import LiveTraining
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal
from viz.pages.training import curves, demonstration, film, form, runs, settings
from viz.pages.training.start import PART, freed
from viz.state import training
from viz.state.session import Key, Session, choose, current_session
from viz.ui.parts import Drawing, Views, no_views

SEGMENTS = {
    "begin": Message("Begin"),
    "settings": Message("Settings"),
    "curves": Message("Curves"),
    "film": Message("Film"),
    "runs": Message("Runs"),
}


class Part(StrEnum):
    """Keys of this page's controls, which are parameters of the address bar."""

    SEGMENT = PART
    STANDING = "training_standing"  # a place, and no parameter
    BESIDE_TEXTS = "training_beside_texts"  # another, of what no text changes


def page(model: TextModel) -> Views:
    """The page reads the training and not the trace; its fields are the training's to fill."""
    session = current_session()
    settings.follow(training.steered(session))
    row = st.container(key="choices_training", horizontal=True, vertical_alignment="center")
    segment = choose(_("Part of the page"), list(SEGMENTS), "begin", Part.SEGMENT, SEGMENTS.__getitem__, row)
    way = form.choose_way(row, model) if segment == "begin" else ""
    place = st.container(key=Part.STANDING)
    if segment != "begin" and (words := whose(session, model)):
        place.caption(words)
    standing(place, session)
    if segment in ("curves", "film"):
        return curves.page() if segment == "curves" else film.page(row)
    if segment == "settings":
        return settings.page(session)
    demonstrated = demonstration.show(session, row) if way == form.DEMONSTRATION else no_views
    place = st.container(key=Part.BESIDE_TEXTS)

    def views(model: TextModel) -> Drawing:
        yield from demonstrated(model)

        def rest() -> None:
            with place:
                if segment == "runs":
                    runs.show(session)
                elif way != form.DEMONSTRATION:
                    form.show(session, model)

        return rest

    return views


def whose(session: Session, model: TextModel) -> str:
    """Sentence: which model these curves, settings, films and runs are of, where another one is shown."""
    live = training.training(session)
    if live is None or st.session_state.get(Key.MODEL) == training.ENTRY:
        return ""
    return _("Training of {name}; the model that is shown is {shown}.").format(
        name=f"**{literal(live.start.name)}**", shown=literal(model.name)
    )


def standing(place: DeltaGenerator, session: Session) -> None:
    """Sentence on a training that does not simply run."""
    live = training.training(session)
    if live is None:
        if freed(session):
            place.info(
                _(
                    "The training of this address is gone: it was given up, nobody had looked at it for ten minutes, "
                    "or the server was started anew. Begin another."
                )
            )
        return
    if not training.is_own(session, live):
        place.info(training.watched_only())
        return
    snapshot = live.snapshot
    if snapshot.status == "waiting":
        place.info(
            _(
                "This training waits: as many as may run at once here are running. Its place in the queue is {count}; "
                "it goes on by itself."
            ).format(count=snapshot.ahead + 1)
        )
    elif snapshot.status == "failed":
        place.error(as_sentence(translate_error(snapshot.message)))
    elif snapshot.status in training.OVER and not training.is_moving(live):  # a branch that has just begun is no end
        place.info(over(live))
    elif snapshot.unseen:
        place.info(_("The training paused because nobody looked at it any more: ▶ in the sidebar trains on."))


def over(live: LiveTraining) -> str:
    """Reason why a run is at its end, and how to go on."""
    snapshot = live.snapshot
    step, patience = f"{snapshot.step:,}", live.settings.patience
    if snapshot.status == "stopped":
        return _("The run was stopped after step {step}. To go on, go back or branch under Runs.").format(step=step)
    if snapshot.step < snapshot.total:
        return _(
            "The run has ended after step {step}: patience is {patience}, and as many validations gave no new best "
            "loss. To go on, go back or branch under Runs."
        ).format(step=step, patience=patience)
    return _(
        "The run has ended after step {step}. To go on, raise the steps under Settings, or go back or branch "
        "under Runs."
    ).format(step=step)
