"""Several checkpoints of one run: what their tensors measure, over the steps."""

from __future__ import annotations

import fnmatch
from collections.abc import Hashable, Sequence
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.checkpoints.native import TRAINING
from model.runtime.errors import CheckpointError
from model.runtime.untrusted_json import read_record
from viz.i18n.catalogue import _
from viz.i18n.errors import said
from viz.i18n.format import as_sentence
from viz.packing import weights_steps
from viz.sections.checkpoints_measuring import measured
from viz.sections.checkpoints_subjects import Subject, subjects
from viz.state.workbench import Key
from viz.ui.background import follow
from viz.ui.parts import data_table

CHOSEN, STATISTIC, PATTERN, CHART = "compare_several", "compare_statistic", "compare_pattern", "steps_chart"
ANY = "*.weight"


def show(row: DeltaGenerator) -> None:
    """A statistic of the tensors whose names match a pattern, a line each."""
    found = {subject.name: subject for subject in subjects()}
    names = list(found)
    chosen = st.multiselect(
        _("Checkpoints"),
        names,
        [] if CHOSEN in st.session_state else alike(list(found.values())),
        key=CHOSEN,
        label_visibility="collapsed",
    )
    statistics = list(weights_steps.STATISTICS)
    statistic = row.selectbox(
        _("Statistic"),
        statistics,
        format_func=weights_steps.statistic_name,
        key=STATISTIC,
        label_visibility="collapsed",
        width=160,
    )
    label = _("Names, such as *.query.weight")
    pattern = row.text_input(
        label, ANY, key=PATTERN, live="250ms", label_visibility="collapsed", placeholder=label, width=170
    )
    if len(chosen) < 2:
        st.info(_("Choose two checkpoints or more."))
        return
    runs = []
    for name in chosen:
        try:
            runs.append((found[name], measured(found[name])))
        except (ValueError, OSError) as error:
            st.error(as_sentence(f"{name}: {said(error)}"))
            return
    steps = {subject.name: step_of(subject.path) for subject, _found in runs}
    known = None not in steps.values() and len(set(steps.values())) > 1
    if known:
        runs.sort(key=lambda run: steps[run[0].name] or 0)
    places = [steps[subject.name] or 0 for subject, _found in runs] if known else list(range(1, len(runs) + 1))
    rows = [
        weights_steps.Run(subject.name, place, each.table, each.of)
        for (subject, each), place in zip(runs, places, strict=True)
    ]
    wanted = tensors(rows, pattern or "")
    if not wanted:
        st.info(_("No tensor that all of them have matches “{pattern}”.").format(pattern=(pattern or "")[:60]))
        return

    def draw() -> None:
        weights_steps.steps_chart(rows, wanted, str(statistic), known, CHART)()

    follow([each for _subject, each in runs], draw)
    data_table("steps_data", lambda: weights_steps.steps_table(rows, wanted, str(statistic)), f"steps-{statistic}")


def alike(found: Sequence[Subject]) -> list[str]:
    """Those to begin with: whose names and shapes of tensors are the shown model's, else the largest such group."""
    groups: dict[Hashable, list[str]] = {}
    for subject in found:
        try:
            key = frozenset((info.name, info.shape) for info in subject.table())
        except (ValueError, OSError):
            continue
        groups.setdefault(key, []).append(subject.name)
    shown = st.session_state.get(Key.MODEL)
    best = max(groups.values(), key=lambda names: (len(names) > 1, shown in names, len(names)), default=[])
    return best if len(best) > 1 else [subject.name for subject in found[:2]]


def tensors(runs: Sequence[weights_steps.Run], pattern: str) -> list[str]:
    """The names that all have and that match: * is any text, ? any letter, without either a part of the name."""
    common = set.intersection(*({info.name for info in run.table} for run in runs))
    wanted = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
    return [info.name for info in runs[-1].table if info.name in common and fnmatch.fnmatchcase(info.name, wanted)]


def step_of(path: Path) -> int | None:
    """The step at which a checkpoint of ours was saved, as its training.json says."""
    try:
        step = read_record(path / TRAINING).get("steps")
    except CheckpointError:
        return None
    return step if isinstance(step, int) and not isinstance(step, bool) and 0 <= step < 1 << 53 else None
