"""Where a softmax saturates: how large its inputs must be, and when float32 has no gradient left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from model.network.attention import Weights
from model.runtime.device import exact

SURE = 0.99
MOST = 1e9  # a factor beyond which nobody looks, nor below its inverse


@dataclass(frozen=True)
class Thresholds:
    """Factors on the scores: where the largest weight exceeds 0.99; where its own float32 gradient is exactly 0; where
    all of the softmax's float32 Jacobian is. None: nowhere up to 10⁹.
    """

    sure: float | None
    own_gradient: float | None
    all_gradients: float | None


def jacobian(scores: Float[Tensor, " key"], weight: int | None = None) -> Float[Tensor, "weight key"]:
    """∂weights/∂scores by autograd through the network's own softmax, in the precision of `scores`.

    weight: which row of it alone; None: all.
    """
    wanted = torch.eye(len(scores), dtype=scores.dtype)
    wanted = wanted if weight is None else wanted[weight : weight + 1]
    rows = scores.detach().expand(len(wanted), -1).clone().requires_grad_()
    with torch.enable_grad():
        Weights()(rows, torch.ones_like(rows, dtype=torch.bool)).backward(wanted)
    assert rows.grad is not None
    return rows.grad


def thresholds(scores: Float[Tensor, " key"]) -> Thresholds:
    """The three factors, by halving intervals on a logarithmic axis; scores that are all equal have none."""
    scores = exact(scores).cpu()
    if len(scores) < 2:
        return Thresholds(None, None, None)
    top = int(scores.argmax())

    def largest(factor: float) -> bool:
        return float((scores * factor).softmax(dim=-1).max()) > SURE

    return Thresholds(
        first_factor(largest),
        first_factor(lambda factor: not bool(jacobian((scores * factor).float(), top)[0, top])),
        first_factor(lambda factor: not bool(jacobian((scores * factor).float()).any())),
    )


def first_factor(holds: Callable[[float], bool]) -> float | None:
    """The smallest factor from which on something holds that holds for all larger ones, to a part in 10⁴; 10⁻⁹ where it
    holds there, and so for smaller ones too perhaps.
    """
    low, high = 1 / MOST, MOST
    if not holds(high):
        return None
    if holds(low):
        return low
    while high / low > 1.0001:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
