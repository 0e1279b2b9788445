"""Checkpoints: open any trained Transformer, read its tensors, compare it with another, evaluate it, keep it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import streamlit as st

from model.inference.text_model import TextModel
from model.message import Message
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal
from viz.pages.checkpoints import adapter, compare, evaluate, heads, health, keep, tensors
from viz.pages.checkpoints import open as checkpoints_opening
from viz.pages.checkpoints.measuring import measured
from viz.pages.checkpoints.subjects import CHECKPOINT, Subject, choose_subject, follow_sidebar, is_merged
from viz.pages.checkpoints.tensors import totals
from viz.state.session import Session, choose, current_session
from viz.ui.parts import Drawing, Views

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator

# Read a checkpoint: its tensors, what they measure, its heads, its health.

VIEWS = {
    "tensors": tensors.show,
    "heads": heads.show,
    "health": health.show,
}
READ_VIEW = "weights_view"
VIEW_NAMES = {
    "adapter": Message("Adapter"),
    "tensors": Message("Tensors"),
    "heads": Message("Heads"),
    "health": Message("Health"),
}


def show_read(session: Session) -> None:
    """Draw this part of the page."""
    row = st.container(key="choices_read", horizontal=True, vertical_alignment="center")
    picker = row.container(width=260)
    views_place = row.container(width="content")
    subject = choose_subject(picker, _("Checkpoint"), CHECKPOINT, follow_sidebar(CHECKPOINT))
    if subject is None:
        return
    views = ("adapter", *VIEWS) if is_merged(subject) else tuple(VIEWS)
    view = choose(_("View"), views, views[0], READ_VIEW, VIEW_NAMES.__getitem__, views_place)
    # As the parts of the page: what another view has drawn goes at once, and not when this one is measured.
    places = {name: st.container() if name == view else st.empty() for name in views}
    with places[view]:
        show_view(session, subject, view, row)


def show_view(session: Session, subject: Subject, view: str, row: DeltaGenerator) -> None:
    """Draw a view of the tensors of a file; row: above it, where a sentence has room."""
    if view == "adapter":
        adapter.show(session, subject, row)
        return
    try:
        statistics = measured(subject)
    except (ValueError, OSError) as error:
        st.error(as_sentence(translate_error(error)))
        return
    if not statistics.table:
        st.info(_("{name} holds no tensor.").format(name=literal(subject.name)))
        return
    if view != "tensors":
        row.caption(totals(statistics.table), width="content")
    VIEWS[view](session, subject, statistics)


SEGMENTS = {
    "open": (Message("Open"), checkpoints_opening.show),
    "read": (Message("Read"), show_read),
    "compare": (Message("Compare"), compare.show),
    "evaluate": (Message("Evaluate"), evaluate.show),
    "keep": (Message("Keep"), keep.show),
}


class Part(StrEnum):
    """Keys of this page's controls, which are parameters of the address bar."""

    SEGMENT = "checkpoints_part"


def page(_model: TextModel) -> Views:
    """The page reads files and not the trace, and is drawn last, by the script."""
    row = st.container(key="choices_checkpoints", horizontal=True, vertical_alignment="center")
    segment = choose(_("Part of the page"), list(SEGMENTS), "open", Part.SEGMENT, lambda name: SEGMENTS[name][0], row)
    # Each part has a place of its own: what another one has drawn there goes at once, and not when this one is done.
    places = {name: st.container() if name == segment else st.empty() for name in SEGMENTS}

    def views(_model: TextModel) -> Drawing:
        yield []

        def rest() -> None:
            with places[segment]:
                SEGMENTS[segment][1](current_session())

        return rest

    return views
