"""The health of a checkpoint: what is wrong with its weights, each finding with its tensor and its number."""

from __future__ import annotations

from functools import partial

import streamlit as st

from model.analysis import health
from model.analysis.health import Finding
from viz.i18n import _
from viz.packing import weights_health
from viz.parts import data_table, explanation
from viz.sections import checkpoints_tensor
from viz.sections.checkpoints_chosen import choose_tensor, chosen_place
from viz.sections.checkpoints_following import AT_ONCE, CHOSEN, follow
from viz.sections.checkpoints_measuring import Examined, Filling, Measured
from viz.sections.checkpoints_subjects import Subject
from viz.workbench import Workbench

LIST = "w_findings"


def show(bench: Workbench, subject: Subject, found: Measured) -> None:
    """Findings in groups; a click chooses the tensor, which is shown large below."""
    found.wait(AT_ONCE)
    if not found.finished:
        follow([found], partial(waiting, found))
        return
    examined: Examined = found.remember(("health",), lambda: Examined(found))
    examined.wait(AT_ONCE)
    known = examined.findings
    chosen = found.table[place_of(found, known)]
    follow([examined], partial(findings, subject, found, examined, chosen.name, known is None))
    checkpoints_tensor.show(subject, found, chosen)
    checkpoints_tensor.beside(
        explain,
        lambda: data_table("health_data", lambda: weights_health.health_table(known or []), f"health-{subject.name}"),
    )


def waiting(found: Filling) -> None:
    """What is shown while numbers are missing."""
    if told := found.progress:
        st.progress(told["share"], told["text"])


def findings(subject: Subject, found: Measured, examined: Examined, chosen: str, first: bool) -> None:
    """chosen: the tensor that is shown large. first: it was chosen before anything was found."""
    known = examined.findings
    waiting(examined)
    if known is None:
        st.caption(_("Looking for what is wrong …"))
        return
    if first:
        st.rerun()
    weights_health.health_list(known, subject.name, chosen, LIST, partial(on_finding, found, known))()


def place_of(found: Measured, known: list[Finding] | None) -> int:
    """The number of the tensor that is looked at, at first that of the first finding."""
    if not known:
        return chosen_place(found.table)
    return chosen_place(found.table, lambda place: found.table[place].name == known[0].tensor)


def on_finding(found: Measured, known: list[Finding]) -> None:
    """A click on a finding chooses its tensor."""
    clicked = st.session_state[LIST].finding
    wanted = weights_health.finding_at(known, int(clicked["group"]), int(clicked["place"])).tensor
    choose_tensor(found.table, next(place for place, info in enumerate(found.table) if info.name == wanted))
    st.session_state[CHOSEN] = True


def explain() -> None:
    explanation(
        "health_explanation",
        [r"\text{dead}: \|w^{\text{in}}_u\| \approx 0 \ \text{ or } \ \|w^{\text{out}}_u\| \approx 0"],
        _(
            "What is looked for needs no input, only the weights; where a tensor's role matters, its name tells it. A "
            "finding is a number that is far from what is usual, and not always a mistake. This is the code that has "
            "just run:"
        ),
        health.health,
    )
