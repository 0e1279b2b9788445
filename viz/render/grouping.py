"""Pieces of a word as one row, column or place of a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viz.figures.axis import Axis

if TYPE_CHECKING:
    from model.analysis.pieces import Pieces


def groups_on(axis: Axis, groups: Mapping[str, Pieces]) -> Pieces | None:
    """Groups of the tokens on an axis; None where it has others, or none."""
    if axis.side not in ("source", "target") or axis.labels is None or axis.places is not None:
        return None
    of_side, labels = groups.get(axis.side), list(axis.labels)
    if of_side is None or (len(labels) - len(of_side.tokens) not in (0, 1) and labels != of_side.tokens[: len(labels)]):
        return None
    return of_side.of_first(len(labels))


def grouped_axis(axis: Axis, groups: Pieces | None, of_last: bool = False) -> Axis:
    """The axis with a label for each group; of_last: where the axis says more than the tokens, that of the last."""
    if groups is None:
        return axis
    own = list(axis.labels or ())
    labels = [
        own[groups.of(group)[-1]] if of_last else label or own[groups.firsts[group]]
        for group, label in enumerate(groups.labels)
    ]
    return replace(axis, labels=groups.labels if own == groups.tokens else labels)


def place_of(groups: Pieces | None, token: int) -> int:
    """Place of a token on an axis; what is none stays."""
    return token if groups is None or not 0 <= token < len(groups.run_of) else groups.run_of[token]


def first_of(groups: Pieces | None, place: int) -> int:
    """First token of a group; what is none stays."""
    return groups.firsts[place] if groups is not None and 0 <= place < len(groups) else place


def joined_values(
    values: NDArray[Any], rows: Pieces | None, columns: Pieces | None, join: Callable[[Pieces], Callable[..., Any]]
) -> NDArray[Any]:
    """Values (row, column) of groups. join: method of `Pieces` that joins them, on both axes."""
    import torch

    tensor = torch.from_numpy(np.ascontiguousarray(values))
    for groups, axis in ((rows, 0), (columns, 1)):
        if groups is not None:
            tensor = join(groups)(tensor, axis)
    joined: NDArray[Any] = tensor.numpy()
    return joined


def averaged(
    values: NDArray[np.float32], rows: Pieces | None, columns: Pieces | None, summed: bool
) -> NDArray[np.float32]:
    """Means of values (row, column) over the rows and columns of groups; summed: over the columns their sums."""
    of_rows = joined_values(values, rows, None, lambda groups: groups.mean)
    return joined_values(of_rows, None, columns, lambda groups: groups.sum if summed else groups.mean)


def largest(values: NDArray[Any], rows: Pieces | None, columns: Pieces | None) -> NDArray[Any]:
    """Largest value of each row and column of groups; of truths, whether any is."""
    return joined_values(values, rows, columns, lambda groups: groups.largest)
