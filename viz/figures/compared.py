"""Numbers beside those of a pinned input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Compared:
    """Values of now and, on the same rows and columns, those of the pinned input.

    before: NaN at tokens that the pinned text does not have; None where the pinned model has nothing of this name and
    shape, or nothing is pinned.
    """

    now: NDArray[np.float32]
    before: NDArray[np.float32] | None = None

    @property
    def difference(self) -> NDArray[np.float32]:
        """Now minus before: infinite where now is not finite, NaN where the pinned one has no counterpart."""
        now = np.asarray(self.now, np.float32)
        if self.before is None:
            return np.full(now.shape, np.nan, np.float32)
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(now), now - self.before, np.float32(np.inf))


Values = NDArray[np.float32] | Compared


def of_now(values: Values) -> NDArray[np.float32]:
    """Values of now, compared or not."""
    return values.now if isinstance(values, Compared) else values
