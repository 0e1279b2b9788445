"""The input bar: the texts, and what the model can do with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from viz.state.session import FIRST_SOURCE, Key, Session, current_session

if TYPE_CHECKING:
    from model.inference.model import TextModel

LINE_BREAK = "⏎"  # in a field of one line
CONTINUED = 20  # tokens that the button lets a language model write


def typed(key: Key, default: str) -> str:
    """What a text field holds, before it is drawn: at the first run, what the address bar gives it."""
    return str(st.session_state.get(key, st.query_params.get(key, default)) or "").replace(LINE_BREAK, "\n")


def write_source(text: str) -> None:
    """Put a text into the source's field, where it can be typed on."""
    st.session_state[Key.SOURCE] = text.replace("\n", LINE_BREAK)


def first_source(lens: TextModel) -> str:
    """The text that a model is first shown with."""
    return lens.example or FIRST_SOURCE


def texts(lens: TextModel) -> tuple[str, str]:
    """What is in the fields."""
    return typed(Key.SOURCE, first_source(lens)), typed(Key.TARGET, "")


def look(session: Session, lens: TextModel) -> None:
    """Trace what is in the fields."""
    session.look(lens, *texts(lens))


def follow_model(session: Session, lens: TextModel) -> None:
    """Another model: the text stays, unless it was only the example of the one before."""
    before = session.lens
    if before not in (None, lens) and typed(Key.SOURCE, first_source(before)) == first_source(before):
        write_source(first_source(lens))


def lens_and_text() -> tuple[TextModel, str]:
    lens = current_session().lens
    assert lens is not None
    return lens, typed(Key.SOURCE, first_source(lens))
