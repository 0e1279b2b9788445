"""The head grid and the steps of a query for the browser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from viz.components.registry import component
from viz.figures.head_grid import HeadGrid
from viz.figures.query_steps import QuerySteps
from viz.i18n.catalogue import _
from viz.render.renderer import Renderer, Table, about_header, crossed, renders

LEVELS = 65532  # of a thumbnail's value in 16 bits; the next say that a cell is not comparable, hidden, or not finite


@renders(HeadGrid)
class HeadGridRenderer(Renderer[HeadGrid]):
    """Thumbnails in 16 bits; a click on one says {layer, head}, on the best of a kind {kind, layer, head}. A difference
    that is NaN is not drawn, what else is not finite has a mark of its own.
    """

    component = component("pages/attention/head_grid")
    clicks: ClassVar[Sequence[str]] = ("head", "best")

    def _header(self) -> dict[str, Any]:
        figure, caption = self.figure, self.caption
        return {
            "kind": figure.film,
            "stamp": caption.stamp,
            "chosen": list(figure.head),
            "order": [list(place) for place in figure.order],
            "columns": figure.across,
            "block": list(figure.block),
            "difference": figure.difference,
            "floor": figure.floor,
            "notes": list(figure.notes),
            "best": [
                {"kind": kind, "layer": layer, "head": head, "label": words}
                for (kind, layer, head), words in figure.best
            ],
            "waiting": list(figure.waiting),
            "words": self._words(),
            "alt": caption.alt,
            "file": caption.file,
            "labels": {"rows": figure.rows.labels, "columns": figure.columns.labels},
            "sides": {"rows": figure.rows.side, "columns": figure.columns.side},
            **self.shape(),
            **about_header(caption),
        }

    def _words(self) -> dict[str, Any]:
        return {
            "place": _("Layer {layer}, head {head}"),
            "metric": self.figure.words["metric"],
            "best": _("Most changed:") if self.figure.difference else _("Over all kinds:"),
            "masked": _("masked"),
            "download": _("Download"),
            "csv": self.columns,
            "left_out": _("Heads left out: {count}; show fewer heads, or a shorter text"),
            "missing": _("not in the pinned trace"),
            "odd": _("not a number, or infinite"),
            "hidden": self.figure.words["hidden"],
            "waiting": _("not computed yet: press to see it"),
            "quantity": self.figure.words["quantity"],
            "film": _("film: step {step}"),
            "block": _("largest of {rows} × {columns} cells"),
            "caption": self.caption.sentence,
        }

    @property
    def _ends(self) -> tuple[float, float]:
        """Values of the first and the last level."""
        cells = self.figure.cells
        largest = float(np.abs(cells).max(initial=0.0, where=np.isfinite(cells))) or 1.0
        return (-largest if self.figure.difference else 0.0), largest

    def shape(self) -> dict[str, Any]:
        (count, rows, columns), (low, high) = self.figure.cells.shape, self._ends
        tops = list(self.figure.tops)
        return {"rows": rows, "cells": columns, "low": low, "high": high, "tops": tops, "count": count}

    def arrays(self) -> Sequence[NDArray[Any]]:
        figure, (low, high) = self.figure, self._ends
        finite = np.isfinite(figure.cells)
        # float32 would round some to a neighbour
        places = np.multiply(np.where(finite, figure.cells, low) - low, LEVELS / (high - low), dtype=np.float64)
        levels = np.rint(places).astype(np.uint16)
        levels[~finite] = LEVELS + 3
        if figure.difference:
            levels[np.isnan(figure.cells)] = LEVELS + 1
        levels[figure.hidden & (levels <= LEVELS)] = LEVELS + 2
        return levels, figure.states

    def titles(self) -> Sequence[str]:
        return _("layer"), _("head"), _("query"), _("key"), self.figure.words["quantity"], _("masked")

    def lines(self) -> Table:
        figure = self.figure
        rows, columns = figure.rows.labels or (), figure.columns.labels or ()
        return [
            (layer + 1, head + 1, row, column, value, not state)
            for (layer, head), cells in zip(figure.order, figure.cells, strict=True)
            for row, column, value, state in crossed(
                rows[:: figure.block[0]], columns[:: figure.block[1]], cells, figure.states
            )
        ]


@renders(QuerySteps)
class QueryStepsRenderer(Renderer[QuerySteps]):
    """Steps of a query; a click on a query says its place."""

    component = component("pages/attention/steps")
    clicks: ClassVar[Sequence[str]] = ("query",)

    def _header(self) -> dict[str, Any]:
        figure, caption = self.figure, self.caption
        header = {"name": caption.name, "file": caption.file, **self.shape()}
        pinned = {"differing": figure.difference} if figure.before else None
        header |= {"note": caption.note, "stamp": caption.stamp, "pinned": pinned, "words": self._words()}
        return {**header, "masked": list(figure.masked), "alt": caption.alt, **about_header(caption)}

    def _words(self) -> dict[str, Any]:
        return {
            "query": self.figure.words["query"],
            "value": _("weight × value"),
            "output": _("output of this head"),
            "download": _("Download"),
            "pinned": _("pinned"),
            "missing": _("not in the pinned trace"),
            "columns": [{"name": name, "formula": formula} for name, formula in self.figure.names],
        }

    def shape(self) -> dict[str, Any]:
        figure, sides = self.figure, ("rows", "columns")
        axes = (figure.queries, figure.keys)
        return {
            "queries": figure.queries.labels,
            "keys": figure.keys.labels,
            "places": {side: axis.places for side, axis in zip(sides, axes, strict=True)},
            "sides": {side: axis.side for side, axis in zip(sides, axes, strict=True)},
            "special": dict(zip(sides, figure.special, strict=True)),
            "chosen": figure.chosen,
        }

    def arrays(self) -> Sequence[NDArray[Any]]:
        return [*self.figure.steps, *self.figure.before]

    def titles(self) -> Sequence[str]:
        return [name for name, _formula in self.figure.names]

    def lines(self) -> Table:
        *to_weights, weighted, _output = self.figure.steps
        numbers = [*(each.tolist() for each in to_weights), np.linalg.norm(weighted, axis=-1).tolist()]
        return list(zip(self.figure.keys.labels or (), *numbers, strict=True))
