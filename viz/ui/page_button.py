"""Button that opens another page, with choices made on it."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from viz.state.session import Key, current_session


def page_button(label: str, page: str, choices: Mapping[str, str], key: str, icon: str) -> None:
    """Button that opens a page. choices: by their names in the address.

    No link: the session keeps what was chosen on that page before, and would put it into the link's address again. The
    rest of the address comes along.
    """
    session = current_session()
    if st.button(
        label, key=key, type="tertiary", icon=icon, on_click=session.address.set_choices, args=(dict(choices),)
    ):
        parameters = {name: value for name, value in st.query_params.to_dict().items() if name != Key.MODEL}
        st.switch_page(f"viz/pages/{page}/page.py", query_params=parameters)
