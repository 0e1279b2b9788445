"""Charts for the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from viz.components.registry import component
from viz.figures.chart import Chart, Series
from viz.figures.compared import Compared, of_now
from viz.i18n.catalogue import _
from viz.i18n.format import clauses
from viz.render import grouping
from viz.render.renderer import Axes, Renderer, Table, attributes, renders, span

if TYPE_CHECKING:
    from model.analysis.pieces import Pieces

NAMED = 6  # series whose ends the alternative text says


@renders(Chart)
class ChartRenderer(Renderer[Chart]):
    """Series by their places and values; compared ones twice, the pinned dashed."""

    component = component("web/chart")
    clicks: ClassVar[Sequence[str]] = ("place",)

    @staticmethod
    def differing(figure: Chart, _difference: bool) -> Chart:
        return replace(figure, series=[each for series in figure.series for each in with_pinned(series)])

    @staticmethod
    def grouped(figure: Chart, groups: Mapping[str, Pieces]) -> tuple[Chart, Mapping[str, Axes]]:
        places = grouping.groups_on(figure.x, groups)
        if places is None:
            return figure, {}
        joined = replace(
            figure,
            series=[grouped_series(each, places, figure.summed) for each in figure.series],
            x=grouping.grouped_axis(figure.x, places),
            chosen=grouping.place_of(places, figure.chosen),
        )
        return joined, {"place": {"index": places}}

    def shape(self) -> dict[str, Any]:
        figure = self.figure
        series = [attributes(each, "xs", "ys") for each in figure.series]
        marks = {"marks": list(figure.marks)} if figure.marks else {}
        return {"x": attributes(figure.x), "y": attributes(figure.y), "tall": figure.tall, "series": series, **marks}

    def arrays(self) -> Sequence[NDArray[Any]]:
        return [np.asarray(axis, np.float32) for each in self.figure.series for axis in (each.xs, each.ys)]

    def titles(self) -> Sequence[str]:
        figure = self.figure
        return figure.of or _("series"), figure.place or figure.x.title, figure.y.title

    def lines(self) -> Table:
        labels, arrays = self.figure.x.labels, self.arrays()
        lines: Table = []
        for each, xs, ys in zip(self.figure.series, arrays[::2], arrays[1::2], strict=True):
            places = each.labels or ([labels[int(x)] for x in xs] if labels else xs.tolist())
            lines += [(each.name, place, y) for place, y in zip(places, ys.tolist(), strict=True)]
        return lines

    def summary(self) -> str:
        figure = self.figure
        spans = [(each.name, *span(np.asarray(each.ys))) for each in figure.series if not each.quiet and len(each.xs)]
        ends = clauses(f"{name} {low} … {high}" for name, low, high in spans[:NAMED])
        return _("{quantity} over {places}: {series}").format(
            quantity=figure.y.title, places=figure.x.title, series=ends
        )


def with_pinned(series: Series) -> list[Series]:
    """The series, and the pinned one dashed, unless it is NaN throughout: of a token that is not in the pinned text."""
    if not isinstance(series.ys, Compared):
        return [series]
    now, before = series.ys.now, series.ys.before
    drawn = [replace(series, ys=now)]
    if before is not None and not np.isnan(before).all():
        drawn.append(Series(_("{name}, pinned").format(name=series.name), series.xs, before, series.colour, dash=True))
    return drawn


def grouped_series(series: Series, groups: Pieces, summed: bool) -> Series:
    """A series over tokens, over their groups: of each, what is known of its tokens."""
    at = np.array(groups.run_of)[series.xs.astype(int)]
    places, ys = np.unique(at), np.asarray(of_now(series.ys), np.float64)
    known = [ys[(at == place) & ~np.isnan(ys)] for place in places]
    join = np.sum if summed else np.mean
    joined = np.array([join(each) if each.size else np.nan for each in known])
    colours = series.colours and [series.colours[int(np.argmax(at == place))] for place in places]
    return replace(series, xs=places, ys=joined, colours=colours)
