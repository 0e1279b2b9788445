"""Which attention and which head of the loaded model is looked at, and under which title."""

from __future__ import annotations

from typing import cast

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.capture.trace import AttentionKind
from model.inference.model import Inspectable
from viz.i18n.catalogue import _
from viz.i18n.format import attention_name
from viz.state.workbench import Key, attention_kinds, choose, workbench


def heading(title: str) -> DeltaGenerator:
    """A title, and on its line a place for controls."""
    row = st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center")
    row.markdown(f"**{title}**", width="content")
    return row


def choose_kind(lens: Inspectable, place: DeltaGenerator) -> AttentionKind:
    """Chosen by the user where the model has several."""
    kinds = attention_kinds(lens.model)
    if len(kinds) == 1:
        return kinds[0]
    return cast(AttentionKind, choose(_("Attention"), kinds, kinds[-1], Key.KIND, attention_name, place))


def choose_head(key: str) -> None:
    """The clicked cell of the panels with this key; on the label of a whole row or column there is one number alone."""
    cell = st.session_state[key].cell
    found = {"layer": int(cell["row"]), "head": int(cell["column"])}
    workbench().select(**{name: place for name, place in found.items() if place >= 0})
