"""The tables of trainings side by side: a row an arm, and every number that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np
import pandas as pd

from model.experiments.side_by_side import Side
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.packing.lab_arms import arm_name, colours
from viz.ui.curves import part_name, title_of


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
