"""Numbers that describe a head's attention."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def entropy(weights: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch"]:
    """Mean over the queries of −Σ w ln w, in nats: 0 for one key, ln n for n equal ones. Empty rows do not count."""
    rows = torch.special.entr(weights.double()).sum(dim=-1)
    filled = weights.sum(dim=-1) > 0
    return (rows * filled).sum(dim=-1) / filled.sum(dim=-1).clamp(min=1)
