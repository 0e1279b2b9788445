"""Tokens as vectors: nearest neighbours, their places on a plane, groups of channels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from model.runtime.device import exact


def nearest(
    matrix: Float[Tensor, "vocabulary d_model"], token: int, count: int
) -> tuple[Int[Tensor, found], Float[Tensor, found]]:
    """Ids of the `count` other tokens whose rows have the largest cosine with that of `token`, and these cosines.

    A row of length 0 has cosine 0 with every other.
    """
    rows = matrix.detach().float()
    lengths = rows.norm(dim=-1).clamp(min=1e-12)
    cosines = (rows @ rows[token]) / (lengths * lengths[token])
    cosines[token] = -torch.inf
    best = cosines.topk(min(count, len(matrix) - 1))
    return best.indices, best.values


@dataclass(frozen=True)
class Plane:
    """Plane through the mean of a set of vectors along the two directions in which they differ most.

    centre: (d_model). directions: (2, d_model), of length 1. shares: of the variance along each; 0 where there is none.
    """

    centre: Tensor
    directions: Tensor
    shares: tuple[float, float]

    def project(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch 2"]:
        """Coordinates of vectors on the plane, in float64."""
        return (exact(x) - self.centre) @ self.directions.T


def principal_plane(x: Float[Tensor, "count d_model"]) -> Plane:
    """Principal component analysis (Pearson, 1901) by the singular values of x − mean, in float64.

    The sign of a direction is that of its largest coordinate, so that the same vectors give the same picture.
    """
    x = exact(x)
    centre = x.mean(dim=0)
    _left, values, right = torch.linalg.svd(x - centre, full_matrices=False)
    directions = torch.zeros(2, x.shape[1], dtype=torch.float64, device=x.device)
    directions[: min(2, len(right))] = right[:2]
    largest = directions.gather(1, directions.abs().argmax(dim=1, keepdim=True))
    directions = directions * torch.where(largest < 0, -1.0, 1.0)
    variances = values**2
    total = float(variances.sum())
    # The rounding errors of vectors that are all the same are no spread.
    spread = total > 1e-24 * max(1.0, float(x.square().sum()))
    first, second = [*variances[:2].tolist(), 0.0, 0.0][:2]
    return Plane(centre, directions, (first / total, second / total) if spread else (0.0, 0.0))


def in_groups(x: Float[Tensor, "position channel"], most: int) -> tuple[Float[Tensor, "position group"], int]:
    """Mean of each group of neighbouring channels, and the size of a group: the least that gives at most `most` groups.

    The last group may be smaller; its mean is that of the channels it has.
    """
    size = -(-x.shape[1] // most)
    groups = x.split(size, dim=1)
    return torch.stack([group.mean(dim=1) for group in groups], dim=1), size
