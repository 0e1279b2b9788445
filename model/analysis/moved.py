"""Two files of tensors beside each other: which tensors moved, and by how much; one quantity over many files."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from model.analysis.weights import BLOCK, Statistics, readable, statistics
from model.tensors import TensorInfo

if TYPE_CHECKING:
    import pandas

# What `over_steps` can show: every number of `Statistics`.
OVER_STEPS = tuple(field.name for field in dataclasses.fields(Statistics) if field.type in ("float", "int"))


@dataclass(frozen=True)
class Moved:
    """How far a tensor B is from what it was, A, in float64.

    relative: ‖B − A‖ / ‖A‖; infinite from a tensor of zeros, 0 between two such.
    cosine: A·B / ‖A‖‖B‖; NaN where one is zero. largest: the largest |b − a|, at `place`.
    All are NaN where a value is NaN or infinite, and place is that of the first such. Empty tensors have not moved.
    """

    name: str
    relative: float
    cosine: float
    largest: float
    place: tuple[int, ...]


@dataclass(frozen=True)
class Movement:
    """What two files have in common and what not.

    moved: a row for each tensor of the same name and shape, in the order of the second file.
    reshaped: name, shape before and shape after. unreadable: names whose types torch cannot compute with.
    """

    moved: list[Moved]
    only_before: list[str]
    only_after: list[str]
    reshaped: list[tuple[str, tuple[int, ...], tuple[int, ...]]]
    unreadable: list[str]


def compare(before: Sequence[TensorInfo], after: Sequence[TensorInfo]) -> Movement:
    """Every tensor of two files; names are what makes two of them one."""
    pairs = list(common(before, after))
    old, new = ({info.name for info in infos} for infos in (before, after))
    return Movement(
        [moved(one, other) for one, other in pairs if one.shape == other.shape and readable(one) and readable(other)],
        [info.name for info in before if info.name not in new],
        [info.name for info in after if info.name not in old],
        [(one.name, one.shape, other.shape) for one, other in pairs if one.shape != other.shape],
        [one.name for one, other in pairs if not (readable(one) and readable(other))],
    )


def common(before: Sequence[TensorInfo], after: Sequence[TensorInfo]) -> Iterator[tuple[TensorInfo, TensorInfo]]:
    """Tensors of the same name, in the order of the second file."""
    old = {info.name: info for info in before}
    return ((old[info.name], info) for info in after if info.name in old)


def moved(before: TensorInfo, after: TensorInfo) -> Moved:
    """One tensor beside another of the same shape, a piece at a time."""
    squares = np.zeros(4)  # of A, of B, of B − A, and A·B
    largest, at, start = 0.0, 0, 0
    for a, b in _pieces(before, after):
        change = b - a
        squares += [float(a @ a), float(b @ b), float(change @ change), float(a @ b)]
        change.abs_()
        if not math.isfinite(top := float(change.max())):
            wrong = start + int((~change.isfinite()).int().argmax())
            return Moved(after.name, math.nan, math.nan, math.nan, _place(wrong, after.shape))
        if top > largest:
            largest, at = top, start + int(change.argmax())
        start += len(a)
    one, other, away = (math.sqrt(value) for value in squares[:3])
    place = _place(at, after.shape) if after.elements else ()
    relative = away / one if one else math.inf if away else 0.0
    cosine = min(1.0, max(-1.0, float(squares[3]) / (one * other))) if one and other else math.nan
    return Moved(after.name, relative, cosine, largest, place)


def moved_per_head(
    before: TensorInfo, after: TensorInfo, heads: int, columns: bool = False
) -> Float[Tensor, "number head"]:
    """Relative change and cosine of every head of a projection: its rows of W_Q, W_K or W_V, its columns of W_O.

    columns: whether heads lie along the second dimension. heads: those that the projection has, its own where keys
    and values are shared. A bias has heads along its only dimension.

    Raises:
        ValueError: the dimension is not divisible by the number of heads.
    """
    dimension = int(columns)
    if len(after.shape) <= dimension or after.shape[dimension] % heads:
        raise ValueError(f"{after.name} of shape {after.shape} has no {heads} heads along dimension {dimension}")
    old, new = (_by_head(info.load(), heads, dimension) for info in (before, after))
    one, other = old.norm(dim=1), new.norm(dim=1)
    return torch.stack([(new - old).norm(dim=1) / one, (old * new).sum(dim=1) / (one * other)])


def over_steps(tables: Sequence[tuple[str, Sequence[TensorInfo]]], statistic: str) -> pandas.DataFrame:
    """One statistic of every tensor that all files have: a row for each file, by its label, a column for each tensor.

    Raises:
        ValueError: `statistic` is none of `OVER_STEPS`.
    """
    import pandas

    if statistic not in OVER_STEPS:
        raise ValueError(f"statistic ({statistic!r}) must be one of {', '.join(OVER_STEPS)}")
    shared = [{info.name for info in infos if readable(info)} for _label, infos in tables]
    names = [info.name for info in tables[0][1] if all(info.name in each for each in shared)] if tables else []
    rows = [list(_of_names(infos, names, statistic)) for _label, infos in tables]
    return pandas.DataFrame(rows, index=[label for label, _infos in tables], columns=names)


def _of_names(infos: Sequence[TensorInfo], names: Sequence[str], statistic: str) -> Iterator[float]:
    """The statistic of these tensors, each place of the file read once."""
    every = {info.name: info for info in infos}
    known: dict[str, float] = {}
    for name in names:
        place = every[name].place
        if place not in known:
            known[place] = getattr(statistics(every[name].load()), statistic)
        yield known[place]


def _pieces(before: TensorInfo, after: TensorInfo) -> Iterator[tuple[Tensor, Tensor]]:
    old, new = before.load().detach().reshape(-1), after.load().detach().reshape(-1)
    for a, b in zip(old.split(BLOCK), new.split(BLOCK), strict=True):
        if len(a):
            yield a.double(), b.double()


def _by_head(tensor: Shaped[Tensor, "*shape"], heads: int, dimension: int) -> Float[Tensor, "head weight"]:
    return tensor.detach().double().movedim(dimension, 0).reshape(heads, -1)


def _place(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(each) for each in np.unravel_index(index, shape))
