"""Panels: small matrices side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from viz.figures.axis import Axis, Scale
from viz.figures.figure import Figure


@dataclass(frozen=True, eq=False)
class Panel:
    """Matrix among others: values (row, column), None for a mask; visible, False on hidden cells; changed cells.

    name, note: above it. summed: values are added up over the columns of a group of pieces. scale: none for a mask.
    pinned: it is of the pinned trace, NaN where that has no such token. line: panels of another line begin a new one.
    chosen: a framed row. framed: a framed cell. choose: it can be clicked. joined: what stands between a cell's labels
    where it is pointed at.
    """

    name: str
    rows: Axis
    columns: Axis
    visible: NDArray[np.bool_]
    values: NDArray[np.float32] | None = None
    _: KW_ONLY
    changed: NDArray[np.bool_] | None = None
    note: str = ""
    scale: Scale | None = None
    pinned: bool | None = None
    line: int = 0
    chosen: int | None = None
    framed: Sequence[int] | None = None
    choose: bool | None = None
    joined: str | None = None
    summed: bool = False


@dataclass(frozen=True, eq=False)
class Panels(Figure):
    """Small matrices side by side.

    large: it is the page's large figure, and no higher than the window lets it be. slot: least width of a panel, cell:
    largest of a cell, in CSS pixels. cells: titles of the table's columns for row, column, value and masked, where a
    panel's axes do not say them.
    """

    panels: Sequence[Panel]
    large: bool = False
    slot: int | None = None
    cell: int | None = None
    cells: Sequence[str] = ()
