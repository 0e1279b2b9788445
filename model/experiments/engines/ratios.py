"""Ratio of two measured times, with the interval that noise leaves it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from model.experiments.engines.timing import Times
from model.experiments.rule import Quantity

NOTCH = (
    1.57  # quartile distances / √runs: medians whose notches do not meet differ, at about 95 % (McGill et al., 1978)
)


@dataclass(frozen=True)
class Ratio:
    """Ratio of two medians, and the ends of its interval."""

    value: float
    low: float
    high: float

    def quantity(self, name: str) -> Quantity:
        """Quantity of this name, with its interval."""
        return Quantity(name, (self.value,), interval=(self.low, self.high))


def ratio(times: Times, reference: Times) -> Ratio:
    """Times in units of the reference's."""
    (low, high), (least, most) = notch(times), notch(reference)
    return Ratio(times.median / reference.median, low / most, high / least if least > 0 else math.inf)


def notch(times: Times) -> tuple[float, float]:
    """Interval of a median."""
    half = NOTCH * (times.high - times.low) / times.runs**0.5
    return max(0.0, times.median - half), times.median + half
