"""Choice of the library that multiplies float32 matrices on the CPU, by a probe of accuracy and speed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from model.network.config import TransformerConfig
from model.runtime.device import linear_seconds

ERROR = 3.0  # largest error of another library, in errors of torch's own: still float32's rounding
FASTER = 1.1  # least speed of another library, in speeds of torch's own: less is noise
ROUNDS = 5
MOST_ROWS = 256  # of a probe: more take longer and change little

mkldnn: Any = torch.backends.mkldnn  # its settings are attributes that mypy does not know

Shape = tuple[int, int, int]  # rows of the input, its features, features of the output


@dataclass(frozen=True)
class Products:
    """Measured speed and error of oneDNN, compared with the library that torch calls by itself (MKL on x86).

    Set to bfloat16 precision, oneDNN computes float32 products in its own kernels: on some processors exactly, on
    others (AMX) in real bfloat16. Only a measurement tells which.

    speed: of oneDNN, in speeds of torch's own library. error, own_error: of both, relative to float64. None: not
    measured.
    """

    speed: float | None = None
    error: float | None = None
    own_error: float | None = None

    @property
    def name(self) -> str:
        """Name of the chosen library, "onednn" or "torch"."""
        return "onednn" if self.onednn else "torch"

    @property
    def onednn(self) -> bool:
        """True if oneDNN is chosen: as exact as float32 can be, and faster."""
        if self.speed is None or self.error is None or self.own_error is None:
            return False
        return self.error <= ERROR * self.own_error and self.speed >= FASTER

    def __str__(self) -> str:
        chosen = "oneDNN" if self.onednn else "torch's own library"
        if self.speed is None or self.speed == math.inf:
            return f"float32 products: {chosen}"
        return (
            f"float32 products: {chosen} (oneDNN is {self.speed:.2f} times as fast; "
            f"relative error {self.error:.1e}, torch's own {self.own_error:.1e})"
        )

    def use(self) -> None:
        """Let this process multiply by the chosen library from now on."""
        mkldnn.matmul.fp32_precision = "bf16" if self.onednn else "none"

    @contextmanager
    def used(self) -> Iterator[None]:
        """Block in which this process multiplies by the chosen library."""
        before = mkldnn.matmul.fp32_precision
        self.use()
        try:
            yield
        finally:
            mkldnn.matmul.fp32_precision = before


OWN, ONEDNN = Products(), Products(speed=math.inf, error=0.0, own_error=0.0)


def choose_products(config: TransformerConfig, tokens: int, device: torch.device) -> Products:
    """Choice for a network that reads `tokens` tokens at a time; torch's own library on other devices than the CPU."""
    if device.type != "cpu" or not mkldnn.is_available():
        return OWN
    rows = min(tokens, MOST_ROWS)
    width = config.n_heads * config.d_head
    return probe(
        ((rows, config.d_model, width), (rows, config.d_model, config.d_ff), (rows, config.d_ff, config.d_model))
    )


@cache
def probe(shapes: Sequence[Shape]) -> Products:
    """Measure both libraries on linear layers of these shapes, forwards and backwards, in hundredths of a second."""
    draw = torch.Generator().manual_seed(0)
    layers = [
        (torch.randn(rows, features, generator=draw), torch.randn(outputs, features, generator=draw))
        for rows, features, outputs in shapes
    ]
    with torch.inference_mode():
        errors = {}
        for library in (OWN, ONEDNN):
            with library.used():
                errors[library] = max(_error(x, weight) for x, weight in layers)
        _seconds(layers)  # threads and kernels are created in the first run
        speeds = []
        for _ in range(ROUNDS):
            with OWN.used():
                torch_seconds = _seconds(layers)
            with ONEDNN.used():
                speeds.append(torch_seconds / _seconds(layers))
    return Products(statistics.median(speeds), errors[ONEDNN], errors[OWN])


def _error(x: Tensor, weight: Tensor) -> float:
    exact = x.double() @ weight.double().T
    return float(((x @ weight.T).double() - exact).norm() / exact.norm())


def _seconds(layers: Sequence[tuple[Tensor, Tensor]]) -> float:
    return sum(linear_seconds(x, weight) for x, weight in layers)
