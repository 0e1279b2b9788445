"""Page that a click opens, with its choices: the next run leads there."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from viz.state.address import BOUND
from viz.state.session import Key, current_session

OPENED = "opened_page"  # in the session state: its name


def open_page(name: str, choices: Mapping[str, str | None] = {}) -> None:
    """Open another page, or this one, with these choices. In a callback, or before a page is drawn.

    No link does it: the session puts what was chosen there before into its address again.
    """
    current_session().address.set_choices(choices)
    st.session_state[OPENED] = name


def go_to_opened(page: str) -> None:
    """Leave this page for the one that a click has opened; in a run, for only that can be left.

    The address comes along, without what belongs to widgets: they write it there again.
    """
    wanted = st.session_state.pop(OPENED, None)
    if wanted is not None and wanted != page:
        own = (Key.MODEL, *BOUND)
        parameters = {name: value for name, value in st.query_params.to_dict().items() if name not in own}
        st.switch_page(f"viz/pages/{wanted}/page.py", query_params=parameters)
