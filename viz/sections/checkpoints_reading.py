"""Read a checkpoint: its tensors, what they measure, its heads, its health."""

from __future__ import annotations

import streamlit as st

from viz.i18n.catalogue import _
from viz.i18n.errors import said
from viz.i18n.format import as_sentence, literal
from viz.packing.weights_table import totals
from viz.sections import checkpoints_heads, checkpoints_health, checkpoints_tensors
from viz.sections.checkpoints_chosen import CHECKPOINT, choose_subject, follow_sidebar
from viz.sections.checkpoints_measuring import measured
from viz.state.workbench import Workbench, choose

VIEWS = {
    "tensors": checkpoints_tensors.show,
    "heads": checkpoints_heads.show,
    "health": checkpoints_health.show,
}
READ_VIEW = "weights_view"


def show_read(bench: Workbench) -> None:
    """Draw this part of the page."""
    row = st.container(horizontal=True, vertical_alignment="center")
    picker = row.container(width=260)
    view = choose(_("View"), tuple(VIEWS), "tensors", READ_VIEW, view_name, row)
    subject = choose_subject(picker, _("Checkpoint"), CHECKPOINT, follow_sidebar(CHECKPOINT))
    if subject is None:
        return
    try:
        found = measured(subject)
    except (ValueError, OSError) as error:
        st.error(as_sentence(said(error)))
        return
    if not found.table:
        st.info(_("{name} holds no tensor.").format(name=literal(subject.name)))
        return
    if view != "tensors":
        row.caption(totals(found.table), width="content")
    VIEWS[view](bench, subject, found)


def view_name(view: str) -> str:
    return {"tensors": _("Tensors"), "heads": _("Heads"), "health": _("Health")}[view]
