"""Several checkpoints of one run: what their tensors measure, over the steps."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Sequence
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz.i18n import _
from viz.packing import weights_steps
from viz.parts import data_table
from viz.said import said
from viz.sections.checkpoints_following import follow
from viz.sections.checkpoints_measuring import measured
from viz.sections.checkpoints_subjects import subjects

CHOSEN, STATISTIC, PATTERN, CHART = "compare_several", "compare_statistic", "compare_pattern", "steps_chart"
ANY = "*.weight"


def show(row: DeltaGenerator) -> None:
    """A statistic of the tensors whose names match a pattern, a line each."""
    found = {subject.name: subject for subject in subjects()}
    names = list(found)
    chosen = row.multiselect(_("Checkpoints"), names, alike(names), key=CHOSEN, label_visibility="collapsed", width=330)
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
            st.error(f"{name}: {said(error)}")
            return
    steps = {subject.name: step_of(subject.path) for subject, _found in runs}
    known = all(step is not None for step in steps.values())
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


def alike(names: Sequence[str]) -> list[str]:
    """Those to begin with: the largest group whose names begin alike."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.split("-")[0], []).append(name)
    best = max(groups.values(), key=len, default=[])
    return best if len(best) > 1 else list(names[:2])


def tensors(runs: Sequence[weights_steps.Run], pattern: str) -> list[str]:
    """The names that all have and that match: * is any text, ? any letter, without either a part of the name."""
    common = set.intersection(*({info.name for info in run.table} for run in runs))
    wanted = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
    return [info.name for info in runs[-1].table if info.name in common and fnmatch.fnmatchcase(info.name, wanted)]


def step_of(path: Path) -> int | None:
    """The step at which a checkpoint of ours was saved, as its training.json says."""
    try:
        record = json.loads((path / "training.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    step = record.get("steps") if isinstance(record, dict) else None
    return step if isinstance(step, int) and not isinstance(step, bool) and 0 <= step < 1 << 53 else None
