"""A part of a page that draws itself again and again while numbers are being filled in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from viz import i18n
from viz.filling import TOLD, Filling
from viz.i18n import _
from viz.said import said
from viz.words import literal
from viz.workbench import Key

EVERY = 0.4  # seconds between two looks at what has been measured
AT_ONCE = 0.12  # seconds that a page waits for a small file
LONG = 5.0  # seconds that are left, from which on there is a button to stop
CHOSEN = "checkpoints_chosen"  # in the session: a click has chosen something


def follow(fillings: Sequence[Filling], draw: Callable[[], None]) -> None:
    """Draw, again and again while they are being filled in, with buttons to stop what takes long and to go on."""
    for filling in fillings:
        filling.wait(AT_ONCE)

    def look() -> None:
        if st.session_state.pop(CHOSEN, False):
            st.rerun()  # a click in here runs this part only, and what it has chosen is drawn outside
        i18n.use(st.session_state[Key.LANGUAGE])
        finished = all(filling.finished for filling in fillings)
        draw()
        for number, filling in enumerate(fillings):
            buttons(filling, number)
        if finished and not before:
            st.rerun()  # nothing has to be looked at any more, and what waits for all numbers can be drawn

    before = all(filling.finished for filling in fillings)
    st.fragment(look, run_every=None if before else EVERY)()


def buttons(filling: Filling, number: int) -> None:
    """What takes long can be stopped, and gone on with; what could not be read is said."""
    taken, left = filling.seconds
    if not filling.finished and taken > TOLD and left > LONG:
        st.button(_("Stop measuring"), on_click=filling.stop, key=f"stop_measuring_{number}")
    if filling.finished and filling.stopped:
        st.button(_("Measure the rest"), on_click=filling.go_on, key=f"go_on_measuring_{number}")
    if filling.failed:
        st.caption(_("Not measured: {reason}").format(reason=literal(said(next(iter(filling.failed.values()))))))
