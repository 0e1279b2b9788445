"""Sizes of a network's gradients, weights and steps, layer by layer, and clipping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from model.network.norms import Norm
from model.network.transformer import Network
from model.training.flat_parameters import FlatParameters, weights_in_a_row

Figures = dict[str, float]
PIECE = 1 << 18  # weights: of more in one row, torch's float32 norm on the CPU loses digits


class Gradients:
    """Gradients and weights of a network, both moved into one row each.

    The network must stay on its device and in its precision; all its weights are trained. parts: elements in a row of
    each layer, embedding and output; the weights of each are neighbours.
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
        """Set the gradients to zero: a backward pass adds to them.

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
        """Euclidean norm of the gradient of each layer, embedding and output."""
        return dict(zip(self.parts, self._norms_of_parts(self.row.whole).tolist(), strict=True))

    @torch.no_grad()
    def clip(self, norm: float, largest: float) -> None:
        """Scale all gradients so that their norm, now `norm`, is at most `largest` (Pascanu et al., 2013)."""
        if norm > largest:
            self.row.whole *= largest / (norm + 1e-6)

    @torch.no_grad()
    def parameter_norm(self) -> float:
        """Euclidean norm of all weights."""
        return float(norm_of(self.weights.whole))

    @torch.no_grad()
    def update_ratios(self, updates: Float[Tensor, "step all"], weights: Float[Tensor, "step all"]) -> list[Figures]:
        """‖Δw‖ / ‖w‖ of each layer, embedding and output at each step, by `update_names`; 0 where ‖w‖ is.

        About 10⁻³ is usual while a model learns. updates: changes of all weights. weights: their values afterwards.
        """
        changes, sizes = (self._norms_of_parts(rows).cpu().double() for rows in (updates, weights))
        ratios = torch.where(sizes > 0, changes / sizes, 0.0).T.tolist()
        return [dict(zip(self.update_names, row, strict=True)) for row in ratios]

    @property
    def update_names(self) -> list[str]:
        """Name of the update ratio of each layer, embedding and output."""
        return [f"update ratio/{part}" for part in self.parts]

    def _norms_of_parts(self, rows: Float[Tensor, "*rows all"]) -> Float[Tensor, part * rows]:
        return torch.stack([norm_of(part) for part in rows.split(list(self.parts.values()), dim=-1)])


def norm_of(rows: Float[Tensor, "*rows all"]) -> Float[Tensor, "*rows"]:
    """Euclidean norm of each row."""
    if rows.shape[-1] > PIECE:
        rows = torch.stack([torch.linalg.vector_norm(piece, dim=-1) for piece in rows.split(PIECE, dim=-1)], dim=-1)
    norms: Tensor = torch.linalg.vector_norm(rows, dim=-1)
    return norms


def first_nonfinite(tensors: Mapping[str, Tensor]) -> str:
    """Name of the first tensor, of any shape, with an element that is not finite; empty if there is none."""
    return next((name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())), "")


class Gains:
    """γ of every norm of a network, and its value at the start."""

    def __init__(self, network: Network) -> None:
        norms = {path: module for path, module in network.named_modules() if isinstance(module, Norm)}
        self.names = [f"γ drift/{path}" for path in norms]
        self.weights: list[Tensor] = [norm.weight for norm in norms.values()]
        self.start = torch.stack([weight.detach() for weight in self.weights]) if norms else None

    @torch.no_grad()
    def drifts(self, weights: Sequence[Float[Tensor, "step d_model"]]) -> list[Figures]:
        """√(mean (γ − γ₀)²) of each norm at each step, by `names`; an empty list if the network has no norm.

        weights: γ of each norm.
        """
        if self.start is None:
            return []
        moved = (torch.stack(list(weights), dim=1) - self.start).square().mean(dim=-1).sqrt()
        return [dict(zip(self.names, row, strict=True)) for row in moved.tolist()]


def part_of(name: str) -> str:
    """Layer, embedding or output of a parameter, such as "decoder.layers.0" or "encoder.embedding"."""
    parts = name.split(".")
    return ".".join(parts[: 3 if parts[1] == "layers" else 2])
