"""What all ways to keep a model share: keys, the field for a name, and how one is tried."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz.i18n.errors import said
from viz.state import checkpoints
from viz.state.checkpoints import Place, saved_folder
from viz.state.workbench import workbench
from viz.ui.save_name import refused


class Part(StrEnum):
    """Names in the session state."""

    ZIP = "keeping_zip"
    HUGGING = "keeping_hugging"
    CARD = "keeping_card"
    OF = "keeping_card_of"
    SAVE = "keeping_save"
    COPY = "keeping_copy"
    NAME = "keeping_name"
    RENAME = "keeping_rename"
    DELETE = "keeping_delete"
    SAID = "keeping_said"


def refused_name(name: str) -> str:
    """Why there cannot be a saved model of that name."""
    return refused(name, replace=False, taken=checkpoints.own_names(workbench()))


def ask(place: DeltaGenerator, kept: Place, label: str, words: str, act: Callable[..., None], *args: object) -> None:
    """A name to save it under, and the button that does, or why there cannot be one of that name.

    label: of the field. words: on the button. act: gets args and the name.
    """
    row = place.container(horizontal=True, vertical_alignment="bottom")
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", kept.path.stem if kept.path.is_file() else kept.name).strip("-_")
    name = row.text_input(label, f"my-{plain}"[:64], max_chars=64, key=f"{Part.COPY}_{kept.name}") or ""
    refusal = refused_name(name)
    row.button(
        words,
        key=Part.SAVE,
        disabled=bool(refusal),
        on_click=act,
        args=(*args, name),
        help=refusal or str(saved_folder()),
    )
    if refusal:
        place.caption(refusal)


def attempt(act: Callable[[], object], sentence: str) -> bool:
    """Do it, and say how it went."""
    try:
        act()
    except (ValueError, OSError) as error:
        st.session_state[Part.SAID] = ("wrong", said(error))
        return False
    st.session_state[Part.SAID] = ("good", sentence)
    return True
