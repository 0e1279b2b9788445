"""Heatmaps and lines for the browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from viz.components.registry import component
from viz.figures.axis import Scale, largest
from viz.figures.compared import Compared, of_now
from viz.figures.heatmap import Heatmap, Lines
from viz.i18n.catalogue import _
from viz.render import grouping
from viz.render.renderer import Axes, Renderer, Table, attributes, crossed, renders, span, words

if TYPE_CHECKING:
    from model.analysis.pieces import Pieces

ODD = 3  # among visible cells (1), masked ones (0) and hidden ones (2): not a number, or infinite


@renders(Heatmap)
class HeatmapRenderer(Renderer[Heatmap]):
    """A difference that is not a number has no counterpart and is hatched; what else is not finite has a mark."""

    component = component("web/heatmap")
    clicks: ClassVar[Sequence[str]] = ("row", "cell")

    @staticmethod
    def differing(figure: Heatmap, wanted: bool) -> Heatmap:
        values, title = figure.values, figure.scale.title
        if not isinstance(values, Compared):
            return figure
        if not wanted or values.before is None:
            return replace(figure, values=values.now)
        difference, caption = values.difference, figure.caption
        if figure.unchanged and np.isfinite(difference).any() and not np.nan_to_num(difference).any():
            caption = replace(caption, note=figure.unchanged)
        top = largest(difference)
        scale = Scale(-top, top, _("{name}, minus pinned").format(name=title), True)
        return replace(figure, caption=caption, values=difference, scale=scale)

    @staticmethod
    def grouped(figure: Heatmap, groups: Mapping[str, Pieces]) -> tuple[Heatmap, Mapping[str, Axes]]:
        rows, columns = (grouping.groups_on(axis, groups) for axis in (figure.rows, figure.columns))
        if rows is None and columns is None:
            return figure, {}
        values, texts, visible = of_now(figure.values), figure.texts, figure.visible
        if texts is not None:  # words cannot be averaged: those of the last token, and its number
            places = np.arange(values.size).reshape(values.shape)
            last = grouping.joined_values(places, rows, columns, lambda of_axis: of_axis.last)
            texts, values = [texts[at] for at in last.ravel()], values.ravel()[last]
        else:
            values = grouping.averaged(values, rows, columns, figure.summed)
        of_last = texts is not None
        joined = replace(
            figure,
            values=values,
            texts=texts,
            visible=None if visible is None else grouping.largest(visible, rows, columns),
            rows=grouping.grouped_axis(figure.rows, rows, of_last),
            columns=grouping.grouped_axis(figure.columns, columns, of_last),
            chosen=grouping.place_of(rows, figure.chosen),
            column=grouping.place_of(columns, figure.column),
        )
        return joined, {"row": {"": rows}, "cell": {"row": rows, "column": columns}}

    def shape(self) -> dict[str, Any]:
        figure = self.figure
        shape = {"column": figure.column, "square": figure.square, "cells": "cell" in self.answered}
        names = ("tokens", "block", "highest", "wanted", "texts", "ranked", "valued")
        some = {name: value for name in names if (value := getattr(figure, name)) is not None}
        sides = {name: attributes(getattr(figure, name)) for name in ("rows", "columns", "scale")}
        flags = {"odd": self.odd, "large": figure.large}
        return shape | some | sides | {name: value for name, value in flags.items() if value}

    def arrays(self) -> Sequence[NDArray[Any]]:
        return self._cells

    @cached_property
    def _cells(self) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
        """Values, and states of cells: see ODD."""
        figure = self.figure
        values = np.asarray(figure.values, np.float32)
        visible = np.ones(values.shape, np.uint8) if figure.visible is None else figure.visible.astype(np.uint8)
        if not np.isfinite(values).all():
            odd = np.isinf(values) if figure.scale.difference else ~np.isfinite(values)
            visible = np.where(odd & (visible == 1), np.uint8(ODD), visible)
        return values, visible

    @property
    def odd(self) -> int:
        """Number of drawn cells that are not finite."""
        return int((self._cells[1] == ODD).sum())

    def titles(self) -> Sequence[str]:
        figure = self.figure
        of_cells = figure.cell_titles or (figure.rows.title, figure.columns.title, figure.scale.title)
        return *of_cells, _("masked"), *(() if figure.texts is None else (figure.texts_title,))

    def lines(self) -> Table:
        figure, (values, visible) = self.figure, self._cells
        cells = crossed(figure.rows.labels or (), figure.columns.labels or (), values, visible)
        texts = [()] * values.size if figure.texts is None else [(text,) for text in figure.texts]
        return [(*cell, not seen, *text) for (*cell, seen), text in zip(cells, texts, strict=True)]

    def summary(self) -> str:
        figure, values = self.figure, of_now(self.figure.values)
        (rows, columns), (low, high) = values.shape, span(values)
        sentence = _("{quantity} from {low} to {high}; {rows} × {columns} ({row} × {column})")
        titles = {"quantity": figure.scale.title, "row": figure.rows.title, "column": figure.columns.title}
        filled = sentence.format(low=low, high=high, rows=rows, columns=columns, **titles)
        return f"{filled}; {words()['odd_count'].format(count=self.odd)}" if self.odd else filled


@renders(Lines)
class LinesRenderer(HeatmapRenderer):
    """Renderer of lines from tokens to tokens."""

    component = component("web/lines")
    clicks: ClassVar[Sequence[str]] = ("row",)
    figure: Lines

    def shape(self) -> dict[str, Any]:
        return super().shape() | {"colour": list(self.figure.colour)}
