"""What was computed from the same things is not computed again when the page is drawn again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import streamlit as st

Made = TypeVar("Made")


def cached(key: str, made_of: tuple[object, ...], make: Callable[[], Made]) -> Made:
    """What `make` gave for these, traces and models by identity, in this session; only the last ones are kept."""
    known = st.session_state.get(key)
    if known is None or known[0] != made_of:
        known = st.session_state[key] = (made_of, make())
    made: Made = known[1]
    return made
