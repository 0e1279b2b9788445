"""The form of a new model on the page Training: its fields, and the way to it from other pages."""

from __future__ import annotations

from typing import Any, get_args

import streamlit as st

from model.data.sources import preset_options
from model.network.config import NETWORK_OPTIONS, Kind
from viz.state.opened_page import open_page
from viz.ui.fields import Form

FIRST_PRESET = "tiny"
FORM = Form("network", NETWORK_OPTIONS)
KIND, PRESET = "kind", "preset"  # in the address
PUT = "network_put"  # in the session state: the kind and the preset that were put into the fields
OPTIONS = "network_options"  # whether they are unfolded


def open_form(**options: Any) -> None:
    """Open it with the first kind, the first preset and these options. In a callback."""
    kind: Kind = get_args(Kind)[0]
    FORM.put(preset_options(kind, FIRST_PRESET) | options)
    st.session_state[PUT] = (kind, FIRST_PRESET)
    st.session_state[OPTIONS] = True
    open_page("training", {"training_part": "begin", "begin": "new", KIND: kind, PRESET: FIRST_PRESET})
