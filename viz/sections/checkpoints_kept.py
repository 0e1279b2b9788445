"""What all ways to keep a model share: the names of their fields, and how one is tried."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import streamlit as st

from viz import opened
from viz.said import said
from viz.sections.training_saving import refused
from viz.workbench import workbench


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
    return refused(name, replace=False, taken=opened.own_names(workbench()))


def attempt(act: Callable[[], object], sentence: str) -> bool:
    """Do it, and say how it went."""
    try:
        act()
    except (ValueError, OSError) as error:
        st.session_state[Part.SAID] = ("wrong", said(error))
        return False
    st.session_state[Part.SAID] = ("good", sentence)
    return True
