"""Statistics of a file's tensor: mean, deviation, range, zeros, values that are not finite, a histogram.

All are taken of a piece of the tensor while it is in the processor's cache, so that memory is read once; numpy sums
such a piece by a single call on one core, where torch would wake its threads for each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from model.checkpoints.formats.safetensors import DTYPES
from model.checkpoints.tensors import TensorInfo
from model.runtime.file_pages import in_turn

PIECE = 1 << 17  # elements looked at together: 512 KB of float32, which a second-level cache holds
BLOCK = 1 << 20  # elements of another type that are converted together
ROW = 1 << 10  # elements summed in float32
ONES = np.ones(ROW, dtype=np.float32)
SAMPLE = 1 << 16  # elements of a histogram, at most
BINS = 64
TOGETHER = 1 << 13  # elements of the sample that are counted together, while they are in the first-level cache
# A piece whose mean is this many times its deviation, or whose squares come near the ends of float32's range, is
# summed again, exactly: Σ x² − n·mean² has lost that many digits.
MEAN_OVER_DEVIATION = 4.0
SQUARES = 1e-30, 1e38
ORDINARY = 1e-100, 1e100  # largest values whose squares, and sums of them, float64 holds
REAL = frozenset(DTYPES.values()) - {"complex64"}
SMALL = (torch.float16, torch.bfloat16, torch.bool, torch.int8, torch.uint8, torch.int16, torch.uint16)

Values = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Statistics:
    """Statistics of the finite values of a tensor; NaN where there are none.

    deviation: of the population, √(mean of (x − mean)²). zeros: share of the finite values that are 0 or −0. nan,
    infinite: numbers of such values. counts: histogram of `sampled` finite values, taken at equal distances, in equal
    bins from their least, `low`, to their greatest, `high`; one bin where all are the same, none without any.
    """

    mean: float
    deviation: float
    minimum: float
    maximum: float
    zeros: float
    nan: int
    infinite: int
    counts: tuple[int, ...]
    low: float
    high: float
    sampled: int


def readable(info: TensorInfo) -> bool:
    """True if a tensor's type is one of real numbers that torch computes with."""
    return info.values in REAL


def first_of_places(infos: Sequence[TensorInfo]) -> list[TensorInfo]:
    """First tensor of each place of the file."""
    places: dict[str, TensorInfo] = {}
    for info in infos:
        places.setdefault(info.place, info)
    return list(places.values())


def statistics(tensor: Tensor) -> Statistics:
    """Statistics of a tensor of any shape and type of real numbers, in one reading; if not contiguous, it is copied.

    Means and deviations of pieces are combined after Chan, Golub and LeVeque (1979).

    Raises:
        ValueError: the values are complex numbers.
    """
    if tensor.is_complex():
        raise ValueError(f"a tensor of {tensor.dtype} has no least and greatest value: give real numbers")
    flat = tensor.detach().reshape(-1)
    parts = _Parts(min(PIECE, len(flat)))
    step = sample_step(len(flat))
    start = 0
    with np.errstate(all="ignore"):  # sums that overflow are taken again
        for block in _blocks(flat):
            for first in range(0, len(block), PIECE):
                parts.add(block[first : first + PIECE], -start % step, step)
                start += min(PIECE, len(block) - first)
    return parts.together()


def sample_step(elements: int) -> int:
    """Distance between two elements of the histogram's sample.

    It has no divisor in common with the number of elements: else the sample of a matrix would miss some columns.
    """
    step = -(-elements // SAMPLE)
    while step > 1 and math.gcd(step, elements) > 1:
        step += 1
    return max(1, step)


def histogram(sample: Float[np.ndarray, " count"]) -> tuple[tuple[int, ...], float, float]:
    """Counts of values in equal bins, and the least and greatest value, between which these lie."""
    if not len(sample):
        return (), math.nan, math.nan
    low, high = float(sample.min()), float(sample.max())
    if low == high:
        return (len(sample),), low, high
    ends, exponent = _scaled(np.array([low, high]), max(abs(low), abs(high)))
    per_value = BINS / (ends[1] - ends[0])
    totals = np.zeros(BINS + 1, dtype=np.int64)
    for first in range(0, len(sample), TOGETHER):
        places = sample[first : first + TOGETHER].astype(np.float64)
        if exponent:
            np.ldexp(places, -exponent, out=places)
        places -= ends[0]
        places *= per_value
        totals += np.bincount(places.astype(np.intp), minlength=BINS + 1)
    totals[-2] += totals[-1]  # the greatest value belongs to the last bin
    return tuple(totals[:-1].tolist()), low, high


class _Parts:
    """Statistics of the pieces of a tensor."""

    def __init__(self, largest: int) -> None:
        self.sizes: list[int] = []
        self.means: list[float] = []
        self.deviations: list[float] = []
        self.samples: list[Values] = []
        self.minimum, self.maximum = math.inf, -math.inf
        self.zeros = self.nan = self.infinite = 0
        self.equal = np.empty(largest, dtype=bool)

    def add(self, values: Values, first: int, step: int) -> None:
        """Measure a piece, of which every step-th element from `first` on belongs to the histogram's sample."""
        sample = values[first::step]
        low, high = float(values.min()), float(values.max())  # NaN where one is
        if not (math.isfinite(low) and math.isfinite(high)):
            nan, finite = int(np.isnan(values).sum()), np.isfinite(values)
            sample, values = sample[finite[first::step]], values[finite]
            self.nan, self.infinite = self.nan + nan, self.infinite + len(finite) - nan - len(values)
            if not len(values):
                return
            low, high = float(values.min()), float(values.max())
        self.samples.append(sample.copy())
        self.minimum, self.maximum = min(self.minimum, low), max(self.maximum, high)
        if low <= 0 <= high:
            equal = np.equal(values, 0, out=self.equal[: len(values)])
            if equal.any():  # in a trained matrix none is: that is seen in a third of the time of counting
                self.zeros += int(np.count_nonzero(equal))
        mean, deviation = _mean_and_deviation(values, _total(values) / len(values), max(abs(low), abs(high)))
        self.sizes.append(len(values))
        self.means.append(mean)
        self.deviations.append(deviation)

    def together(self) -> Statistics:
        """Statistics of all pieces together."""
        count = sum(self.sizes)
        if not count:
            none = math.nan
            return Statistics(none, none, none, none, none, self.nan, self.infinite, (), none, none, 0)
        shares = [size / count for size in self.sizes]
        mean = math.fsum(share * mean for share, mean in zip(shares, self.means, strict=True))
        roots = [math.sqrt(share) for share in shares]
        within = (root * deviation for root, deviation in zip(roots, self.deviations, strict=True))
        between = (root * (part - mean) for root, part in zip(roots, self.means, strict=True))
        counts, low, high = histogram(np.concatenate(self.samples))
        return Statistics(
            mean=mean,
            deviation=math.hypot(*within, *between),
            minimum=self.minimum,
            maximum=self.maximum,
            zeros=self.zeros / count,
            nan=self.nan,
            infinite=self.infinite,
            counts=counts,
            low=low,
            high=high,
            sampled=sum(counts),
        )


def _total(values: Values) -> float:
    """Sum of values; of float32 by a product of rows with ones, which takes a third of the time of numpy's sum and
    rounds no worse, as the sums of rows are added in float64.
    """
    if values.dtype != np.float32:
        return float(np.add.reduce(values))
    whole = len(values) - len(values) % ROW
    total = np.add.reduce(values[:whole].reshape(-1, ROW) @ ONES, dtype=np.float64)
    return float(total + np.add.reduce(values[whole:], dtype=np.float64) if whole < len(values) else total)


def _mean_and_deviation(values: Values, mean: float, largest: float) -> tuple[float, float]:
    count, squares = len(values), float(np.dot(values, values))
    spread = squares / count - mean * mean
    least, most = SQUARES
    if least < squares < most and spread * MEAN_OVER_DEVIATION**2 > mean * mean:
        return mean, math.sqrt(spread)
    if not largest:
        return 0.0, 0.0
    exact, exponent = _scaled(values.astype(np.float64), largest)
    exact_mean = exact.mean()
    away = exact - exact_mean
    return math.ldexp(float(exact_mean), exponent), math.ldexp(math.sqrt(float(np.dot(away, away)) / count), exponent)


def _scaled(values: Values, largest: float) -> tuple[Values, int]:
    """Values divided by a power of two so that no square leaves the range, and its exponent: 0 for ordinary values."""
    least, most = ORDINARY
    if least < largest < most:
        return values, 0
    exponent = math.frexp(largest)[1]
    return np.ldexp(values, -exponent), exponent


def _blocks(flat: Tensor) -> Iterator[Values]:
    """Elements as numpy's float32 or float64: without a copy where they have that type, else converted in blocks."""
    small = flat.dtype in SMALL or (flat.dtype.is_floating_point and flat.dtype != torch.float64)
    for block in in_turn(flat.split(BLOCK)):
        yield block.cpu().to(torch.float32 if small else torch.float64).numpy()
