"""Sizes of a network's gradients and weights, layer by layer, and clipping."""

from __future__ import annotations

import math

import torch

from model.network import Network


class Gradients:
    """The gradients of a network after a backward pass."""

    def __init__(self, model: Network) -> None:
        self.names, self.parameters = zip(*model.named_parameters(), strict=True)

    @torch.no_grad()
    def norms(self) -> dict[str, float]:
        """The Euclidean norm of the gradient of each layer, embedding and output."""
        squares: dict[str, float] = {}
        given = [(n, p.grad) for n, p in zip(self.names, self.parameters, strict=True) if p.grad is not None]
        norms = torch.stack(torch._foreach_norm([gradient for _, gradient in given])).tolist()
        for (name, _), norm in zip(given, norms, strict=True):
            squares[part_of(name)] = squares.get(part_of(name), 0.0) + norm**2
        return {part: math.sqrt(square) for part, square in squares.items()}

    @torch.no_grad()
    def clip(self, norm: float, largest: float) -> None:
        """Scale all gradients so that their norm, now `norm`, is at most `largest` (Pascanu et al., 2013)."""
        if norm > largest:
            gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
            torch._foreach_mul_(gradients, largest / (norm + 1e-6))

    @torch.no_grad()
    def parameter_norm(self) -> float:
        """The Euclidean norm of all weights."""
        return float(torch.stack(torch._foreach_norm(list(self.parameters))).norm())

    def culprit(self) -> str:
        """The first gradient that is not finite, as the end of a sentence; nothing if all are."""
        for name, parameter in zip(self.names, self.parameters, strict=True):
            if parameter.grad is not None and not bool(parameter.grad.isfinite().all()):
                return f", not finite first in {name}"
        return ""


def part_of(name: str) -> str:
    """The layer that a parameter belongs to, such as "decoder.layers.0" or "encoder.embedding"."""
    parts = name.split(".")
    return ".".join(parts[: 3 if parts[1] == "layers" else 2])
