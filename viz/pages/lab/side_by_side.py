"""What only a training can show: arms that differ in one thing learn side by side, and are judged at the end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis.downsample import outline, smoothed
from model.data.tasks import TASKS
from model.experiments.arms import COMPARISONS, begin, lengths_of, setup_of
from model.experiments.side_by_side import Course, Setup, Side, step_seconds
from model.experiments.weight_tying import tied
from model.inference.text_model import TextModel
from viz.components.old_plots import chart
from viz.components.plots import Mount, Series
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal, significant, stopped
from viz.pages.lab.experiment import experiment, header, show_claim
from viz.pages.lab.side_by_side_text import arm_name, colours, comparison_name, explain, said_of, truth_of, verdicts
from viz.state import training
from viz.state.cache import cached
from viz.state.session import choose, current_session
from viz.ui.curves import part_name, title_of
from viz.ui.fields import NARROW, Field, number_field
from viz.ui.parts import Views, data_table, no_views
from viz.ui.plots import EXPECTED

# The tables of trainings side by side: a row an arm, and every number that was measured.


def results(side: Side) -> pd.DataFrame:
    """An arm a row; of several seeds the mean."""
    rows = []
    for arm in colours(side.courses):
        courses = side.of(arm)
        checked = [each.validations[-1] for each in courses if each.validations]
        finals = [each.final for each in courses]
        rows.append(
            {
                _("arm"): arm_name(arm),
                _("parameters"): f"{courses[0].parameters:,}",
                _("steps a second"): number([1 / each.seconds for each in courses]),
                _("loss at the end"): number(finals),
                _("validation loss"): number([loss for _step, loss, _share in checked]),
                _("perplexity"): number([float(np.exp(loss)) for _step, loss, _share in checked]),
                _("tokens right, %"): number([100 * share for _step, _loss, share in checked]),
            }
        )
    return pd.DataFrame(rows)


def number(values: Sequence[float]) -> str:
    return significant(fmean(values)) if values and np.isfinite(values).all() else "–"


def every_number(side: Side) -> pd.DataFrame:
    """All that was measured: arm, seed, quantity, step or layer or length, value."""
    rows: list[tuple[str, int, str, object, float]] = []
    for course in side.courses:
        who = (arm_name(course.arm), course.seed)
        rows += [(*who, title_of("loss"), step, value) for step, value in enumerate(course.losses, start=1)]
        rows += [(*who, title_of("rate"), step, value) for step, value in enumerate(course.rates, start=1)]
        rows += [(*who, title_of("validation"), step, loss) for step, loss, _share in course.validations]
        rows += [(*who, title_of("accuracy"), step, share) for step, _loss, share in course.validations]
        for quantity, norms in (
            (_("gradient norm, first step"), course.first),
            (_("gradient norm, newest step"), course.latest),
        ):
            rows += [(*who, quantity, part_name(part), value) for part, value in norms.items()]
    for each in side.tests:
        who = (arm_name(each.arm), each.seed)
        rows += [
            (*who, title_of("exact match"), each.length, each.exact),
            (*who, _("tokens predicted rightly, by length"), each.length, each.tokens),
        ]
    frame = pd.DataFrame(rows, columns=[_("arm"), _("seed"), _("quantity"), _("step, layer or length"), _("value")])
    place = frame.columns[3]
    frame[place] = frame[place].astype(str)
    return frame


# Trainings side by side as charts: loss, gradients by layer, accuracy, rates.

KEEP = 0.9  # the weight of the past in a smoothed curve
POINTS = 300  # of a curve
FAINT = "59"  # the opacity of what was measured, behind what is smoothed
TALL = 230


def losses(side: Side, name: str) -> Mount:
    """Of every step, smoothed, what was measured behind it, and what frequencies alone give."""
    hues, series = colours(side.courses), []
    for number, course in enumerate(side.courses):
        steps, ys = np.arange(1, len(course.losses) + 1, dtype=float), np.array(course.losses)
        if not len(ys):
            continue
        hue = hues[course.arm]
        series.append(Series(label(course, side), *outline(steps, ys, POINTS), hue + FAINT, quiet=True))
        kept = outline(steps, smoothed(ys, KEEP), POINTS)
        series.append(Series(label(course, side), *kept, hue, quiet=number >= len(hues)))
    ends = np.array([1.0, side.steps])
    series.append(Series(_("frequency of tokens alone"), ends, np.full(2, side.chance), EXPECTED, dash=True))
    title = _("Training loss")
    return drawn(
        series,
        side,
        name,
        "loss",
        title,
        {"title": _("step"), "low": 0, "high": side.steps},
        {"title": _("nats per token")},
    )


def gradients(side: Side, name: str) -> Mount:
    """By layer, at the first step, and dashed at the newest."""
    hues = colours(side.courses)
    layers = list(dict.fromkeys(part for course in side.courses for part in course.first if ".layers." in part))
    places, series = np.arange(len(layers), dtype=float), []
    for number, course in enumerate(side.courses):
        for norms, dash in ((course.first, False), (course.latest, True)):
            ys = np.array([norms.get(layer, np.nan) for layer in layers])
            words = label(course, side) if not dash else _("{arm}, newest step").format(arm=label(course, side))
            hue = hues[course.arm] + (FAINT if dash else "")
            series.append(Series(words, places, ys, hue, dash=dash, quiet=dash or number >= len(hues)))
    x = {"title": _("layer"), "labels": [part_name(layer) for layer in layers], "side": ""}
    return drawn(
        series, side, name, "gradients", _("Gradient norm by layer"), x, {"title": "‖g‖", "log": True},
        _("at the first step; faint: at the newest"),
    )  # fmt: skip


def accuracy(side: Side, name: str) -> Mount:
    """Of tokens kept for validation, whenever that was measured."""
    hues = colours(side.courses)
    series = [
        Series(
            label(course, side),
            np.array([float(step) for step, _loss, _share in course.validations]),
            np.array([share for _step, _loss, share in course.validations]),
            hues[course.arm],
            quiet=number >= len(hues),
        )
        for number, course in enumerate(side.courses)
    ]
    x = {"title": _("step"), "low": 0, "high": side.steps}
    y = {"title": _("share"), "low": 0, "high": 1}
    return drawn(series, side, name, "accuracy", _("Tokens predicted rightly"), x, y, _("of pairs kept for validation"))


def over_lengths(side: Side, name: str) -> Mount:
    """The share answered to the character against the length, and faint, of tokens; where the training ended."""
    hues, series = colours(side.courses), []
    for number, course in enumerate(side.courses):
        found = [each for each in side.tests if (each.arm, each.seed) == (course.arm, course.seed)]
        xs = np.array([float(each.length) for each in found])
        hue, words = hues[course.arm], label(course, side)
        series.append(Series(words, xs, np.array([each.exact for each in found]), hue, quiet=number >= len(hues)))
        tokens = np.array([each.tokens for each in found])
        series.append(Series(_("{arm}, tokens").format(arm=words), xs, tokens, hue + FAINT, dash=True, quiet=True))
    marks = [{"x": side.trained, "text": _("trained up to {length}").format(length=side.trained)}]
    y = {"title": _("share"), "low": 0, "high": 1}
    return drawn(
        series, side, name, "lengths", _("Right answers against length"), {"title": _("length of the source")}, y,
        _("to the character; faint: tokens, each after the right ones"), marks,
    )  # fmt: skip


def rates(side: Side, name: str) -> Mount:
    """The schedule that each arm has had."""
    hues = colours(side.courses)
    series = [
        Series(label(each, side), np.arange(1.0, len(each.rates) + 1), np.array(each.rates), hues[each.arm],
               quiet=number >= len(hues))
        for number, each in enumerate(side.courses)
    ]  # fmt: skip
    x = {"title": _("step"), "low": 0, "high": side.steps}
    return drawn(series, side, name, "rates", _("Learning rate"), x, {"title": _("rate"), "log": True})


def drawn(
    series: Sequence[Series],
    side: Side,
    name: str,
    file: str,
    title: str,
    x: dict[str, Any],
    y: dict[str, Any],
    sentence: str = "",
    marks: Sequence[dict[str, Any]] = (),
) -> Mount:
    last = [f"{each.name} {significant(float(each.ys[-1]))}" for each in series if len(each.ys) and not each.quiet]
    stamp, csv = f"{name} {side.step} {len(side.tests)}", (_("arm"), x["title"], y["title"])
    more = {"x": x, "y": y, "marks": list(marks), "tall": TALL, "sentence": sentence}
    described = header(title, "; ".join(last), f"trained-{name}-{file}", stamp, csv, more)
    return chart(series, described, f"lab_{name}_{file}")


def label(course: Course, side: Side) -> str:
    """The arm, and the seed where there are several."""
    several = len({each.seed for each in side.courses}) > 1
    return arm_name(course.arm) + (f" · {course.seed}" if several and course is not side.of(course.arm)[0] else "")


BESIDE = {
    "norms": gradients,
    "depth": gradients,
    "residual": gradients,
    "tying": accuracy,
    "heads": accuracy,
    "positions": accuracy,
    "smoothing": accuracy,
    "recipe": rates,
}
TESTING = 1.2  # times the training: what the tests on longer texts take too, about


def section(model: TextModel, row: DeltaGenerator) -> Views:
    """Nothing here depends on the text."""
    name = choose(_("Claim"), list(COMPARISONS), "norms", "lab_training", comparison_name, row)
    show_claim(said_of(name), truth_of(name))
    if name == "tying" and model.network.ours:
        st.caption(literal(tied_counts(model)))
    place = st.container()
    found = controls(place, name, model)
    if found is not None:
        with place:
            run(name, *found)
    explain(name)
    return no_views


def controls(place: DeltaGenerator, name: str, model: TextModel) -> tuple[Setup, int] | None:
    """The setup and the longest text of the test, 0 for none; nothing while a field holds no number that can be."""
    usual = COMPARISONS[name]
    fields = {
        "steps": Field(f"{name}_steps", _("steps"), str(usual.steps), 1, 5000, log=True),
        "d_model": Field(f"{name}_d_model", "d_model", str(usual.d_model), 8, 256, even=True),
        "depth": Field(f"{name}_depth", _("layers of each stack"), str(usual.depth), 1, 12),
        "rate": Field(f"{name}_rate", _("rate"), f"{usual.rate:g}", 1e-5, 10, whole=False, log=True),
        "warmup": Field(f"{name}_warmup", _("warm-up, steps"), str(usual.warmup), 0, 1000),
        "seeds": Field(f"{name}_seeds", _("seeds"), "1", 0, 1000, most=5),
    }
    if usual.longest:
        fields["trained"] = Field(f"{name}_trained", _("trained up to length"), "8", 4, 16)
        fields["longest"] = Field(f"{name}_longest", _("tested up to length"), str(usual.longest), 5, 64)
    tasks = [name for name, task in TASKS.items() if task.any_length or not usual.longest]
    place.html(NARROW)
    places = place.container(key=f"fields_{name}").columns(len(fields) + 1, gap="small")
    key = f"{name}_task"
    task = TASKS.get(st.session_state.get(key, usual.task), TASKS[usual.task])
    chosen_task: str = places[0].selectbox(
        _("task"), tasks, tasks.index(usual.task), key=key, bind="query-params", help=_(task.description)
    )
    given = {part: number_field(where, fields[part]) for part, where in zip(fields, places[1:], strict=True)}
    if not all(given.values()):
        return None
    whole = {part: int(values[0]) for part, values in given.items() if part not in ("rate", "seeds")}
    longest, trained = whole.pop("longest", 0), whole.pop("trained", 0)
    chosen = {**whole, "rate": given["rate"][0], "seeds": tuple(int(seed) for seed in given["seeds"])}
    if trained:
        chosen["lengths"] = lengths_of(chosen_task, trained)
    return setup_of(name, model.kind, task=chosen_task, **chosen), longest


def run(name: str, setup: Setup, longest: int) -> None:
    """The forecast, the button, and what is found."""
    if longest and longest <= max(setup.lengths):
        st.error(_("The test must go beyond the lengths trained on: choose a longer one."))
        return
    try:
        words = forecast(name, setup, longest)
    except (ValueError, FloatingPointError) as error:
        st.error(as_sentence(translate_error(error)))
        return
    if training.is_moving(training.training(current_session())):
        st.caption(_("A training runs on the page Training too: times suffer, losses do not."))
    experiment(
        f"lab_trainings_{name}",
        (setup, longest),
        partial(begin, name, setup, longest),
        partial(draw, name),
        begin=_("Train side by side"),
        forecast=words,
    )


def forecast(name: str, setup: Setup, longest: int) -> str:
    """From a step of the first arm, measured now."""
    arms = COMPARISONS[name].arms(setup)
    shape = (setup.kind, setup.task, setup.d_model, setup.depth, setup.lengths)
    step = cached(f"lab_pace_{name}", shape, lambda: step_seconds(arms, setup))
    count = len(arms) * len(setup.seeds) * setup.steps
    seconds = count * step * (TESTING if longest else 1.0)
    return _("{arms} arms, {count} steps in all, about {seconds} s by a step just measured").format(
        arms=len(arms), count=f"{count:,}", seconds=f"{max(1.0, seconds):.0f}"
    )


def draw(name: str, side: Side) -> None:
    """Verdict, curves, the row of each arm, and every number."""
    st.text("\n".join(verdicts(name, side)))
    left, right = st.columns(2, gap="medium")
    beside = over_lengths if side.tests else BESIDE[name]
    for place, mount in ((left, losses(side, name)), (right, beside(side, name))):
        with place:
            mount()
    st.dataframe(results(side), hide_index=True, key=f"lab_{name}_results")
    data_table(f"lab_{name}_data", lambda: every_number(side), f"trained-{name}")


def tied_counts(model: TextModel) -> str:
    """What tying saves in the model that is loaded, by its config."""
    shared, apart = (tied(model.config, kind) for kind in ("output", "none"))
    if shared.refusal:
        return stopped(translate_error(shared.refusal))
    sentence = _("{name}, with its vocabulary of {words}: {tied} parameters with the output tied, {untied} without.")
    words = f"{model.config.vocabulary:,}"
    return sentence.format(name=model.name, words=words, tied=f"{shared.total:,}", untied=f"{apart.total:,}")
