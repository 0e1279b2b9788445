"""Dropout (section 5.4; Srivastava et al., 2014)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from model.network.kernels import kernels


def dropout(x: Float[Tensor, "*shape"], rate: float, training: bool) -> Float[Tensor, "*shape"]:
    """x, each entry zeroed with probability `rate`, the others divided by 1 − rate; outside training x itself."""
    return kernels().dropout(x, rate, training)
