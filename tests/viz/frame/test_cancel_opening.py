"""The button that cancels the opening of a model."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest


def opening() -> None:
    import streamlit as st

    from viz.frame.app import OfferCancel

    place = st.empty()
    with place:
        offer = OfferCancel(place, "one", ["one", "two"])
        for seconds in (0.5, 6.0, 7.0):
            offer(seconds)


def test_the_button_stays_beside_name_and_seconds_while_a_model_is_opened():
    app = AppTest.from_function(opening).run()
    assert [caption.value for caption in app.caption] == ["Opening one … 7 s"]
    assert [button.label for button in app.button] == ["Cancel"]
