"""The health of a checkpoint: what is wrong with its weights, each finding with its tensor and its number."""

from __future__ import annotations

from functools import partial

import streamlit as st

from model.analysis import health
from viz.i18n import _
from viz.packing import weights_health
from viz.parts import data_table
from viz.sections import checkpoints_tensor
from viz.sections.checkpoints_chosen import choose_tensor, chosen_place
from viz.sections.checkpoints_measuring import Measured, follow
from viz.sections.checkpoints_subjects import Subject
from viz.workbench import Workbench

LIST = "w_findings"


def show(bench: Workbench, subject: Subject, found: Measured) -> None:
    """Findings in groups; a click chooses the tensor, which is shown large below."""
    if not found.finished:
        follow([found], partial(waiting, found))
    if not found.finished:
        return
    with st.spinner(_("Looking for what is wrong …")):
        findings = found.remember(("health",), lambda: health.health(found.table, found.found))
    first = findings[0].tensor if findings else ""
    chosen = found.table[chosen_place(found.table, lambda place: found.table[place].name == first)]
    weights_health.health_list(findings, subject.name, chosen.name, LIST, partial(on_finding, found, findings))()
    checkpoints_tensor.show(subject, found, chosen)
    data_table("health_data", lambda: weights_health.health_table(findings), f"health-{subject.name}")


def waiting(found: Measured) -> None:
    """What is shown while statistics are missing."""
    told = found.progress
    if told:
        st.progress(told["share"], told["text"])


def on_finding(found: Measured, findings: list[health.Finding]) -> None:
    """A click on a finding chooses its tensor."""
    clicked = st.session_state[LIST].finding
    wanted = weights_health.finding_at(findings, int(clicked["group"]), int(clicked["place"])).tensor
    choose_tensor(found.table, next(place for place, info in enumerate(found.table) if info.name == wanted))
