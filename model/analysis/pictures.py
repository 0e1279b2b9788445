"""Quantities made small enough for a thumbnail."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def pooled(maps: Float[Tensor, "map query key"], most: int) -> Float[Tensor, "map row column"]:
    """The maps with at most `most` rows and columns: each cell has of those it stands for the one largest in size.

    NaN, a cell that is masked or has no counterpart, is left out; where all are NaN it stays.
    """
    size = [min(most, length) for length in maps.shape[-2:]]
    if size == list(maps.shape[-2:]):
        return maps
    known = ~maps.isnan()
    x = maps.masked_fill(~known, 0.0)
    found = F.adaptive_max_pool2d(x, size)
    if bool((x < 0).any()):
        lowest = -F.adaptive_max_pool2d(-x, size)
        found = torch.where(found >= -lowest, found, lowest)
    return found.masked_fill(F.adaptive_max_pool2d(known.to(x.dtype), size) == 0, torch.nan)


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
