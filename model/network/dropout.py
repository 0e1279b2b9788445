"""Dropout (section 5.4; Srivastava et al., 2014)."""

from __future__ import annotations

from torch import Tensor

from model.network.kernels import kernels


def dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """x, each entry zeroed with probability `rate`, others divided by 1 − rate; outside training x itself."""
    return kernels().dropout(x, rate, training)
