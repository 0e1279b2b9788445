"""Checkpoints: open any trained Transformer, read its tensors, compare it with another, keep it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import streamlit as st

from model.inference.model import Inspectable
from viz.i18n.catalogue import _
from viz.sections import checkpoints_comparing, checkpoints_keeping, checkpoints_opening, checkpoints_reading
from viz.state.workbench import choose, workbench
from viz.ui.parts import Views

SEGMENTS = {
    "open": checkpoints_opening.show,
    "read": checkpoints_reading.show_read,
    "compare": checkpoints_comparing.show,
    "keep": checkpoints_keeping.show,
}


class Part(StrEnum):
    """Keys of this page's controls, which are parameters of the address bar."""

    SEGMENT = "checkpoints_part"


def page(_lens: Inspectable) -> Views:
    """What is shown reads files and not the trace, and is drawn last."""
    return views


def views(_lens: Inspectable) -> Iterator[None]:
    row = st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center")
    segment = choose(_("Part of the page"), tuple(SEGMENTS), "open", Part.SEGMENT, segment_name, row)
    # Each part has a place of its own: what another one has drawn there goes at once, and not when this one is done.
    places = {name: st.container() if name == segment else st.empty() for name in SEGMENTS}
    yield
    with places[segment]:
        SEGMENTS[segment](workbench())


def segment_name(segment: str) -> str:
    return {"open": _("Open"), "read": _("Read"), "compare": _("Compare"), "keep": _("Keep")}[segment]
