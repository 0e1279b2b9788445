"""A tensor as a screen can show it: an exact histogram, and a matrix in blocks."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Float32, Int64, Shaped
from torch import Tensor

PIECE = 1 << 22  # elements that are converted at a time


def exact_histogram(tensor: Shaped[Tensor, "*shape"], bins: int, low: float, high: float) -> Int64[Tensor, " bins"]:
    """How many of all finite values lie in each of the equal bins from low to high; those outside are left out."""
    counts = torch.zeros(bins, dtype=torch.float64)
    for piece in tensor.detach().reshape(-1).split(PIECE):
        values = piece.to("cpu", torch.float32)
        # histc leaves out NaN and what is outside; it counts in float32, exact up to 2²⁴, and a piece has fewer.
        counts += torch.histc(values, bins, low, high).double()
    return counts.long()


def as_matrix(tensor: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "row column"]:
    """A matrix as it is, a vector as one row; of more dimensions the first against all others."""
    if tensor.ndim < 2:
        return tensor.reshape(1, -1)
    return tensor.reshape(tensor.shape[0], -1)


def in_blocks(
    matrix: Shaped[Tensor, "row column"], most: tuple[int, int], largest: bool = False
) -> tuple[Float32[Tensor, "block_row block_column"], tuple[int, int]]:
    """The mean of each block, or its largest |x|, and how many rows and columns a block has: the fewest with which
    there are no more than `most` blocks. The last blocks may be smaller. NaN where a value of the block is not finite.
    """
    rows, columns = matrix.shape
    if not rows * columns:
        return torch.zeros(rows, columns), (1, 1)
    size = max(1, math.ceil(rows / most[0])), max(1, math.ceil(columns / most[1]))
    # Bands of whole blocks: a converted copy of the matrix would take as much memory again.
    height = size[0] * max(1, PIECE // max(1, columns * size[0]))
    bands = [_pooled(band.detach().to("cpu", torch.float32), size, largest) for band in matrix.split(height)]
    made = torch.cat(bands)
    return made.masked_fill(~made.isfinite(), math.nan), size


def _pooled(
    band: Float[Tensor, "row column"], size: tuple[int, int], largest: bool
) -> Float[Tensor, "block_row block_column"]:
    if largest:
        return torch.nn.functional.max_pool2d(band.abs()[None], size, ceil_mode=True)[0]
    return band if size == (1, 1) else torch.nn.functional.avg_pool2d(band[None], size, ceil_mode=True)[0]
