"""Sizes of a network's gradients, weights and steps, layer by layer, and clipping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from model.network.norms import Norm
from model.network.transformer import Network
from model.training.flat_parameters import FlatParameters, weights_in_a_row

PIECE = 1 << 18  # weights: of more in one row, torch's float32 norm on the CPU loses digits


class Gradients:
    """The gradients of a network after a backward pass, and its weights: both stand in a row from now on, and the
    network must stay where it is, in its precision. All weights are trained.

    parts: each layer, embedding and output, and how much of a row it has; its weights are neighbours.
    """

    def __init__(self, network: nn.Module) -> None:
        names, self.parameters = zip(*network.named_parameters(), strict=True)
        self.weights, self.row = weights_in_a_row(self.parameters), FlatParameters(self.parameters)
        self.parts: dict[str, int] = {}
        for name, size in zip(names, self.row.sizes, strict=True):
            self.parts[part_of(name)] = self.parts.get(part_of(name), 0) + size
        self.clear()

    @torch.no_grad()
    def clear(self) -> None:
        """Before a backward pass, which adds to them.

        Raises:
            RuntimeError: the weights are not in their row any more.
        """
        if self.parameters[0].data_ptr() != self.weights.whole.data_ptr():
            raise RuntimeError("the network was moved or given to another trainer: make a new trainer for it")
        self.row.whole.zero_()
        for parameter, part in zip(self.parameters, self.row.parts, strict=True):
            parameter.grad = part

    @torch.no_grad()
    def norms(self) -> dict[str, float]:
        """The Euclidean norm of the gradient of each layer, embedding and output."""
        norms = torch.stack([norm_of(part) for part in self.row.whole.split(list(self.parts.values()))])
        return dict(zip(self.parts, norms.tolist(), strict=True))

    @torch.no_grad()
    def clip(self, norm: float, largest: float) -> None:
        """Scale all gradients so that their norm, now `norm`, is at most `largest` (Pascanu et al., 2013)."""
        if norm > largest:
            self.row.whole *= largest / (norm + 1e-6)

    @torch.no_grad()
    def parameter_norm(self) -> float:
        """The Euclidean norm of all weights."""
        return float(norm_of(self.weights.whole))


def norm_of(rows: Float[Tensor, "*rows all"]) -> Float[Tensor, "*rows"]:
    """The Euclidean norm of each row."""
    if rows.shape[-1] > PIECE:
        rows = torch.stack([torch.linalg.vector_norm(piece, dim=-1) for piece in rows.split(PIECE, dim=-1)], dim=-1)
    return torch.linalg.vector_norm(rows, dim=-1)


def first_not_finite(tensors: Mapping[str, Tensor]) -> str:
    """The name of the first of these that is not finite everywhere; nothing if all are."""
    return next((name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())), "")


class Updates:
    """How far steps move the weights."""

    def __init__(self, gradients: Gradients) -> None:
        self._parts = gradients.parts

    @torch.no_grad()
    def ratios(
        self, moved: Float[Tensor, "moment all"], weights: Float[Tensor, "moment all"]
    ) -> list[dict[str, float]]:
        """‖Δw‖ / ‖w‖ of each layer, embedding and output, by "update ratio/" and its name; about 10⁻³ is usual while a
        model learns. moved: by how much a step has changed all weights. weights: what they are after it.
        """
        sizes = list(self._parts.values())
        norms = torch.stack([norm_of(part) for rows in (moved, weights) for part in rows.split(sizes, dim=-1)])
        changes, all_weights = norms.cpu().double().view(2, len(sizes), -1)
        ratios = torch.where(all_weights > 0, changes / all_weights, 0.0).T.tolist()
        return [dict(zip(self.parts("update ratio/"), row, strict=True)) for row in ratios]

    def parts(self, *prefixes: str) -> list[str]:
        """The name of each layer, embedding and output, behind each of these."""
        return [prefix + part for prefix in prefixes for part in self._parts]


class Gains:
    """γ of every norm, beside what it was at the start."""

    def __init__(self, network: Network) -> None:
        norms = {path: module for path, module in network.named_modules() if isinstance(module, Norm)}
        self.names = [f"γ drift/{path}" for path in norms]
        self.weights: list[Tensor] = [norm.weight for norm in norms.values()]
        self.start = torch.stack([weight.detach() for weight in self.weights]) if norms else None

    @torch.no_grad()
    def drifts(self, weights: Sequence[Float[Tensor, "moment d_model"]]) -> list[dict[str, float]]:
        """√(mean (γ − γ₀)²) of each norm, by "γ drift/" and its path, at each moment; none where there is no norm.

        weights: every γ, at these moments.
        """
        if self.start is None:
            return []
        moved = (torch.stack(list(weights), dim=1) - self.start).square().mean(dim=-1).sqrt()
        return [dict(zip(self.names, row, strict=True)) for row in moved.tolist()]


def part_of(name: str) -> str:
    """The layer that a parameter belongs to, such as "decoder.layers.0" or "encoder.embedding"."""
    parts = name.split(".")
    return ".".join(parts[: 3 if parts[1] == "layers" else 2])
