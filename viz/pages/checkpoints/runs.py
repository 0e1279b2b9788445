"""Several checkpoints of one run: the course of its training, and what their tensors measure, over the steps."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis.weights.statistics import statistics as measure
from model.message import Message
from model.runtime.errors import CheckpointError
from model.training.training_log import Course, course_of
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.colours import hue
from viz.figures.compared import of_now
from viz.figures.figure import About, Caption
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal, significant, with_label
from viz.i18n.messages import clauses, in_language, joined, labelled
from viz.pages.checkpoints import course
from viz.pages.checkpoints.measuring import TensorStatistics, measured
from viz.pages.checkpoints.subjects import Subject, subjects
from viz.render.view import view
from viz.state.session import Key, Session, choose, follow_language
from viz.ui.job_view import follow
from viz.ui.parts import data_table

if TYPE_CHECKING:
    from model.analysis.weights.statistics import Statistics

CHOSEN, STATISTIC, PATTERN, CHART = "compare_several", "compare_statistic", "compare_pattern", "steps_chart"
ALIKE = "compare_alike"  # in the session: the checkpoints of one run, as they were when it was last drawn
PART = "compare_part"
PARTS = {"course": Message("Course"), "tensors": Message("Tensors")}
ANY = "*.weight"


def show(session: Session, row: DeltaGenerator) -> None:
    """The course of their training, or a statistic of the tensors whose names match a pattern, a line each."""
    by_name = {subject.name: subject for subject in subjects()}
    names = list(by_name)
    part = choose(_("Part"), list(PARTS), "course", PART, PARTS.__getitem__, row)
    controls = row.container(horizontal=True, width="content") if part == "tensors" else row
    chosen = choose_checkpoints(by_name, names)
    if len(chosen) < 2:
        st.info(_("Choose two checkpoints or more."))
        return
    course.follow_folders(session, [by_name[name].path for name in chosen])
    courses = {name: course_at(by_name[name]) for name in chosen}
    steps = {name: each.step if (each := courses[name]) else None for name in chosen}
    known = None not in steps.values() and len(set(steps.values())) > 1
    if known:
        chosen = sorted(chosen, key=lambda name: steps[name] or 0)
    if part == "course":
        course.show(session, [(by_name[name], courses[name]) for name in chosen])
    else:
        show_tensors(controls, [by_name[name] for name in chosen], steps if known else {})


def choose_checkpoints(by_name: Mapping[str, Subject], names: Sequence[str]) -> list[str]:
    """Checkpoints that the user chose. Where all of a run were chosen, one that has come since is, too."""
    own, before = alike(list(by_name.values())), st.session_state.get(ALIKE)
    now = st.session_state.get(CHOSEN)
    if now is None or now == before:
        st.session_state[CHOSEN] = own
    else:
        st.session_state[CHOSEN] = [name for name in now if name in by_name]
    st.session_state[ALIKE] = own
    return list(st.multiselect(_("Checkpoints"), names, key=CHOSEN, label_visibility="collapsed"))


def show_tensors(row: DeltaGenerator, chosen: Sequence[Subject], steps: Mapping[str, int | None]) -> None:
    """steps: of each, where they are known and differ."""
    statistics = list(STATISTICS)
    follow_language(STATISTIC)
    statistic = row.selectbox(
        _("Statistic"),
        statistics,
        format_func=lambda name: in_language(STATISTICS[name][0]),
        key=STATISTIC,
        label_visibility="collapsed",
        width=160,
    )
    label = _("Names, such as *.query.weight")
    pattern = row.text_input(
        label, ANY, max_chars=200, key=PATTERN, live="250ms", label_visibility="collapsed", placeholder=label, width=170
    )
    runs = []
    for subject in chosen:
        try:
            runs.append((subject, measured(subject)))
        except (ValueError, OSError) as error:
            st.error(as_sentence(with_label(subject.name, translate_error(error))))
            return
    places = [steps[subject.name] or 0 for subject in chosen] if steps else list(range(1, len(runs) + 1))
    rows = [Run(subject.name, place, each) for (subject, each), place in zip(runs, places, strict=True)]
    wanted = tensors(rows, pattern or "")
    if not wanted:
        st.info(_("No tensor that all of them have matches “{pattern}”.").format(pattern=literal((pattern or "")[:60])))
        return
    known = bool(steps)
    follow([run.measurements for run in rows], lambda: view(CHART, steps_chart(rows, wanted, str(statistic), known)))
    data_table("steps_data", lambda: steps_table(rows, wanted, str(statistic)), f"steps-{statistic}")


def alike(candidates: Sequence[Subject]) -> list[str]:
    """Checkpoints to begin with: whose names and shapes of tensors are the shown model's, else the largest group."""
    groups: dict[Hashable, list[str]] = {}
    for subject in candidates:
        try:
            key = frozenset((info.name, info.shape) for info in subject.table())
        except (ValueError, OSError):
            continue
        groups.setdefault(key, []).append(subject.name)
    model_name = st.session_state.get(Key.MODEL)
    best = max(groups.values(), key=lambda names: (len(names) > 1, model_name in names, len(names)), default=[])
    return best if len(best) > 1 else [subject.name for subject in candidates[:2]]


def tensors(runs: Sequence[Run], pattern: str) -> list[str]:
    """The names that all have and that match: * is any text, ? any letter, without either a part of the name."""
    common = set.intersection(*({info.name for info in run.measurements.table} for run in runs))
    wanted = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
    names = [info.name for info in runs[-1].measurements.table]
    return [name for name in names if name in common and fnmatch.fnmatchcase(name, wanted)]


def course_at(subject: Subject) -> Course | None:
    """Record of a checkpoint's training, from its files; None, and a sentence, where they are damaged."""
    try:
        return course_of(subject.path)
    except CheckpointError as error:
        st.warning(as_sentence(with_label(subject.name, translate_error(error))))
        return None


# A statistic of tensors over the checkpoints of a run.

MOST = 60  # lines; a pattern chooses fewer
NAMED = 12  # lines with a legend; of more, the pointer says them
STATISTICS: dict[str, tuple[str, Callable[[Statistics, int], float]]] = {
    "norm": (Message("norm ‖W‖"), lambda each, count: math.sqrt(count) * math.hypot(each.mean, each.deviation)),
    "deviation": (Message("deviation"), lambda each, _count: each.deviation),
    "mean": (Message("mean"), lambda each, _count: each.mean),
    "minimum": (Message("least"), lambda each, _count: each.minimum),
    "maximum": (Message("greatest"), lambda each, _count: each.maximum),
    "zeros": (Message("share of zeros"), lambda each, _count: each.zeros),
    "nan": (Message("NaN values"), lambda each, _count: each.nan),
    "infinite": (Message("infinite values"), lambda each, _count: each.infinite),
}


@dataclass(frozen=True)
class Run:
    """A checkpoint, its place on the axis, its tensors and what they measure as far as it is known."""

    name: str
    place: int
    measurements: TensorStatistics

    def value(self, tensor: str, statistic: str) -> float:
        info = next(each for each in self.measurements.table if each.name == tensor)
        numbers = self.measurements.of(info)
        if numbers is None:
            return math.nan
        return STATISTICS[statistic][1](numbers, info.elements - numbers.nan - numbers.infinite)


def steps_chart(runs: Sequence[Run], tensors: Sequence[str], statistic: str, known: bool) -> Chart:
    """A line for each tensor. known: places are steps; else the checkpoints stand side by side."""
    places = np.array([run.place for run in runs] if known else range(len(runs)), np.float32)
    lines = list(tensors[:MOST])
    before = common_part(lines)
    series = []
    for number, name in enumerate(lines):
        values = np.array([run.value(name, statistic) for run in runs])
        colour = f"hsl({hue(number)}, 65%, 45%)"
        label = name[len(before) :][-60:] or name[-60:]
        series.append(Series(label, places, values, colour, quiet=len(lines) > NAMED))
    title = STATISTICS[statistic][0]
    sentence: str = Message(
        "{count} tensor in {runs} checkpoints",
        plural="{count} tensors in {runs} checkpoints",
        count=len(tensors),
        runs=len(runs),
    )
    if len(tensors) > MOST:
        sentence = joined("", sentence, Message(", the first {most} are drawn", most=MOST))
    spans = [(each.name, of_now(each.ys)) for each in series[:3]]
    ends = clauses(*(f"{name} {significant(float(ys[0]))} → {significant(float(ys[-1]))}" for name, ys in spans))
    names = [run.name[:24] for run in runs]
    marks = [{"x": run.place, "text": name} for run, name in zip(runs, names, strict=True)]
    x = Axis(Message("step")) if known else Axis(Message("checkpoint"), names, "")
    stamp, alt = f"{statistic} {len(lines)} {len(runs)}", labelled(joined(", ", title, sentence), ends)
    about = About(
        Message("One number of each tensor over the checkpoints, read from their files."),
        ran=[measure],
        meaning=Message("A line that goes on moving is a tensor that still learns."),
    )
    heading = Caption(title, f"steps-{statistic}", stamp, sentence=sentence, alt=alt, about=about)
    drawn = marks if known and len(runs) <= 6 else ()
    return Chart(heading, series, x, Axis(title), tall=300, marks=drawn, of=Message("tensor"))


def common_part(names: Sequence[str]) -> str:
    """Common prefix of all names, up to a dot."""
    if len(names) < 2:
        return ""
    first, last = min(names), max(names)
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[: first.rfind(".", 0, same) + 1]


def steps_table(runs: Sequence[Run], tensors: Sequence[str], statistic: str) -> pd.DataFrame:
    """A line for each checkpoint and tensor."""
    lines = [(run.name, run.place, name, run.value(name, statistic)) for run in runs for name in tensors]
    return pd.DataFrame(lines, columns=[_("checkpoint"), _("step"), _("tensor"), in_language(STATISTICS[statistic][0])])
