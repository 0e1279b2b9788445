"""Axes and scales of figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from viz.figures.colours import PLAIN


@dataclass(frozen=True)
class Axis:
    """Axis of tokens, layers or numbers.

    labels: of rows, columns or places, in their order. side: whose tokens they are, so that one that is pointed at is
    lit in every figure. places: the tokens of that side, where labels are not they in their order; -1 for none. prose:
    labels are words, and neither tokens nor numbers. log, low, high, zero (begin there): of numbers.
    """

    title: str
    labels: Sequence[str] | None = None
    side: str | None = None
    places: Sequence[int] | None = None
    prose: bool | None = None
    log: bool | None = None
    low: float | None = None
    high: float | None = None
    zero: bool | None = None


@dataclass(frozen=True)
class Scale:
    """Colours of values from `low` to `high`, diverging where low is negative; of differences from the pin.

    floor: where it goes by the logarithm, the least size that has a colour, on both sides of 0. colour: of what is
    never negative.
    """

    low: float
    high: float
    title: str = ""
    difference: bool = False
    floor: float | None = None
    colour: str = PLAIN


def scale_of(values: NDArray[np.floating], title: str, *, signed: bool = False, high: float | None = None) -> Scale:
    """Scale that ends at `high`, or at the largest finite size of the values (1 where all are 0); signed: on both
    sides of 0.
    """
    top = largest(values) if high is None else high
    return Scale(-top if signed else 0, top, title)


def largest(values: NDArray[np.floating]) -> float:
    """Largest finite size of the values; 1 where there is none above 0."""
    return float(np.abs(values).max(initial=0.0, where=np.isfinite(values))) or 1.0
