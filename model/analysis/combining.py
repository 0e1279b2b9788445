"""Several heads' maps as one: their average, their maximum, and attention rollout through the layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from model.analysis.maps import Maps

Heads = Sequence[tuple[int, int]]  # layer and head, counted from 0


def average(maps: Maps, heads: Heads) -> Float[Tensor, "query key"]:
    """The mean of these heads' maps."""
    return _accumulated(maps, heads, torch.add) / len(heads)


def maximum(maps: Maps, heads: Heads) -> Float[Tensor, "query key"]:
    """In each cell the largest value of these heads."""
    return _accumulated(maps, heads, torch.maximum)


def rollout(maps: Maps, heads: Heads, residual: bool = True) -> Float[Tensor, "token token"]:
    """Ã_L ⋯ Ã_1, how much of each input token arrives at each position after the last of these layers.

    Ã is ½ W + ½ I with its rows scaled to 1, W the average of a layer's heads (Abnar and Zuidema, 2020, section 4);
    without `residual`, where a model adds none, it is W. Layers without any of these heads are left out.

    Raises:
        ValueError: queries and keys are tokens of two texts, whose maps cannot be multiplied.
    """
    if maps.kind == "cross":
        raise ValueError("rollout multiplies the maps of one text, layer by layer: cross-attention joins two texts")
    joined = torch.eye(maps.queries)
    for layer in sorted({layer for layer, _head in heads}):
        weights = average(maps, [each for each in heads if each[0] == layer])
        mixed = (weights + torch.eye(maps.queries, device=weights.device)) / 2 if residual else weights
        joined = (mixed / mixed.sum(dim=-1, keepdim=True).clamp(min=1e-12)) @ joined.to(weights.device)
    return joined


def _accumulated(maps: Maps, heads: Heads, join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The maps joined one by one: never more than two of them are in memory."""
    joined: Tensor | None = None
    for layer, head in heads:
        (each,) = maps.of(layer, slice(head, head + 1))
        joined = each if joined is None else join(joined, each)
    if joined is None:
        raise ValueError("there is no head to combine: choose at least one")
    return joined


COMBINATIONS: dict[str, Callable[[Maps, Heads], Tensor]] = {"average": average, "maximum": maximum, "rollout": rollout}
