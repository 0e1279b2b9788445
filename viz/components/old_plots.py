"""The components that pages mount. Each function packs its data and returns what mounts it: a page packs all it has
before it mounts the first, so that the browser gets everything at once and paints it in one frame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viz.components.plots import Chart, Heatmap, Lines, Mount, Panels, Scale, Series, known
from viz.components.registry import pack

_nothing: Callable[[], None] = lambda: None  # a click that only the browser answers  # noqa: E731
_heatmap = Heatmap.COMPONENT
_lines = Lines.COMPONENT
_chart = Chart.COMPONENT
_panels = Panels.COMPONENT


def heatmap(
    values: NDArray[np.float32],
    visible: NDArray[np.bool_] | NDArray[np.uint8],
    header: Mapping[str, Any],
    key: str,
    on_row: Callable[[], None] | None = None,
    on_cell: Callable[[], None] | None = None,
) -> Mount:
    """Values (row, column) large, with labels, a colour bar and a menu of files; a click puts a `row` into the state,
    or, with on_cell, a `cell`, {row, column}.

    visible: False on masked cells, 2 on those that the threshold hides; a value that is not a number has no counterpart
    and is hatched too. header: `rows` and `columns`, each {title, labels, side, and `places` where labels are not in
    the order of that side's tokens}; `tokens`, {side, labels, places}, where cells are tokens; `block`, how many tokens
    a row and a column stand for, if not 1; `scale`, {low, high, title, difference: from the pin}, diverging if low
    is negative; `highest`, CSS pixels of all rows together, where those are thin; `square`, cells as high as wide;
    `chosen`, the framed row, or -1; `column`, a framed column; `name`, `sentence` and `note` above it; `alt` for
    screen readers; `file`, the name of what is saved; `stamp`, what was painted; `texts`, words inside the cells,
    if there are any; `words`, {masked, missing, hidden, download, csv: the names of the four columns, of a fifth
    for the words in the cells}.
    """
    if isinstance(header.get("scale"), Scale):
        header = {**header, "scale": known(header["scale"])}
    data = pack({**header, "cells": on_cell is not None}, [values, visible.astype(np.uint8)])
    return partial(_heatmap, data=data, key=key, on_row_change=on_row or _nothing, on_cell_change=on_cell or _nothing)


def lines(
    values: NDArray[np.float32],
    visible: NDArray[np.bool_] | NDArray[np.uint8],
    header: Mapping[str, Any],
    key: str,
    on_row: Callable[[], None],
) -> Mount:
    """The same as a heatmap, as lines from tokens to tokens; header: also their `colour`, [red, green, blue]."""
    return partial(_lines, data=pack(header, [values, visible.astype(np.uint8)]), key=key, on_row_change=on_row)


def chart(
    series: Sequence[Series], header: Mapping[str, Any], key: str, on_place: Callable[[], None] | None = None
) -> Mount:
    """Series over tokens, layers or numbers; a click puts {series, index} into the state as `place`.

    header: `x`, {title, and for tokens or layers labels and side, or log}; `y`, {title, log, low, high, zero: begin
    there}; `marks`, each {x, text}, lines at places of a numeric axis; `chosen`, a token's band, or -1; `tall`, CSS
    pixels of the plane; `name`, `sentence`, `note`, `alt`, `file` and `stamp` as of a heatmap;
    `words`, {download, csv: the names of series, place and value}.
    """
    arrays: list[NDArray[Any]] = []
    described = []
    for each in series:
        arrays += [np.asarray(each.xs, np.float32), np.asarray(each.ys, np.float32)]
        described.append({k: v for k, v in vars(each).items() if k not in ("xs", "ys") and v is not None})
    data = pack({"chosen": -1, **header, "series": described}, arrays)
    return partial(_chart, data=data, key=key, on_place_change=on_place or _nothing)


@dataclass(frozen=True)
class Panel:
    """A matrix among others: values (row, column), None for a mask; visible, False on hidden cells; changed cells.

    described: `name` and `note` above it; `rows` and `columns`, each {title, labels, side, and `places` where labels
    are not that side's tokens in their order, -1 for none}; `scale`, {low, high, difference}, none for a mask;
    `pinned`: it is of the pinned trace, NaN where that has no such token; `line`, panels of another line begin a new
    one; `chosen`, a framed row; `framed`, a framed cell; `choose`: it can be clicked.
    """

    visible: NDArray[np.bool_]
    described: Mapping[str, Any]
    values: NDArray[np.float32] | None = None
    changed: NDArray[np.bool_] | None = None


def panels(
    shown: Sequence[Panel], header: Mapping[str, Any], key: str, on_cell: Callable[[], None] | None = None
) -> Mount:
    """Small matrices side by side; a click puts {panel, row, column} into the state as `cell`, −1 for a whole row's
    or column's label.

    header: `slot`, the least width of a panel, and `cell`, the largest of a cell, in CSS pixels; `name`, `sentence`,
    `note`, `alt`, `file` and `stamp` as of a heatmap; `words`, {masked, visible, changed, missing, download, csv: the
    names of panel, row, column, value and masked}.
    """
    arrays: list[NDArray[Any]] = []
    for each in shown:
        values = np.zeros((0, 0)) if each.values is None else each.values
        flags = each.visible.astype(np.uint8)
        arrays += [
            values.astype(np.float32),
            flags if each.changed is None else flags | (2 * each.changed.astype(np.uint8)),
        ]
    data = pack({**header, "panels": [dict(each.described) for each in shown]}, arrays)
    return partial(_panels, data=data, key=key, on_cell_change=on_cell or _nothing)
