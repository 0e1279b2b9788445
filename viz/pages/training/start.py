"""The start of a training: its model is built, the page shows it, and it runs."""

from __future__ import annotations

import streamlit as st

from model.data.sources import Source, TrainingData
from model.inference.text_model import TextModel
from model.network.config import TransformerConfig
from model.runtime.device import choose_device
from model.training.demonstration import REVERSE, fresh
from model.training.settings import TrainingSettings
from viz.i18n.catalogue import _
from viz.state import shown_model, training
from viz.state.checkpoints import checkpoint_names
from viz.state.demonstration import begin_demonstration, begin_on_text
from viz.state.session import Key, Session, current_session
from viz.state.texts import write_first
from viz.ui.parts import Drawing

PART = "training_part"  # in the address: the part of the page
NEW = "new"  # name of a model from nothing until it is saved


def start(
    model: TextModel | None,
    config: TransformerConfig,
    material: TrainingData,
    settings: TrainingSettings,
    source: Source,
) -> None:
    """Begin and run; model: one that goes on, None: a new one. In a callback, before anything is drawn.

    Raises:
        ValueError: the settings do not go together with the data, or the memory does not suffice.
    """
    device = model.device if model else choose_device()
    needed = training.trainings().require_room(training.own_key(current_session()), config, material, settings, device)
    first_model = model or fresh(NEW, config, material, settings.seed)
    begin_on_text(first_model, material, settings, source, "" if model else material.example, needed).run()


def demonstrate() -> None:
    """The demonstration, from nothing: begun, running, and seen on the text that shows it best."""
    session = current_session()
    if (live := begin_demonstration(session, REVERSE)) is not None:
        session.address.set_choices({Key.KIND: "cross"})
        live.run()


def demonstrate_again() -> None:
    """The demonstration once more, from its first weights; the runs so far stay, with their films. In a callback."""
    session = current_session()
    if (live := training.steered(session)) is None:
        demonstrate()
        return
    write_first(session, live.start, REVERSE.text)
    session.address.set_choices({Key.KIND: "cross"})
    training.show()
    session.rerun_requested = True
    live.reset()
    live.run()


def offer_begin() -> None:
    """Hint where there is no training to show, and the button that leads to where one begins."""
    st.caption(_("No training has begun: begin one here, or train the model that is shown from the sidebar."))
    st.button(_("Begin a training"), key="training_offer", type="primary", on_click=go_to_begin)


def waits(_model: TextModel) -> Drawing:
    """No views while a training has made nothing that can be seen; the page is drawn again once it has."""
    session = current_session()
    live = training.training(session)
    if live is not None and live.current and live.current.film.kinds:
        session.rerun_requested = True
    yield []
    return None


def go_to_begin() -> None:
    """Show the page's part Begin. In a callback."""
    current_session().address.set_choices({PART: "begin"})


def freed(session: Session) -> bool:
    """True if the address names a training that is no more."""
    return training.training(session) is None and bool(session.training.run or st.query_params.get(training.RUN))


def give_up(session: Session) -> None:
    """Free this session's training; a page that shows it shows the model that it began with, or the first listed."""
    if live := training.steered(session):
        training.trainings().end(session.training.run)
        session.training.run, session.rerun_requested = "", True
        session.address.set(training.RUN, None)
        if st.session_state.get(Key.MODEL) != training.ENTRY:  # another model is shown, and stays
            return
        shown_model.let_go()
        names = checkpoint_names()
        st.session_state[Key.MODEL] = live.start.name if live.start.name in names else names[0]
