"""A statistic of tensors over the checkpoints of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from viz.components.plots import Mount, Series, chart
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.ui.parts import plot_words

if TYPE_CHECKING:
    from model.analysis.weights.statistics import Statistics
    from model.checkpoints.tensors import TensorInfo

MOST = 60  # lines; a pattern chooses fewer
NAMED = 12  # lines with a legend; of more, the pointer says them
STATISTICS: dict[str, Callable[[Statistics, int], float]] = {
    "norm": lambda found, count: math.sqrt(count) * math.hypot(found.mean, found.deviation),
    "deviation": lambda found, _count: found.deviation,
    "mean": lambda found, _count: found.mean,
    "minimum": lambda found, _count: found.minimum,
    "maximum": lambda found, _count: found.maximum,
    "zeros": lambda found, _count: found.zeros,
    "nan": lambda found, _count: found.nan,
    "infinite": lambda found, _count: found.infinite,
}


@dataclass(frozen=True)
class Run:
    """A checkpoint, its place on the axis, its tensors and what they measure as far as it is known."""

    name: str
    place: int
    table: Sequence[TensorInfo]
    of: Callable[[TensorInfo], Statistics | None]

    def value(self, tensor: str, statistic: str) -> float:
        info = next(each for each in self.table if each.name == tensor)
        found = self.of(info)
        return math.nan if found is None else STATISTICS[statistic](found, info.elements - found.nan - found.infinite)


def steps_chart(runs: Sequence[Run], tensors: Sequence[str], statistic: str, known: bool, key: str) -> Mount:
    """A line for each tensor. known: places are steps; else the checkpoints stand side by side."""
    places = np.array([run.place for run in runs] if known else range(len(runs)), np.float32)
    shown = list(tensors[:MOST])
    before = common_part(shown)
    series = []
    for number, name in enumerate(shown):
        values = np.array([run.value(name, statistic) for run in runs])
        colour = f"hsl({number * 137.5 % 360:.1f}, 65%, 45%)"
        series.append(Series(name[len(before) :][-60:] or name[-60:], places, values, colour, quiet=len(shown) > NAMED))
    title = statistic_name(statistic)
    sentence = _("{count} tensors in {runs} checkpoints").format(count=len(tensors), runs=len(runs))
    if len(tensors) > MOST:
        sentence += _(", the first {most} are drawn").format(most=MOST)
    ends = [(each.ys[0], each.ys[-1]) for each in series[:3]]
    listed = "; ".join(
        f"{each.name} {significant(float(first))} → {significant(float(last))}"
        for each, (first, last) in zip(series, ends, strict=False)
    )
    names = [run.name[:24] for run in runs]
    header = {
        "x": {"title": _("step")} if known else {"title": _("checkpoint"), "labels": names, "side": ""},
        "y": {"title": title},
        "marks": [{"x": run.place, "text": run.name[:24]} for run in runs] if known and len(runs) <= 6 else [],
        "tall": 300,
        "name": title,
        "sentence": sentence,
        "alt": f"{title}, {sentence}: {listed}.",
        "file": f"steps-{statistic}",
        "stamp": f"{statistic} {len(shown)} {len(runs)}",
        "words": plot_words(_("tensor"), _("step"), title),
    }
    return chart(series, header, key)


def common_part(names: Sequence[str]) -> str:
    """What all names begin with, up to a dot."""
    if len(names) < 2:
        return ""
    first, last = min(names), max(names)
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[: first.rfind(".", 0, same) + 1]


def steps_table(runs: Sequence[Run], tensors: Sequence[str], statistic: str) -> pd.DataFrame:
    """A line for each checkpoint and tensor."""
    lines = [(run.name, run.place, name, run.value(name, statistic)) for run in runs for name in tensors]
    return pd.DataFrame(lines, columns=[_("checkpoint"), _("step"), _("tensor"), statistic_name(statistic)])


def statistic_name(name: str) -> str:
    return {
        "norm": _("norm ‖W‖"),
        "deviation": _("deviation"),
        "mean": _("mean"),
        "minimum": _("least"),
        "maximum": _("greatest"),
        "zeros": _("share of zeros"),
        "nan": _("NaN values"),
        "infinite": _("infinite values"),
    }[name]
