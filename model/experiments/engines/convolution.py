"""Dilated causal convolutions: a stack whose reach grows by the kernel's size with each layer (van den Oord et al.,
2016, section 2.1; Kalchbrenner et al., 2016, are those of table 1 of the paper).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class CausalConvolution(nn.Module):
    """y_t = b + Σ_j W_j x_{t − j · dilation}, j from 0 to kernel − 1, with zeros before the first position."""

    def __init__(self, width: int, kernel: int, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        spread = (2 / (kernel * width)) ** 0.5  # keeps the variance through ReLU (He et al., 2015)
        self.weight = nn.Parameter(spread * torch.randn(kernel, width, width))  # (tap, output, input)
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        length, before = x.shape[1], (len(self.weight) - 1) * self.dilation
        padded = F.pad(x, (0, 0, before, 0))
        starts = (before - tap * self.dilation for tap in range(len(self.weight)))
        taps = zip(starts, self.weight, strict=True)
        return self.bias + sum(padded[:, start : start + length] @ weight.mT for start, weight in taps)


class ConvolutionStack(nn.Module):
    """Convolutions with ReLU between them; the dilation of layer i is kernelⁱ, so that no position is read twice, and
    an output depends on 1 + (kernel − 1) Σ kernelⁱ = kernelˡᵃʸᵉʳˢ positions.
    """

    def __init__(self, width: int, kernel: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(CausalConvolution(width, kernel, kernel**layer) for layer in range(layers))

    def forward(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        for number, layer in enumerate(self.layers):
            x = layer(x if number == 0 else x.relu())
        return x


def layers_needed(length: int, kernel: int) -> int:
    """Smallest number of layers with which the last output depends on the first input: ⌈log_kernel length⌉."""
    layers = 1
    while kernel**layers < length:
        layers += 1
    return layers
