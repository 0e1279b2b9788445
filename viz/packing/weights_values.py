"""One tensor of a file large: its histogram, its values as a map, its numbers one by one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from model.analysis.downsample import as_matrix, exact_histogram, in_blocks
from viz.components.plots import Mount, Series, chart, heatmap
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.ui.parts import plot_words
from viz.ui.plots import EXPECTED, array

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from model.analysis.weights.statistics import Statistics
    from model.checkpoints.tensors import TensorInfo

BINS = (12, 96)  # of a few values, of many
MOST = (128, 256)  # rows and columns of a map
COLOURS = ("#0072b2", "#d55e00")  # of one checkpoint, of the other
BARS = 160  # values that are drawn as bars; of more, a line
LETTERS = 60
TALL = 384  # CSS pixels of a map's rows together
Blocks = tuple["NDArray[np.float32]", tuple[int, int]]  # what is drawn, and the rows and columns of a block


@dataclass(frozen=True)
class Weight:
    """A tensor that is looked at: of which file, what the file and its values say.

    remember: gives what was computed under a key before, or computes it. remembers: whether it need not be.
    """

    file: str
    info: TensorInfo
    statistics: Statistics
    remember: Callable[[Hashable, Callable[[], Any]], Any]
    remembers: Callable[[Hashable], bool]

    @property
    def title(self) -> str:
        return short(self.info.name)

    @property
    def stamp(self) -> str:
        return f"{self.file} {self.title}"

    def called(self, file: str) -> Weight:
        """The same under another name of its file."""
        return replace(self, file=file)

    @property
    def finite(self) -> int:
        return self.info.elements - self.statistics.nan - self.statistics.infinite

    def histogram(self, bins: int, low: float, high: float) -> NDArray[np.float64]:
        """How many of all values lie in each of the bins."""
        key = ("histogram", self.info.name, bins, low, high)
        counts = self.remember(key, lambda: exact_histogram(self.info.load(), bins, low, high).numpy())
        return np.asarray(counts, np.float64)


@dataclass(frozen=True)
class Region:
    """Rows and columns that are looked at, from the first to before the last."""

    rows: tuple[int, int]
    columns: tuple[int, int]


def short(name: str) -> str:
    """A name that fits into a heading."""
    return name if len(name) <= LETTERS else f"{name[: LETTERS // 2]}…{name[-LETTERS // 2 :]}"


def summary(statistics: Statistics) -> str:
    """What a tensor measures, in a line."""
    line = _("mean {mean} · deviation {deviation} · from {low} to {high} · zeros {zeros}").format(
        mean=significant(statistics.mean),
        deviation=significant(statistics.deviation),
        low=significant(statistics.minimum),
        high=significant(statistics.maximum),
        zeros="<\xa00.01\xa0%" if 0 < statistics.zeros < 1e-4 else f"{significant(100 * statistics.zeros)}\xa0%",
    )
    if statistics.nan or statistics.infinite:
        line += _(" · {nan} NaN · {infinite} infinite").format(
            nan=f"{statistics.nan:,}", infinite=f"{statistics.infinite:,}"
        )
    return line


def plot_header(weight: Weight, name: str, alt: str, file: str, csv: Sequence[str], **more: Any) -> dict[str, Any]:
    """What the header of every plot of a file has."""
    words = {**plot_words(*csv), "missing": _("not a finite number")}
    return {"name": name, "alt": alt, "file": file, "stamp": weight.stamp, "words": words, "chosen": -1, **more}


def ends(weights: Sequence[Weight]) -> tuple[float, float]:
    """The least and the greatest finite value of them all."""
    low = float(np.nanmin([weight.statistics.minimum for weight in weights]))
    high = float(np.nanmax([weight.statistics.maximum for weight in weights]))
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def histogram(weights: Sequence[Weight], log: bool, key: str) -> Mount:
    """How many values lie where, of one tensor or of two on the same bins."""
    low, high = ends(weights)
    bins = max(BINS[0], min(BINS[1], 2 * round(weights[0].finite ** 0.5)))
    edges = np.linspace(low, high, bins + 1)
    middles = (edges[:-1] + edges[1:]) / 2
    several = len(weights) > 1
    series = []
    for weight, colour in zip(weights, COLOURS, strict=False):
        counts = weight.histogram(bins, low, high)
        if log:
            counts[counts == 0] = np.nan
        name = weight.file if several else _("values")
        series.append(Series(name, middles, counts, colour, mark="line" if several or log else "bars"))
    first = weights[0]
    header = plot_header(
        first,
        _("Histogram"),
        "; ".join(f"{weight.file}: {summary(weight.statistics)}" for weight in weights),
        f"histogram-{first.title}",
        (_("checkpoint"), _("value"), _("count")),
        x={"title": _("value"), "low": low, "high": high},
        y={"title": _("count"), "log": log, "zero": not log},
        sentence=_("all {count} finite values, in {bins} bins").format(count=f"{first.finite:,}", bins=bins),
        tall=130,
    )
    return chart(series, header, key)


def whole(shape: Sequence[int]) -> Region:
    rows = shape[0] if len(shape) > 1 else 1
    elements = int(np.prod(shape, dtype=np.int64))
    return Region((0, rows), (0, elements // rows if rows else 0))


def blocks_of(weight: Weight, region: Region, largest: bool) -> Blocks:
    """A rectangle of a tensor's values as a screen can show it."""
    key = ("blocks", weight.info.name, region, largest)
    found: Blocks = weight.remember(key, lambda: _blocks(as_matrix(weight.info.load()), region, largest))
    return found


def difference_blocks(weights: Sequence[Weight], region: Region, largest: bool) -> Blocks:
    """The same of the second tensor minus the first; only the rectangle is read of both."""
    first, second = weights

    def subtract() -> Blocks:
        (top, bottom), (left, right) = region.rows, region.columns
        one, other = (as_matrix(each.info.load())[top:bottom, left:right].float() for each in weights)
        return _blocks(other - one, whole(other.shape), largest)

    found: Blocks = second.remember(("difference", first.file, second.info.name, region, largest), subtract)
    return found


def _blocks(matrix: Tensor, region: Region, largest: bool) -> Blocks:
    (top, bottom), (left, right) = region.rows, region.columns
    made, size = in_blocks(matrix[top:bottom, left:right], MOST, largest)
    return array(made), size


def value_map(
    weight: Weight,
    blocks: Blocks,
    region: Region,
    largest: bool,
    key: str,
    on_cell: Callable[[], None],
    difference: bool = False,
) -> Mount:
    """The values of a rectangle, in blocks where there are more than a screen shows; a click looks closer."""
    shown, (high, wide) = blocks
    (top, bottom), (left, right) = region.rows, region.columns
    biggest = float(np.nanmax(np.abs(shown), initial=0.0)) or 1.0
    kind = "B − A" if difference else _("value")
    said = ""
    if high * wide > 1:
        kind = _("largest |x| of a block") if largest else _("mean of a block")
        said = _(" · each cell is a block of {high}\xa0×\xa0{wide}").format(high=high, wide=wide)
    if len(weight.info.shape) > 2:
        said += _(" · the first dimension against the others")
    part = _("rows {top} to {bottom}, columns {left} to {right}").format(
        top=f"{top:,}", bottom=f"{bottom - 1:,}", left=f"{left:,}", right=f"{right - 1:,}"
    )
    finite = shown[np.isfinite(shown)]
    low, most = (significant(float(x)) for x in ((finite.min(), finite.max()) if finite.size else (np.nan, np.nan)))
    header = plot_header(
        weight,
        _("Difference") if difference else _("Values"),
        _("{part}: {kind}, from {low} to {high}.").format(part=part, kind=kind, low=low, high=most),
        f"{'difference' if difference else 'values'}-{weight.title}",
        (_("row"), _("column"), kind, _("masked")),
        rows={"title": _("row"), "labels": [f"{row:,}" for row in range(top, bottom, high)], "side": "weight rows"},
        columns={
            "title": _("column"),
            "labels": [f"{at:,}" for at in range(left, right, wide)],
            "side": "weight columns",
        },
        scale={"low": 0 if largest else -biggest, "high": biggest, "title": kind, "difference": difference},
        sentence=part + said,
        highest=TALL,
    )
    return heatmap(shown, np.ones(shown.shape, np.bool_), header, key, on_cell=on_cell)


def feature_chart(weights: Sequence[Weight], key: str) -> Mount:
    """A vector over its features: γ, β, a bias."""
    series = []
    several = len(weights) > 1
    for weight, colour in zip(weights, COLOURS, strict=False):
        values = array(weight.info.load().reshape(-1))
        mark = "line" if several or len(values) > BARS else "bars"
        series.append(Series(weight.file if several else _("value"), np.arange(len(values)), values, colour, mark=mark))
    first = weights[0]
    if not several and np.isfinite(first.statistics.mean):
        edge = np.array([0, max(1, first.info.elements - 1)])
        series.append(Series(_("mean"), edge, np.full(2, first.statistics.mean), EXPECTED, dash=True))
    header = plot_header(
        first,
        _("Values"),
        "; ".join(f"{weight.file}: {summary(weight.statistics)}" for weight in weights),
        f"values-{first.title}",
        (_("checkpoint"), _("feature"), _("value")),
        x={"title": _("feature"), "low": -0.5, "high": first.info.elements - 0.5},
        y={"title": _("value")},
        sentence=_("{count} features").format(count=f"{first.info.elements:,}"),
        tall=190,
    )
    return chart(series, header, key)
