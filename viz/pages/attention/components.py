"""Components of the page Attention; each function packs its data and returns what mounts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viz.components.registry import component, pack
from viz.components.view import Answer, PackedView, View
from viz.figures.figure import Caption
from viz.render.renderer import about_header
from viz.render.view import about_click

LEVELS = 65532  # of a thumbnail's value in 16 bits; the next say that a cell is not comparable, hidden, or not finite

_head_grid = component("pages/attention/head_grid")
_stages = component("pages/attention/steps")


def head_grid(
    cells: NDArray[np.float32],
    hidden: NDArray[np.bool_],
    states: NDArray[np.uint8],
    tops: Sequence[float],
    header: Mapping[str, Any],
    key: str,
    on_head: Answer,
    heading: Caption,
) -> View:
    """Thumbnails (thumbnail, row, column) of heads; a click puts {layer, head} into the state as `head`.

    hidden: cells that are not drawn. states: (row, column), 0 masked, 1 visible, 2 not comparable; a difference that is
    NaN is not drawn, what else is not finite has a mark of its own.
    tops: for each thumbnail the value that is drawn darkest. header: `order`, [layer, head] of each; `columns` of the
    grid; `notes`, a number of each; `difference`: from the pin; `floor` of a logarithmic scale, or None; `block`, how
    many rows and columns a cell stands for.
    """
    count, rows, columns = cells.shape
    finite = np.isfinite(cells)
    largest = float(np.abs(cells).max(initial=0.0, where=finite)) or 1.0
    low = -largest if header["difference"] else 0.0
    known = np.where(finite, cells, low)
    places = np.multiply(
        known - low, LEVELS / (largest - low), dtype=np.float64
    )  # float32 would round some to a neighbour
    levels = np.rint(places).astype(np.uint16)
    levels[~finite] = LEVELS + 3
    if header["difference"]:
        levels[np.isnan(cells)] = LEVELS + 1
    levels[hidden & (levels <= LEVELS)] = LEVELS + 2
    sizes = {"rows": rows, "cells": columns, "low": low, "high": largest, "tops": list(tops), "count": count}
    data = pack({**header, **sizes, **about_header(heading)}, [levels, states])
    return PackedView(_head_grid, key, data, {"head": on_head, **about_click(heading)})


def stages(
    arrays: Sequence[NDArray[np.float32]], header: Mapping[str, Any], key: str, on_query: Answer, heading: Caption
) -> View:
    """One query's scores, scaled, biased where positions add to them, masked, weights, weighted values
    (key, channel) and their sum; then, where the header says `pinned`, the pinned ones in the same order; with a menu
    of files.

    header: `masked`, a truth a key; `pinned`, None or {differing: the first ones are differences}. A click on a query
    puts its position into the state as `query`.
    """
    data = pack({**header, **about_header(heading)}, arrays)
    return PackedView(_stages, key, data, {"query": on_query, **about_click(heading)})
