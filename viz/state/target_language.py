"""The language into which a translator of many languages translates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from viz.i18n.catalogue import _
from viz.state.session import choice, current_session

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

INTO, FIELD = "into", "into_field"  # the choice, which is a parameter of the address bar, and its field
OWN = ""  # the beginning of targets that the model's files say


def chosen(model: TextModel) -> str:
    """Name of the chosen language; "" where targets begin as the model's files say, as they do at first."""
    return choice(model.languages, OWN, INTO)


def as_chosen(model: TextModel) -> TextModel:
    """The model where its targets begin with the chosen language."""
    language = chosen(model)
    return model.into(language) if language else model


def field(model: TextModel) -> None:
    """The field, where the model's tokenizer has tokens of languages."""
    if not model.languages:
        return
    options = (OWN, *model.languages)
    st.session_state[FIELD] = chosen(model)
    st.selectbox(
        _("Into"),
        options,
        key=FIELD,
        format_func=lambda name: name or _("as its files say"),
        on_change=turn,
        width=200,
        help=_("The token of a language with which the model begins each target, by its tokenizer's own name"),
    )


def turn() -> None:
    st.session_state[INTO] = st.session_state[FIELD]
    current_session().address.set(INTO, st.session_state[INTO] or None)
