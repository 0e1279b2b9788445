"""Smaller versions of quantities: maps for thumbnails, series for curves, tensors for histograms and heatmaps."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Int64, Shaped
from numpy import ndarray
from torch import Tensor

from model.runtime.file_pages import in_turn


def pooled(maps: Float[Tensor, "map query key"], most: int) -> Float[Tensor, "map row column"]:
    """Maps with at most `most` rows and columns: a cell stands for a block of cells, and has of their values the one
    that is largest in size. All blocks are equal but the last ones, which may be smaller.

    NaN, a cell that is masked or has no counterpart, is left out; where all are NaN it stays.
    """
    if max(maps.shape[-2:]) <= most:
        return maps
    if maps.numel() and float(maps.amin()) >= 0:  # no NaN and nothing negative, as in most maps: one pass will do
        return _largest_of_blocks(maps, most)
    unknown = maps.isnan()
    high = _largest_of_blocks(maps.masked_fill(unknown, -torch.inf), most)
    if bool((maps < 0).any()):
        low = -_largest_of_blocks((-maps).masked_fill(unknown, -torch.inf), most)
        high = torch.where(low.abs() > high.abs(), low, high)
    known = _largest_of_blocks((~unknown).to(maps.dtype), most) > 0
    return high.masked_fill(~known, torch.nan)


def _largest_of_blocks(x: Float[Tensor, "map query key"], most: int) -> Float[Tensor, "map row column"]:
    """Largest number of each block; reductions of a whole tensor are several times quicker than torch's pooling."""
    for axis in (1, 2):
        length = x.shape[axis]
        size = -(-length // most)
        missing = -length % size
        padded = F.pad(x, (0, 0, 0, missing) if axis == 1 else (0, missing), value=-torch.inf)
        x = padded.unflatten(axis, (-1, size)).amax(dim=axis + 1)
    return x


def binned(units: Float[Tensor, " unit"], most: int) -> Float[Tensor, " bin"]:
    """Mean of each of at most `most` runs of neighbouring units."""
    return units if len(units) <= most else F.adaptive_avg_pool1d(units[None], most)[0]


def thinned(x: Float[Tensor, "position channel"], rows: int, columns: int) -> Float[Tensor, "row column"]:
    """Numbers of every k-th position and channel, so that there are at most so many rows and columns."""
    positions, channels = x.shape
    return x[:: max(1, -(-positions // rows)), :: max(1, -(-channels // columns))]


def mean_norm(x: Float[Tensor, "position d_model"]) -> float:
    """Mean Euclidean norm of the vectors of all positions without those that are NaN; NaN if none is left."""
    return float(x.float().norm(dim=-1).nanmean())


# Long series of numbers, smoothed, and thinned so that spikes survive.

BLOCK = 128


def smoothed(values: Float[ndarray, points], keep: float) -> Float[ndarray, points]:
    """Exponential moving average s_t = keep·s_{t−1} + (1 − keep)·y_t, divided by 1 − keep^{t+1}, so that the zero it
    begins with does not count (Kingma and Ba, 2015, section 3).

    Raises:
        ValueError: keep is not from 0 to below 1.
    """
    if not 0 <= keep < 1:
        raise ValueError(f"keep ({keep}) must be from 0 to below 1")
    powers = keep ** np.arange(BLOCK + 1)
    # Row t weighs the numbers of a block up to place t: y_j by (1 − keep)·keep^(t − j).
    age = np.subtract.outer(np.arange(BLOCK), np.arange(BLOCK))
    within = np.where(age >= 0, powers[np.maximum(age, 0)], 0.0) * (1 - keep)
    averages = np.empty(len(values))
    last = 0.0
    for first in range(0, len(values), BLOCK):
        block = values[first : first + BLOCK]
        count = len(block)
        part = within[:count, :count] @ block + powers[1 : count + 1] * last
        averages[first : first + count], last = part, part[-1]
    return averages / (1 - keep ** np.arange(1.0, len(values) + 1))


def outline(
    xs: Float[ndarray, points], ys: Float[ndarray, points], most: int
) -> tuple[Float[ndarray, kept], Float[ndarray, kept]]:
    """At most `most` of these points, in their order: the first, the last, and of each of equal parts in between the
    lowest and the highest. A line through them covers the line through all.

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


# Tensors of any size on a screen: an exact histogram, and a matrix in blocks.

PIECE = 1 << 22  # elements converted at a time


def exact_histogram(tensor: Shaped[Tensor, "*shape"], bins: int, low: float, high: float) -> Int64[Tensor, " bins"]:
    """Number of finite values in each of the equal bins from low to high; those outside are left out."""
    counts = torch.zeros(bins, dtype=torch.float64)
    for piece in in_turn(tensor.detach().reshape(-1).split(PIECE)):
        values = piece.to("cpu", torch.float32)
        # histc leaves out NaN and what is outside; it counts in float32, exact up to 2²⁴, and a piece has fewer.
        counts += torch.histc(values, bins, low, high).double()
    return counts.long()


def as_matrix(tensor: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "row column"]:
    """Matrix of a tensor: of a vector one row; of more dimensions the first against all others."""
    if tensor.ndim < 2:
        return tensor.reshape(1, -1)
    return tensor.reshape(tensor.shape[0], -1)


def in_blocks(
    matrix: Shaped[Tensor, "row column"], most: tuple[int, int], largest: bool = False
) -> tuple[Float32[Tensor, "block_row block_column"], tuple[int, int]]:
    """Mean of each block, or its largest |x|, and the rows and columns of a block: the fewest with which there are at
    most `most` (rows, columns) of blocks. The last blocks may be smaller. NaN where a value of the block is not finite.
    """
    rows, columns = matrix.shape
    if not rows * columns:
        return torch.zeros(rows, columns), (1, 1)
    size = max(1, math.ceil(rows / most[0])), max(1, math.ceil(columns / most[1]))
    # Bands of whole blocks: a converted copy of the matrix would take as much memory again.
    height = size[0] * max(1, PIECE // max(1, columns * size[0]))
    bands = [_pooled(band.detach().to("cpu", torch.float32), size, largest) for band in in_turn(matrix.split(height))]
    blocks = torch.cat(bands)
    return blocks.masked_fill(~blocks.isfinite(), math.nan), size


def _pooled(
    band: Float[Tensor, "row column"], size: tuple[int, int], largest: bool
) -> Float[Tensor, "block_row block_column"]:
    if largest:
        return F.max_pool2d(band.abs()[None], size, ceil_mode=True)[0]
    return band if size == (1, 1) else F.avg_pool2d(band[None], size, ceil_mode=True)[0]
