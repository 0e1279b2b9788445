"""Trainings side by side as charts: loss, gradients by layer, accuracy, rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from model.analysis.downsample import outline, smoothed
from model.experiments.side_by_side import Course, Side
from viz.components.plots import Mount, Series, chart
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.packing.lab_arms import arm_name, colours
from viz.packing.lab_plots import header
from viz.ui.curves import part_name
from viz.ui.plots import EXPECTED

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
