"""Singular values of a matrix and what they say: how many directions it uses, and how unevenly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Leading:
    """The largest singular values and their vectors: matrix ≈ left · diag(values) · right."""

    values: Float[Tensor, " count"]
    left: Float[Tensor, "rows count"]
    right: Float[Tensor, "count columns"]


def as_matrix(tensor: Float[Tensor, "rows *rest"]) -> Float[Tensor, "rows columns"]:
    """A tensor of more than two dimensions as (first, rest), as a convolution's kernel is seen (Miyato et al., 2018).

    Raises:
        ValueError: it has fewer than two dimensions, or no element.
    """
    if tensor.ndim < 2 or not tensor.numel():
        raise ValueError(f"a tensor of shape {tuple(tensor.shape)} has no singular values: give a matrix with elements")
    return tensor.detach().reshape(len(tensor), -1)


def singular_values(matrix: Float[Tensor, "rows *rest"]) -> Float[Tensor, " count"]:
    """All of them, the largest first, in float64: the roots of the eigenvalues of the smaller of AᵀA and A Aᵀ.

    More than two dimensions are taken as (first, rest).

    Raises:
        ValueError: fewer than two dimensions, no element, or one that is not finite.
    """
    return torch.linalg.eigvalsh(_gram(matrix)).flip(0).clamp(min=0).sqrt()


def leading(matrix: Float[Tensor, "rows *rest"], count: int) -> Leading:
    """The `count` largest singular values with their vectors, in float64, from the eigenvectors of the same matrix.

    Raises:
        ValueError: as of `singular_values`.
    """
    squares, vectors = torch.linalg.eigh(_gram(matrix))
    values = squares.flip(0)[:count].clamp(min=0).sqrt()
    small = vectors.flip(1)[:, :count]
    wide = as_matrix(matrix).double()
    tall = wide.shape[0] >= wide.shape[1]
    large = (wide if tall else wide.T) @ small / values.clamp(min=torch.finfo(torch.float64).tiny)
    return Leading(values, large, small.T) if tall else Leading(values, small, large.T)


def effective_rank(values: Float[Tensor, " count"]) -> float:
    """exp(−Σ p ln p) with p = σ / Σ σ (Roy and Vetterli, 2007); 0 of a matrix of zeros."""
    total = float(values.sum())
    return math.exp(float(torch.special.entr(values.double() / total).sum())) if total else 0.0


def stable_rank(values: Float[Tensor, " count"]) -> float:
    """Σ σ² / σ₁², at most the rank (Rudelson and Vershynin, 2007); 0 of a matrix of zeros."""
    top = float(values.max())
    return float((values.double() / top).square().sum()) if top else 0.0


def condition(values: Float[Tensor, " count"]) -> float:
    """σ₁ / σₙ, infinite where the least is 0."""
    least = float(values.min())
    return float(values.max()) / least if least else math.inf


def _gram(matrix: Tensor) -> Float[Tensor, "side side"]:
    """The smaller of AᵀA and A Aᵀ, in float64."""
    wide = as_matrix(matrix).double()
    if not bool(wide.isfinite().all()):
        raise ValueError("a matrix with NaN or infinite elements has no singular values")
    return wide.T @ wide if wide.shape[0] >= wide.shape[1] else wide @ wide.T
