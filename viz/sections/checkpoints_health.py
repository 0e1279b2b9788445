"""The health of a checkpoint: what is wrong with its weights, each finding with its tensor and its number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from model.analysis.weights import health
from model.analysis.weights.health import apart, role, unmoved
from viz.i18n.catalogue import _
from viz.packing import weights_health, weights_rows
from viz.packing.weights_health import Report
from viz.sections import checkpoints_tensor
from viz.sections.checkpoints_chosen import choose_tensor, chosen_place, lens_of
from viz.sections.checkpoints_measuring import Examined, Measured
from viz.sections.checkpoints_subjects import Subject, subjects
from viz.state.workbench import Workbench
from viz.ui.background import AT_ONCE, CHOSEN, Filling, follow
from viz.ui.parts import data_table, explanation

LIST = "w_findings"
BESIDE = "health_beside"


def show(bench: Workbench, subject: Subject, found: Measured) -> None:
    """Findings in groups; a click chooses the tensor, which is shown large below."""
    other = beside(subject, found)
    found.wait(AT_ONCE)
    if not found.finished:
        follow([found], partial(waiting, found))
        return
    examined: Examined = found.remember(("health",), lambda: Examined(found))
    examined.wait(AT_ONCE)
    known = report(subject, found, examined, other)
    chosen = found.table[place_of(found, known)]
    follow([examined], partial(show_findings, subject, found, examined, other, chosen.name, known is None))
    checkpoints_tensor.show(subject, found, chosen)
    file = f"health-{subject.name}"
    checkpoints_tensor.beside(explain, lambda: data_table("health_data", known.table, file) if known else None)


def beside(subject: Subject, found: Measured) -> Subject | None:
    """Another checkpoint of the same run, where there is one and it is chosen."""
    others = {each.name: each for each in subjects() if each.name != subject.name and same_embeddings(each, found)}
    if not others:
        return None
    name = st.selectbox(
        _("Tokens that never moved: beside an earlier checkpoint of the run"),
        list(others),
        index=None,
        key=BESIDE,
        bind="query-params",
        persist_state="session",
        placeholder=_("another checkpoint"),
        width=420,
    )
    return others.get(name or "")


def same_embeddings(other: Subject, found: Measured) -> bool:
    """Whether both have a table of tokens of one name and shape."""
    try:
        theirs = {(info.name, info.shape) for info in other.table()}
    except (ValueError, OSError):
        return False
    return any(role(info.name) == "embedding" and (info.name, info.shape) in theirs for info in found.table)


def report(subject: Subject, found: Measured, examined: Examined, other: Subject | None) -> Report | None:
    """What was found so far; None while nothing was."""
    if examined.findings is None:
        return None
    known = list(examined.findings)
    if other is not None:
        key = ("unmoved", str(other.path), other.changed)
        known += examined.remember(key, lambda: health.unmoved_tokens(found.table, other.table(), other.name))
    return Report(known, partial(labels, subject, found), other is not None)


def labels(subject: Subject, found: Measured, name: str) -> Callable[[int], str] | None:
    """What the rows of a tensor are called, where there is a tokenizer."""
    info = next(each for each in found.table if each.name == name)
    tokenizer = weights_rows.tokenizer_of(info, lens_of(subject))
    return tokenizer.label if tokenizer else None


def waiting(found: Filling) -> None:
    """What is shown while numbers are missing."""
    if told := found.progress:
        st.progress(told["share"], told["text"])


def show_findings(
    subject: Subject, found: Measured, examined: Examined, other: Subject | None, chosen: str, first: bool
) -> None:
    """chosen: the tensor that is shown large. first: it was chosen before anything was found."""
    known = report(subject, found, examined, other)
    waiting(examined)
    if known is None:
        st.caption(_("Looking for what is wrong …"))
        return
    if first:
        st.rerun()
    weights_health.health_list(known, subject.name, chosen, LIST, partial(on_finding, found, known))()


def place_of(found: Measured, known: Report | None) -> int:
    """The number of the tensor that is looked at, at first that of the first finding."""
    if not known or not known.found:
        return chosen_place(found.table)
    return chosen_place(found.table, lambda place: found.table[place].name == known.found[0].tensor)


def on_finding(found: Measured, known: Report) -> None:
    """A click on a finding chooses its tensor."""
    clicked = st.session_state[LIST].finding
    wanted = known.at(int(clicked["group"]), int(clicked["place"])).tensor
    choose_tensor(found.table, next(place for place, info in enumerate(found.table) if info.name == wanted))
    st.session_state[CHOSEN] = True


def explain() -> None:
    explanation(
        "health_explanation",
        [
            r"\text{dead}: \|w^{\text{in}}_u\| \approx 0 \ \text{ or } \ \|w^{\text{out}}_u\| \approx 0",
            r"\text{stands out}: \big|\ln\|e_t\| - m\big| > \max(5 \cdot 1.4826\,d,\ \ln 1.25),\quad "
            r"m = \operatorname{median}_s \ln\|e_s\|,\ d = \operatorname{median}_s \big|\ln\|e_s\| - m\big|",
        ],
        _(
            "What is looked for needs no input, only the weights; where a tensor's role matters, its name tells it. A "
            "finding is a number that is far from what is usual, and not always a mistake. A token that never came in "
            "the training is found where its row was left behind by the others or shrunk by weight decay (Land and "
            "Bartolo, *Fishing for Magikarp*, 2024); where its length is by chance as theirs, only an earlier "
            "checkpoint of the run tells it: no step has moved its row. This is the code that has just run:"
        ),
        health.health,
        apart,
        unmoved,
    )
