"""What a narrower precision costs here: a processor without instructions for it is many times slower with it."""

from __future__ import annotations

import statistics
import time
from functools import cache

import torch
from torch import Tensor

from model.device import DTYPES

ROUNDS = 3
ROWS, FEATURES, MADE = 256, 128, 256
SLOWER = 1.2  # times float32's time: less is noise


@cache
def slowdown(precision: str, device: torch.device) -> float:
    """How many times as long a linear layer's products take in this precision as in float32, on a CPU; 1 elsewhere.

    Measured forwards and backwards, in turn, once in a process; some tenths of a second where it is slow.
    """
    if device.type != "cpu" or precision == "float32":
        return 1.0
    draw = torch.Generator().manual_seed(0)
    x, weight = torch.randn(ROWS, FEATURES, generator=draw), torch.randn(MADE, FEATURES, generator=draw)
    narrow = x.to(DTYPES[precision]), weight.to(DTYPES[precision])
    with torch.inference_mode():
        _seconds(x, weight)  # threads and kernels are made once
        return statistics.median(_seconds(*narrow) / _seconds(x, weight) for _ in range(ROUNDS))


def slower(precision: str, device: torch.device) -> str:
    """What to say of a precision that is slow here; nothing, if it is not."""
    times = slowdown(precision, device)
    if times < SLOWER:
        return ""
    return f"{precision} takes {times:.2g} times as long as float32 on this processor: float32 is faster here"


def _seconds(x: Tensor, weight: Tensor) -> float:
    began = time.perf_counter()
    output = x @ weight.T
    output @ weight  # the gradient of x
    output.T @ x  # the gradient of the weight
    return time.perf_counter() - began
