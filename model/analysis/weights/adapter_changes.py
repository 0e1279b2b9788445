"""Size and rank of what an adapter changes in each weight: ‖ΔW‖ / ‖W‖, the singular values of ΔW, its effective rank.

Where ΔW is a product of two factors, its singular values are those of R₁ R₂ᵀ of their QR decompositions, a matrix of
rank × rank, and ‖ΔW‖ is the root of the sum of their squares; ΔW itself is never made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from model.analysis.weights.spectra import effective_rank, singular_values, stable_rank
from model.checkpoints.adapters import Change, Hadamard, Kronecker, LowRank
from model.checkpoints.tensors import measure
from model.runtime.errors import CheckpointError
from model.runtime.memory import available

ROUNDING = 1e-6  # of ‖ΔW‖ / ‖W‖, where ΔW is the difference of two weights in float32


@dataclass(frozen=True)
class AdapterChange:
    """Change of one weight, in float64.

    norm: ‖ΔW‖ (Frobenius). relative: ‖ΔW‖ / ‖W‖, infinite of a weight of zeros. values: singular values of ΔW, the
    largest first; none of a vector. rank: effective rank exp(−Σ p ln p) with p = σ / Σ σ (Roy and Vetterli, 2007), NaN
    of a vector. stable: stable rank Σ σ² / σ₁² (Rudelson and Vershynin, 2007). nothing: whether the weight stays as it
    is, but for rounding where ΔW is a difference.
    """

    norm: float
    relative: float
    values: Float[Tensor, " count"]
    rank: float
    stable: float
    nothing: bool

    @property
    def largest(self) -> float:
        """Largest singular value; NaN of a vector."""
        return float(self.values[0]) if len(self.values) else math.nan


def adapter_change(change: Change) -> AdapterChange:
    """Size and rank of a change.

    Raises:
        CheckpointError: a number of it is not finite.
    """
    weight = change.weight.load()
    factors = change.step if _starts_there(change) else change.low_rank
    if isinstance(factors, LowRank | Hadamard | Kronecker):
        values = factored_values(factors)
        norm = float(torch.linalg.vector_norm(values))
    else:
        _require_room(change)
        difference = change.merged() - weight.float()  # exact where the two are near each other
        norm = float(torch.linalg.vector_norm(difference, dtype=torch.float64))
        several = difference.ndim > 1 and math.isfinite(norm)
        values = singular_values(difference) if several else torch.zeros(0, dtype=torch.float64)
    if not math.isfinite(norm):
        raise CheckpointError("the change of {name} has numbers that are not finite", name=change.name)
    size = measure(weight).norm
    relative = norm / size if size else math.inf if norm else 0.0
    nothing = norm == 0 or (factors is None and relative < ROUNDING)
    ranks = (effective_rank(values), stable_rank(values)) if len(values) else (math.nan, math.nan)
    return AdapterChange(norm, relative, values, *ranks, nothing)


def _require_room(change: Change) -> None:
    """Refuse a weight that memory does not hold merged, as it was, and as their difference.

    Raises:
        CheckpointError: the memory does not hold them; the sentence has both sizes.
    """
    needed, free = 3 * 4 * change.weight.elements, available(torch.device("cpu"))
    if needed > free:
        raise CheckpointError(
            "to compare {name} with its base takes {asked:.1f} GB, and {free:.1f} GB are free: close what is not "
            "needed",
            name=change.name,
            asked=needed / 1000000000.0,
            free=free / 1000000000.0,
        )


def _starts_there(change: Change) -> bool:
    """True if the adapter brings a copy of the base's values along and changes that, as of an output that is tied."""
    return (
        change.start is not None and change.step is not None and torch.equal(change.start.load(), change.weight.load())
    )


def factored_values(change: LowRank | Hadamard | Kronecker) -> Float[Tensor, " count"]:
    """Singular values of a change that is made of factors, the largest first, in float64."""
    if isinstance(change, Kronecker):
        one, two = (torch.linalg.svdvals(_finite(factor)) for factor in (change.first, change.second))
        return abs(change.scale) * torch.outer(one, two).flatten().sort(descending=True).values
    if isinstance(change, Hadamard):
        change = _row_by_row(change)
    left, right = _finite(change.left), _finite(change.right)
    if left.shape[1] >= min(left.shape[0], right.shape[1]):
        product = left @ right
    else:
        product = torch.linalg.qr(left, mode="r").R @ torch.linalg.qr(right.mT, mode="r").R.mT
    values: Tensor = torch.linalg.svdvals(product)
    return abs(change.scale) * values


def _row_by_row(change: Hadamard) -> LowRank:
    """(a₁ b₁) ⊙ (a₂ b₂) as one product of rank r₁ r₂: each row of the left is the Kronecker product of a row of a₁ and
    one of a₂ (Khatri-Rao); where that is larger than the product itself, the product times the identity.
    """
    one, two = change.first, change.second
    rank = one.left.shape[1] * two.left.shape[1]
    rows, columns = one.left.shape[0], one.right.shape[1]
    if rank >= min(rows, columns):
        matrix = (one.left.double() @ one.right.double()) * (two.left.double() @ two.right.double())
        identity = torch.eye(min(rows, columns), dtype=torch.float64)
        return LowRank(matrix, identity, change.scale) if columns <= rows else LowRank(identity, matrix, change.scale)
    left = (one.left.double()[:, :, None] * two.left.double()[:, None, :]).flatten(1)
    right = (one.right.double()[:, None, :] * two.right.double()[None, :, :]).flatten(0, 1)
    return LowRank(left, right, change.scale)


def _finite(factor: Tensor) -> Tensor:
    """A factor in float64.

    Raises:
        CheckpointError: a number in it is not finite.
    """
    if not bool(factor.isfinite().all()):
        raise CheckpointError("a factor of shape {shape} has numbers that are not finite", shape=tuple(factor.shape))
    return factor.double()
