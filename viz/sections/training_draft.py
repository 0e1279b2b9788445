"""What was typed for a training that has not begun: a reload finds it again, under a key in the address."""

from __future__ import annotations

import secrets
from typing import Any

import streamlit as st

from viz.sections import training_data, training_network, training_own
from viz.state.workbench import Workbench

DRAFT = "draft"  # in the address
KEPT, MOST = 600.0, 8  # seconds that a process keeps one, and how many
RECALLED = "draft_recalled"
NAMES = (
    *(training_network.FORM.key(name) for name in training_network.DESCRIBED),
    *(training_network.Part.PUT, training_network.Part.VOCABULARY),
    *(training_data.Part.TASK, training_data.Part.COUNT, training_data.Part.SHARE),
    *(training_own.Part.CONTENT, training_own.Part.PASTED, training_own.Part.DELIMITER),
)


@st.cache_resource(show_spinner=False, ttl=KEPT, max_entries=MOST)
def _held(key: str) -> dict[str, Any]:
    """What is held under a key that nobody guesses."""
    return {}


def recall() -> None:
    """Before the fields are drawn: in a session that begins, put back what they held."""
    key = st.query_params.get(DRAFT)
    if key and not st.session_state.get(RECALLED):
        st.session_state.update(_held(key))
    st.session_state[RECALLED] = True


def keep(bench: Workbench, preset: dict[str, Any]) -> None:
    """After they are drawn: hold what differs from a form that nobody has touched. preset: of the network's fields."""
    now = {name: st.session_state[name] for name in NAMES if name in st.session_state}
    touched = now.get(training_own.Part.CONTENT) is not None or any(
        now.get(name, value) != value for name, value in preset.items()
    )
    key = st.query_params.get(DRAFT)
    if touched and not key:
        key = secrets.token_urlsafe(9)
        bench.say(DRAFT, key)
    if key:
        held = _held(key)
        held.clear()
        held.update(now)
