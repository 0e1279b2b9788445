"""Choice: names of special tokens in the texts are read as these tokens, or as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from viz.i18n.catalogue import _
from viz.i18n.format import token_code
from viz.state.session import choice, current_session
from viz.state.texts import texts

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

SPECIAL, SWITCH = "special", "special_switch"  # the choice, which is a parameter of the address bar, and its switch
YES_NO = ("1", "0")


def as_chosen(model: TextModel) -> TextModel:
    """The model as it reads the texts: at first as its own tokenizer does, with special tokens by their names."""
    usual = YES_NO[not model.source_tokenizer.reads_special]
    return model.reading(choice(YES_NO, usual, SPECIAL) == "1")


def switch(model: TextModel) -> None:
    """The switch, where the texts hold the name of a special token."""
    tokenizer = model.source_tokenizer
    read = {tokenizer.mask_label, tokenizer.pair_label} if model.kind == "encoder-only" else {""}  # in any case
    names = [name for name in tokenizer.markers if name not in read]
    named = next((name for name in names if any(name in text for text in texts(model))), "")
    if not named:
        return
    st.session_state[SWITCH] = tokenizer.reads_special
    st.toggle(_("Read special tokens, such as {name}").format(name=token_code(named)), key=SWITCH, on_change=turn)


def turn() -> None:
    st.session_state[SPECIAL] = YES_NO[not st.session_state[SWITCH]]
    current_session().address.set(SPECIAL, st.session_state[SPECIAL])
