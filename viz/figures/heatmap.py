"""Heatmap: values of rows and columns as colours, or as lines from tokens to tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viz.figures.axis import Axis, Scale
from viz.figures.compared import Values
from viz.figures.figure import Figure


@dataclass(frozen=True, eq=False)
class Heatmap(Figure):
    """Values (row, column) large, with labels and a colour bar.

    scale: of the values; differences from the pin get one of their own. visible: False on masked cells, 2 on those
    that a threshold hides. tokens: {side, labels, places}, where cells are tokens. block: numbers of tokens that a
    row and a column stand for, if not 1. highest, wanted: CSS pixels of all rows together, where those are thin, or
    the text is short. large: it is the page's large figure, and as high as the window lets it be. square: cells as
    high as wide. column: a framed column. texts: words inside the cells; texts_title: of their column in the table.
    ranked: columns are ranks, of which a narrow window shows the first, so that words stay legible. valued: below
    the words stand the values. cell_titles: of the table's columns for row, column and value, where axes and scale are
    called otherwise. unchanged: the caption's note where no value differs from the pinned one.
    """

    values: Values
    rows: Axis
    columns: Axis
    scale: Scale
    visible: NDArray[np.bool_] | NDArray[np.uint8] | None = None
    column: int = -1
    tokens: Mapping[str, Any] | None = None
    block: tuple[int, int] | None = None
    highest: int | None = None
    wanted: int | None = None
    large: bool = False
    square: bool = False
    texts: Sequence[str] | None = None
    ranked: bool | None = None
    valued: bool | None = None
    texts_title: str = ""
    cell_titles: Sequence[str] = ()
    unchanged: str = ""


@dataclass(frozen=True, eq=False)
class Lines(Heatmap):
    """Heatmap's values as lines from tokens to tokens, in a colour (red, green, blue)."""

    _: KW_ONLY
    colour: Sequence[int]
