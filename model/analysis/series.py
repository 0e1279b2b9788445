"""Long series of numbers made fit to be drawn: smoothed, and thinned so that spikes survive."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

BLOCK = 128


def smoothed(values: Float[ndarray, points], keep: float) -> Float[ndarray, points]:
    """The exponential moving average s_t = keep·s_{t−1} + (1 − keep)·y_t, divided by 1 − keep^{t+1}, so that the zero
    it begins with does not count (Kingma and Ba, 2015, section 3).

    Raises:
        ValueError: keep is not from 0 to below 1.
    """
    if not 0 <= keep < 1:
        raise ValueError(f"keep ({keep}) must be from 0 to below 1")
    powers = keep ** np.arange(BLOCK + 1)
    # Row t of it weighs what a block holds up to its place t: y_j by (1 − keep)·keep^(t − j).
    age = np.subtract.outer(np.arange(BLOCK), np.arange(BLOCK))
    within = np.where(age >= 0, powers[np.maximum(age, 0)], 0.0) * (1 - keep)
    found = np.empty(len(values))
    last = 0.0
    for first in range(0, len(values), BLOCK):
        block = values[first : first + BLOCK]
        count = len(block)
        part = within[:count, :count] @ block + powers[1 : count + 1] * last
        found[first : first + count], last = part, part[-1]
    return found / (1 - keep ** np.arange(1.0, len(values) + 1))


def outline(
    xs: Float[ndarray, points], ys: Float[ndarray, points], most: int
) -> tuple[Float[ndarray, kept], Float[ndarray, kept]]:
    """At most so many of these points, in their order: the first, the last, and of each of equal parts in between the
    lowest and the highest. What is drawn of them covers what all points would.

    Raises:
        ValueError: most is below 4.
    """
    if most < 4:
        raise ValueError(f"most ({most}) must be at least 4: both ends, a lowest and a highest point")
    if len(ys) <= most:
        return xs, ys
    inner = ys[1:-1]
    size = -(-len(inner) // ((most - 2) // 2))
    starts = np.arange(1, len(ys) - 1, size)
    # The last part is filled up with its last value, which stands before what is filled in: that is never chosen.
    parts = np.pad(inner, (0, len(starts) * size - len(inner)), mode="edge").reshape(-1, size)
    ends = np.array([0, len(ys) - 1])
    places = np.unique(np.concatenate([ends, starts + parts.argmin(axis=1), starts + parts.argmax(axis=1)]))
    return xs[places], ys[places]
