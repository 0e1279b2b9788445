"""Head grid: every head of an attention as a thumbnail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from viz.figures.axis import Axis
from viz.figures.figure import Figure


@dataclass(frozen=True, eq=False)
class HeadGrid(Figure):
    """Thumbnails (thumbnail, row, column) of heads, each from 0, or from its opposite, to `tops`.

    hidden: cells that are not drawn. states: (row, column), 0 masked, 1 visible, 2 not comparable. order: (layer, head)
    of each thumbnail; head: the framed one. notes: a number of each. waiting: not computed yet. across: thumbnails side
    by side. block: numbers of rows and columns that a cell stands for. difference: values are differences from the pin:
    one that is NaN has no counterpart. floor: of a logarithmic scale. film: kind of attention whose film may take the
    thumbnails' place; empty: none may. best: of each kind of attention the first head in this order, (kind, layer,
    head), and its words, the first kind first; empty where there is one kind, or no such order.
    """

    cells: NDArray[np.float32]
    hidden: NDArray[np.bool_]
    states: NDArray[np.uint8]
    tops: Sequence[float]
    rows: Axis
    columns: Axis
    _: KW_ONLY
    order: Sequence[tuple[int, int]]
    head: tuple[int, int]
    notes: Sequence[str]
    waiting: Sequence[bool]
    across: int
    block: tuple[int, int] = (1, 1)
    difference: bool = False
    floor: float | None = None
    film: str = ""
    best: Sequence[tuple[tuple[str, int, int], str]] = ()
