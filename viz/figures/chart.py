"""Chart: series over tokens, layers or numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from numpy.typing import NDArray

from viz.figures.axis import Axis
from viz.figures.compared import Compared
from viz.figures.figure import Figure


@dataclass(frozen=True, eq=False)
class Series:
    """Places `xs` and values `ys` of a chart, as "line", "bars" or "dots"; over tokens a place is a token's number.
    Compared values are drawn twice, the pinned ones dashed.

    labels: of dots. side: of dots that are its tokens, in their order. colours: of single bars or dots, where they are
    not the series' own. quiet: not in the legend. One without places stands in the legend alone.
    """

    name: str
    xs: NDArray[Any]
    ys: NDArray[Any] | Compared
    colour: str
    mark: str = "line"
    dash: bool = False
    quiet: bool = False
    labels: Sequence[str] | None = None
    side: str | None = None
    colours: Sequence[str] | None = None


@dataclass(frozen=True, eq=False)
class Chart(Figure):
    """Series over tokens, layers or numbers.

    marks: {x, text}, lines at places of a numeric axis. tall: CSS pixels of the plane. of, place: titles of the table's
    first two columns, where they are not "series" and the x axis's.
    """

    series: Sequence[Series]
    x: Axis
    y: Axis
    _: KW_ONLY
    tall: int
    marks: Sequence[Mapping[str, Any]] = ()
    of: str = ""
    place: str = ""
