"""The texts of a session: what is in its fields, and what a model begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from viz.state.session import FIRST_SOURCE, Key, Session, current_session

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

LINE_BREAK = "⏎"  # in a field of one line
CONTINUED = 20  # tokens that the button lets a language model write


def typed(key: Key, default: str) -> str:
    """What a text field holds, before it is drawn: at the first run, what the address bar gives it."""
    return str(st.session_state.get(key, st.query_params.get(key, default)) or "").replace(LINE_BREAK, "\n")


def write_source(text: str) -> None:
    """Put a text into the source's field, where it can be typed on."""
    st.session_state[Key.SOURCE] = text.replace("\n", LINE_BREAK)


def first_source(model: TextModel) -> str:
    """The text that a model is first shown with."""
    return model.example or FIRST_SOURCE


def texts(model: TextModel) -> tuple[str, str]:
    """What is in the fields."""
    return typed(Key.SOURCE, first_source(model)), typed(Key.TARGET, "")


def look(session: Session, model: TextModel) -> None:
    """Trace what is in the fields."""
    session.look(model, *texts(model))


def follow_model(session: Session, model: TextModel) -> None:
    """Another model: the text stays, unless it was only the example of the one before."""
    before = session.model if session.shown else model
    if before is not model and typed(Key.SOURCE, first_source(before)) == first_source(before):
        write_source(first_source(model))


def model_and_text() -> tuple[TextModel, str]:
    model = current_session().model
    return model, typed(Key.SOURCE, first_source(model))
