"""Faster dropout on the CPU: random numbers are drawn four at a time."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from model.runtime.random import own_generator

LEVELS = 1 << 16


def dropout(x: Float[Tensor, "*shape"], rate: float, training: bool) -> Float[Tensor, "*shape"]:
    """x, each entry zeroed with probability `rate`, the others divided by 1 − rate; outside training x itself.

    torch draws one 64-bit number for each entry, which takes a fifth of a training step of our small models; here each
    number gives four entries, with the rate rounded to 1/65536.
    """
    if not training or rate == 0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():  # compiled, the draws cost less than the copies
        return F.dropout(x, rate)
    dropped = min(round(rate * LEVELS), LEVELS - 1)
    draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None, generator=own_generator())
    levels = draws.view(torch.int16)[: x.numel()].view(x.shape)
    mask = (levels >= dropped - LEVELS // 2).to(x.dtype)
    return x * mask.mul_(LEVELS / (LEVELS - dropped))
