"""The form of a new model, opened from another page."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def opened_form() -> None:
    import streamlit as st

    from viz.pages.training import network
    from viz.ui.new_model import open_form

    if "network_put" not in st.session_state:
        open_form(position="learned")
    kind, _preset = network.choose_kind(st.container())
    network.fields(st.container(), kind, {})


def test_it_has_the_options_that_the_other_page_wants_in_sight() -> None:
    app = AppTest.from_function(opened_form, default_timeout=60).run()
    assert not app.exception
    assert app.session_state["opened_page"] == "training"
    assert app.session_state["network_options"]
    assert app.session_state["network_position"] == "learned"  # and no preset was put over it
