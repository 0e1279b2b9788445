"""Singular values of a matrix, and numbers derived from them: effective rank, stable rank, condition.

They are the roots of the eigenvalues λ of G, the smaller of AᵀA and A Aᵀ. An error of c·λ₁ in G becomes a relative
error of c·λ₁/2λ in σ. G in float64 (c ≈ 1e-16) thus loses nothing that float32 weights hold. G in float32 (c ≈ 1e-8,
measured) is twice as fast, and used for long matrices whose least λ is so large that every σ has an error below 1e-4,
and whose eighth is so large that the first eight have one below 1e-6. The eigenvalues are numpy's, in float64: its
OpenBLAS takes 30 ms for a G of 768 columns where torch's MKL takes 50 (measured on one core of an AMD Zen 4).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import Float
from threadpoolctl import ThreadpoolController
from torch import Tensor

from model.analysis.weights.statistics import readable
from model.checkpoints.tensors import TensorInfo
from model.runtime.file_pages import in_turn
from model.runtime.memory import ledger

LEAST, EIGHTH = 5e-4, 0.02  # eigenvalues, as shares of the largest, from which on float32 will do
PIECE = 1 << 20  # elements that are converted and multiplied together
VALUES, VECTORS = 3, 5  # numbers in float64 for each two columns: G, its copies, the vectors and the work of LAPACK
ORDINARY = 1e-9, 1e9  # largest elements whose squares, and sums of them, float32 holds


@dataclass(frozen=True)
class Leading:
    """Largest singular values and their vectors: matrix ≈ left · diag(values) · right."""

    values: Float[Tensor, " count"]
    left: Float[Tensor, "rows count"]
    right: Float[Tensor, "count columns"]


def has_spectrum(info: TensorInfo) -> bool:
    """True if a tensor has two or more dimensions, floating-point numbers, and elements."""
    return (
        readable(info) and getattr(torch, info.values).is_floating_point and len(info.shape) > 1 and info.elements > 0
    )


def as_matrix(tensor: Float[Tensor, "*shape"]) -> Float[Tensor, "rows columns"]:
    """Matrix (first, rest) of a tensor of two or more dimensions, as of a convolution's kernel (Miyato et al., 2018).

    Raises:
        ValueError: the tensor has fewer than two dimensions, or no element.
    """
    if tensor.ndim < 2 or not tensor.numel():
        raise ValueError(f"a tensor of shape {tuple(tensor.shape)} has no singular values: give a matrix with elements")
    return tensor.detach().reshape(len(tensor), -1)


def singular_values(matrix: Float[Tensor, "*shape"]) -> Float[Tensor, " count"]:
    """All singular values, the largest first, in float64. More than two dimensions are taken as (first, rest).

    Raises:
        ValueError: the tensor has fewer than two dimensions, no element, or one that is not finite.
    """
    tall, top = _tall(as_matrix(matrix))
    if not top:
        return torch.zeros(tall.shape[1], dtype=torch.float64)
    with _room_for(tall, VALUES):
        squares = _quick_squares(tall, top) if tall.dtype != torch.float64 else None
        if squares is None:
            squares = _eigenvalues(_gram(tall, torch.float64, top))
    return squares.flip(0).clamp(min=0).sqrt() * _unit(top)


def leading(matrix: Float[Tensor, "*shape"], count: int) -> Leading:
    """The `count` largest singular values with their vectors, in float64, from the eigenvectors of G.

    The vector on the longer side of a value of 0 is 0.

    Raises:
        ValueError: see `singular_values`.
    """
    wide = as_matrix(matrix)
    tall, top = _tall(wide)
    with _room_for(tall, VECTORS):
        squares, vectors = torch.linalg.eigh(_gram(tall, torch.float64, top))
    values, short = squares.flip(0)[:count].clamp(min=0).sqrt() * _unit(top), vectors.flip(1)[:, :count].clone()
    long = torch.cat([part.double() @ short for part in _pieces(tall)])
    long = torch.where(values > 0, long / values, 0.0)
    return Leading(values, long, short.T) if len(tall) == len(wide) else Leading(values, short, long.T)


def effective_rank(values: Float[Tensor, " count"]) -> float:
    """Effective rank exp(−Σ p ln p) with p = σ / Σ σ (Roy and Vetterli, 2007); 0 for a matrix of zeros."""
    total = float(values.sum())
    return math.exp(float(torch.special.entr(values.double() / total).sum())) if total else 0.0


def stable_rank(values: Float[Tensor, " count"]) -> float:
    """Stable rank Σ σ² / σ₁², at most the rank (Rudelson and Vershynin, 2007); 0 for a matrix of zeros."""
    top = float(values.max())
    return float((values.double() / top).square().sum()) if top else 0.0


def condition(values: Float[Tensor, " count"]) -> float:
    """Condition σ₁ / σₙ, infinite where the least is 0."""
    least = float(values.min())
    return float(values.max()) / least if least else math.inf


def spectrum(info: TensorInfo) -> Float[Tensor, " count"]:
    """Singular values of a file's tensor that `has_spectrum`; none where an element is not finite."""
    matrix = as_matrix(info.load())
    if not bool(torch.isfinite(_ends(matrix)).all()):
        return torch.zeros(0, dtype=torch.float64)
    return singular_values(matrix)


def _ends(matrix: Tensor) -> Tensor:
    """Least and largest value; NaN where one is. Types of 8 bits have no order in torch and are converted."""
    parts = (part.float() if part.itemsize == 1 else part for part in _pieces(matrix))
    return torch.stack(torch.aminmax(torch.stack([torch.stack(torch.aminmax(part)) for part in parts]))).double()


def _tall(wide: Tensor) -> tuple[Tensor, float]:
    """The matrix, transposed unless it has no more columns than rows, and its largest absolute value."""
    top = float(_ends(wide).abs().max())
    if not math.isfinite(top):
        raise ValueError("a matrix with NaN or infinite elements has no singular values")
    return (wide if wide.shape[0] >= wide.shape[1] else wide.T), top


def _room_for(tall: Tensor, numbers: int) -> AbstractContextManager[None]:
    """Block in which memory has room for what is computed of the columns. numbers: in float64, for each two of them.

    Raises:
        NoRoomError: it has not.
    """
    columns = tall.shape[1]
    return ledger().taking("the singular values of a matrix", 8 * numbers * columns * columns)


def _unit(top: float) -> float:
    """Divisor of the elements: 1, or a power of two where squares would leave the range."""
    least, most = ORDINARY
    return 1.0 if least < top < most else math.ldexp(1.0, math.frexp(top)[1])


def _gram(tall: Tensor, dtype: torch.dtype, top: float) -> Float[Tensor, "column column"]:
    """TᵀT of T divided by its unit, in `dtype`: the lower triangle, the part of a symmetric matrix that torch reads."""
    columns, unit = tall.shape[1], _unit(top)
    gram = torch.zeros(columns, columns, dtype=dtype)
    step = max(64, -(-columns // 4))
    for part in _pieces(tall):
        rows = part.to(dtype) if unit == 1 else part.to(torch.float64).div(unit).to(dtype)
        for first in range(0, columns, step):
            gram[first:, first : first + step].addmm_(rows[:, first:].T, rows[:, first : first + step])
    return gram


def _eigenvalues(gram: Float[Tensor, "column column"]) -> Float[Tensor, " column"]:
    """Eigenvalues, the least first, of a symmetric matrix in its lower triangle."""
    _keep_numpy_on_one_core()
    return torch.from_numpy(np.linalg.eigvalsh(gram.numpy()))


@cache
def _keep_numpy_on_one_core() -> None:
    """Limit numpy to one core in this process: the matrices of two visitors, on several cores each, would wait."""
    ThreadpoolController().select(internal_api="openblas").limit(limits=1)


def _pieces(matrix: Tensor) -> Iterator[Tensor]:
    return in_turn(matrix.split(max(256, PIECE // matrix.shape[1])))


def _quick_squares(tall: Tensor, top: float) -> Float[Tensor, " column"] | None:
    """Eigenvalues, the least first, of G in float32; None where that is not exact enough.

    A matrix nearer to a square than 2 to 1 is not tried: there even random numbers have a small λ.
    """
    if len(tall) < 2 * tall.shape[1]:
        return None
    squares = _eigenvalues(_gram(tall, torch.float32, top).double())
    largest, eighth, least = (float(squares[place]) for place in (-1, -min(8, len(squares)), 0))
    return squares if least >= LEAST * largest and eighth >= EIGHTH * largest else None
