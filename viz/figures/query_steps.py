"""Query steps: from one query's scores to its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import NDArray

from viz.figures.axis import Axis
from viz.figures.figure import Figure


@dataclass(frozen=True, eq=False)
class QuerySteps(Figure):
    """Steps of one query of one head: scores, scaled, biased where positions add to them, masked, weights (key),
    weighted values (key, channel) and their sum; each one's name and formula.

    queries, keys: those that are drawn, with their tokens' places; special: which are special tokens, of queries and of
    keys. masked: of each key. before: the pinned steps in the same order. difference: `steps` are differences from
    them.
    """

    steps: Sequence[NDArray[np.float32]]
    queries: Axis
    keys: Axis
    _: KW_ONLY
    names: Sequence[tuple[str, str]]
    special: tuple[Sequence[bool], Sequence[bool]]
    masked: Sequence[bool]
    before: Sequence[NDArray[np.float32]] = ()
    difference: bool = False
