"""Quantities made small enough for a thumbnail."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def pooled(maps: Float[Tensor, "map query key"], most: int) -> Float[Tensor, "map row column"]:
    """The maps with at most `most` rows and columns: a cell stands for a block of cells, and has of their values the
    one that is largest in size. All blocks are equal but the last ones, which may be smaller.

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
    return high.masked_fill(high.isinf(), torch.nan)


def _largest_of_blocks(x: Float[Tensor, "map query key"], most: int) -> Float[Tensor, "map row column"]:
    """The largest number of each block; reductions of a whole tensor are several times quicker than torch's pooling."""
    for axis in (1, 2):
        length = x.shape[axis]
        size = -(-length // most)
        missing = -length % size
        padded = F.pad(x, (0, 0, 0, missing) if axis == 1 else (0, missing), value=-torch.inf)
        x = padded.unflatten(axis, (-1, size)).amax(dim=axis + 1)
    return x


def binned(units: Float[Tensor, " unit"], most: int) -> Float[Tensor, " bin"]:
    """The mean of each of at most `most` runs of neighbouring units."""
    return units if len(units) <= most else F.adaptive_avg_pool1d(units[None], most)[0]


def thinned(x: Float[Tensor, "position channel"], rows: int, columns: int) -> Float[Tensor, "row column"]:
    """Every k-th position and channel, so that there are at most so many rows and columns."""
    positions, channels = x.shape
    return x[:: max(1, -(-positions // rows)), :: max(1, -(-channels // columns))]


def mean_norm(x: Float[Tensor, "position d_model"]) -> float:
    """The mean Euclidean norm of the vectors of all positions; those that are NaN, without a counterpart, left out.

    NaN if none is left.
    """
    return float(x.float().norm(dim=-1).nanmean())
