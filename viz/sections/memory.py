"""What a section computed from the same things is not computed again when the page is drawn again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import streamlit as st

Made = TypeVar("Made")


def remembered(key: str, made_of: tuple[object, ...], make: Callable[[], Made]) -> Made:
    """What `make` gave for these very objects, of this session; only the last ones are kept."""
    known = st.session_state.get(key)
    if known is None or not all(a is b for a, b in zip(known[0], made_of, strict=True)):
        known = st.session_state[key] = (made_of, make())
    made: Made = known[1]
    return made
