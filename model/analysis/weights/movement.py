"""Movement of a tensor between two files, as a whole or head by head."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from model.checkpoints.tensors import TensorInfo
from model.runtime.file_pages import in_turn

PIECE = 1 << 18  # elements compared together: 2 MB of each tensor in float64


@dataclass(frozen=True)
class Moved:
    """Movement of a tensor from A to B, in float64.

    relative: ‖B − A‖ / ‖A‖; infinite from a tensor of zeros, 0 between two such.
    cosine: A·B / ‖A‖‖B‖; NaN where one is zero. largest: the largest |b − a|, at `place`.
    All are NaN where a difference is not finite, and `place` is the first such. Empty tensors have not moved.
    """

    name: str
    relative: float
    cosine: float
    largest: float
    place: tuple[int, ...]


def moved(before: TensorInfo, after: TensorInfo) -> Moved:
    """Movement between two tensors of the same shape, computed a piece at a time."""
    squares = np.zeros(4)  # of A, of B, of B − A, and A·B
    largest, at, start = 0.0, 0, 0
    for a, b in _pieces(before, after):
        change = b - a
        squares += [float(a @ a), float(b @ b), float(change @ change), float(a @ b)]
        change.abs_()
        if not math.isfinite(top := float(change.max())):
            first = start + int((~change.isfinite()).int().argmax())
            return Moved(after.name, math.nan, math.nan, math.nan, _place(first, after.shape))
        if top > largest:
            largest, at = top, start + int(change.argmax())
        start += len(a)
    one, other, away = (math.sqrt(value) for value in squares[:3])
    place = _place(at, after.shape) if after.elements else ()
    relative = away / one if one else math.inf if away else 0.0
    cosine = min(1.0, max(-1.0, float(squares[3]) / (one * other))) if one and other else math.nan
    return Moved(after.name, relative, cosine, largest, place)


def moved_per_head(
    before: Shaped[Tensor, "*shape"], after: Shaped[Tensor, "*shape"], heads: int, columns: bool = False
) -> Float[Tensor, "number head"]:
    """Relative change and cosine of every head of a projection: its rows of W_Q, W_K or W_V, its columns of W_O.

    heads: number of the projection's heads, fewer where keys and values are shared. columns: whether they lie along the
    second dimension. Else a bias has heads along its only dimension, a matrix cut into more along all but the last.

    Raises:
        ValueError: the dimension is not divisible by the number of heads.
    """
    dimension = int(columns)
    rows = after.shape[dimension : max(dimension + 1, after.dim() - 1)]
    if not rows or math.prod(rows) % heads:
        raise ValueError(f"a tensor of shape {tuple(after.shape)} has no {heads} heads along dimension {dimension}")
    old, new = (_by_head(tensor, heads, dimension) for tensor in (before, after))
    one, other = old.norm(dim=1), new.norm(dim=1)
    return torch.stack([(new - old).norm(dim=1) / one, (old * new).sum(dim=1) / (one * other)])


def _pieces(before: TensorInfo, after: TensorInfo) -> Iterator[tuple[Tensor, Tensor]]:
    old, new = before.load().detach().reshape(-1), after.load().detach().reshape(-1)
    for a, b in zip(in_turn(old.split(PIECE)), in_turn(new.split(PIECE)), strict=True):
        if len(a):
            yield a.double(), b.double()


def _by_head(tensor: Shaped[Tensor, "*shape"], heads: int, dimension: int) -> Float[Tensor, "head weight"]:
    return tensor.detach().double().movedim(dimension, 0).reshape(heads, -1)


def _place(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(coordinate) for coordinate in np.unravel_index(index, shape))
