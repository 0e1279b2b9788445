"""Sizes of a network's gradients, weights and steps, layer by layer, and clipping."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from model.network import Network
from model.norms import Norm


class Gradients:
    """The gradients of a network after a backward pass."""

    def __init__(self, model: Network) -> None:
        self.names, self.parameters = zip(*model.named_parameters(), strict=True)

    def clear(self) -> None:
        """Before a backward pass. The same as an optimizer's `zero_grad`, which takes longer to begin."""
        for parameter in self.parameters:
            parameter.grad = None

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


def first_not_finite(tensors: Mapping[str, Tensor]) -> str:
    """The name of the first of these that is not finite everywhere; nothing if all are."""
    return next((name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())), "")


class Updates:
    """How far each step moves the weights. They are taken in one row: a network has many that are small."""

    def __init__(self, model: Network) -> None:
        by_part: dict[str, list[Tensor]] = {}
        for name, parameter in model.named_parameters():
            by_part.setdefault(part_of(name), []).append(parameter)
        self._parts = list(by_part)
        self._sizes = [sum(each.numel() for each in part) for part in by_part.values()]
        self._weights = [each for part in by_part.values() for each in part]
        self._before = self._now()

    @torch.no_grad()
    def _now(self) -> Tensor:
        return torch.cat([each.flatten() for each in self._weights])

    def begin(self) -> None:
        """Before a step."""
        self._before = self._now()

    @torch.no_grad()
    def ratios(self) -> dict[str, float]:
        """After it: ‖Δw‖ / ‖w‖ of each layer, embedding and output; about 10⁻³ is usual while a model learns."""
        now = self._now()
        rows = (self._before.sub_(now), now)
        norms = torch.stack([part.norm() for row in rows for part in row.split(self._sizes)])
        moved, weights = norms.cpu().double().view(2, -1)
        ratios = torch.where(weights > 0, moved / weights, 0.0).tolist()
        return dict(zip(self._parts, ratios, strict=True))

    def parts(self, *prefixes: str) -> list[str]:
        """The name of each layer, embedding and output, behind each of these."""
        return [prefix + part for prefix in prefixes for part in self._parts]


class Gains:
    """γ of every norm, beside what it was at the start."""

    def __init__(self, model: Network) -> None:
        norms = {path: module for path, module in model.named_modules() if isinstance(module, Norm)}
        self.paths = list(norms)
        self.weights: list[Tensor] = [norm.weight for norm in norms.values()]
        self.start = [weight.detach().clone() for weight in self.weights]

    @torch.no_grad()
    def drifts(self) -> dict[str, float]:
        """√(mean (γ − γ₀)²) of each norm, by "γ drift/" and its path."""
        if not self.paths:
            return {}
        moved = (torch.stack(self.weights) - torch.stack(self.start)).square().mean(dim=-1).sqrt().tolist()
        return {f"γ drift/{path}": drift for path, drift in zip(self.paths, moved, strict=True)}


def part_of(name: str) -> str:
    """The layer that a parameter belongs to, such as "decoder.layers.0" or "encoder.embedding"."""
    parts = name.split(".")
    return ".".join(parts[: 3 if parts[1] == "layers" else 2])
