"""Two files of tensors beside each other: which tensors moved, and by how much; one quantity over many files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from model.analysis.weights import all_statistics
from model.tensors import TensorInfo

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Moved:
    """How far a tensor B is from what it was, A.

    relative: ‖B − A‖ / ‖A‖. cosine: of A and B as vectors. largest: the largest |b − a|, at `place`.
    """

    name: str
    relative: float
    cosine: float
    largest: float
    place: tuple[int, ...]


@dataclass(frozen=True)
class Movement:
    """What two files have in common and what not.

    reshaped: name, shape before and shape after.
    """

    moved: list[Moved]
    only_before: list[str]
    only_after: list[str]
    reshaped: list[tuple[str, tuple[int, ...], tuple[int, ...]]]


def compare(before: Sequence[TensorInfo], after: Sequence[TensorInfo]) -> Movement:
    """Tensors of the same name and shape, in the order of `after`."""
    old, new = ({info.name: info for info in infos} for infos in (before, after))
    common = [(old[name], new[name]) for name in new if name in old]
    return Movement(
        [moved(one, other) for one, other in common if one.shape == other.shape],
        [name for name in old if name not in new],
        [name for name in new if name not in old],
        [(one.name, one.shape, other.shape) for one, other in common if one.shape != other.shape],
    )


def moved(before: TensorInfo, after: TensorInfo) -> Moved:
    """One tensor beside another of the same shape."""
    a, b = before.load().double().reshape(-1), after.load().double().reshape(-1)
    change = (b - a).abs()
    place = int(change.argmax()) if len(change) else 0
    norms = float(a.norm()), float(b.norm())
    return Moved(
        after.name,
        float(change.norm()) / norms[0] if norms[0] else math.inf,
        float(a @ b) / (norms[0] * norms[1]) if all(norms) else math.nan,
        float(change[place]) if len(change) else 0.0,
        tuple(int(index) for index in torch.unravel_index(torch.tensor(place), after.shape)) if len(change) else (),
    )


def moved_per_head(before: TensorInfo, after: TensorInfo, heads: int, columns: bool = False) -> Float[Tensor, " head"]:
    """‖B − A‖ / ‖A‖ of every head's rows of a projection, or of its columns (W_O)."""
    old, new = ((info.load().double().T if columns else info.load().double()) for info in (before, after))
    old, new = (each.reshape(heads, -1) for each in (old, new))
    return (new - old).norm(dim=1) / old.norm(dim=1)


def over_steps(tables: Sequence[tuple[str, Sequence[TensorInfo]]], statistic: str) -> pandas.DataFrame:
    """A statistic (a field of `Statistics`) of every tensor that all files have: a row for each file, a column each."""
    import pandas

    common = set.intersection(*({info.name for info in infos} for _label, infos in tables))
    rows = {}
    for label, infos in tables:
        found = {info.place: getattr(each, statistic) for info, each in all_statistics(infos)}
        rows[label] = {info.name: found[info.place] for info in infos if info.name in common and info.place in found}
    return pandas.DataFrame.from_dict(rows, orient="index")
