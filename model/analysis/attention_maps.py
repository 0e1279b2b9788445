"""The attention maps of a trace, computed head by head where they are large: nothing of size heads × n² is kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from model.capture.hooks import changed, no_recording
from model.capture.trace import KEPT_MAP, AttentionKind, Trace
from model.network.attention import MultiHeadAttention, for_each_head
from model.network.positions import PositionBias

AT_ONCE = 1 << 20  # numbers of a layer's maps that are computed together; one head's are, however many
CELLS = 1 << 22  # of a layer's maps that are looked into at once; of longer texts every k-th query


class Quantity(StrEnum):
    """What a cell of a map says about a query and a key."""

    WEIGHT = "weight"
    VALUE = "value"
    OUTPUT = "output"


class Maps:
    """The maps of one kind of attention: of `layers` layers and `heads` heads, each of `queries` × `keys` cells.

    quantity: WEIGHT is w; VALUE ‖w·v‖, the norm of what the key gives to the head; OUTPUT ‖w·v·Wᴼ‖, of what it gives
    to the layer's output (Kobayashi et al., 2020, section 3).
    """

    def __init__(self, trace: Trace, kind: AttentionKind, quantity: Quantity = Quantity.WEIGHT) -> None:
        self.trace, self.kind, self.quantity = trace, kind, quantity
        self.paths = trace.attention_paths(kind)
        self.given = trace.given(self.paths[0])
        if self.given:
            self.heads, self.queries, self.keys = trace[f"{self.paths[0]}.weights"].shape
        else:
            self.heads, self.queries, _channels = trace[f"{self.paths[0]}.query"].shape
            self.keys = trace[f"{self.paths[0]}.key"].shape[1]
        self.layers = len(self.paths)
        self.norms = cache(self._norms)

    def groups(self) -> Iterator[tuple[int, slice]]:
        """All heads, in groups of one layer that may be computed at once."""
        size = max(1, AT_ONCE // max(1, self.queries * self.keys))
        for layer in range(self.layers):
            for first in range(0, self.heads, size):
                yield layer, slice(first, min(first + size, self.heads))

    def weights(self, layer: int, heads: slice) -> Float[Tensor, "head query key"]:
        """The attention weights of some heads of a layer."""
        return self.computed(layer, heads).float()

    def computed(self, layer: int, heads: slice) -> Float[Tensor, "head query key"]:
        """The same in the precision that the model computes in."""
        path = self.paths[layer]
        if self.small:
            return self.trace[f"{path}.weights"][heads]
        _name, weights = deque(_steps(self.trace, path, heads, slice(None)), maxlen=1).pop()
        return weights

    def of(self, layer: int, heads: slice) -> Float[Tensor, "head query key"]:
        """The quantity of some heads of a layer."""
        return self.weighted(self.weights(layer, heads), layer, heads)

    def weighted(
        self, weights: Float[Tensor, "head query key"], layer: int, heads: slice
    ) -> Float[Tensor, "head query key"]:
        """The quantity from the weights of these heads."""
        return weights if self.quantity == Quantity.WEIGHT else weights * self.norms(layer)[heads, None]

    def row(self, layer: int, head: int, query: int) -> dict[str, Float[Tensor, " key"]]:
        """One query's scores, scaled, biased where positions add to them, masked and weights."""
        path, heads = self.paths[layer], slice(head, head + 1)
        if self.small:
            return {name: self.trace[f"{path}.{name}"][head, query].float() for name in self.trace.maps_of(path)}
        steps = _steps(self.trace, path, heads, slice(query, query + 1))
        return {name: tensor[0, 0].float() for name, tensor in steps}

    @property
    def small(self) -> bool:
        """Whether the trace computes all heads of a layer and keeps them."""
        return self.heads * self.queries * self.keys <= KEPT_MAP or self.given

    @property
    def every(self) -> int:
        """The k of every k-th query, so that no layer has more than `CELLS` cells."""
        return max(1, -(-self.heads * self.queries * self.keys // CELLS))

    def _norms(self, layer: int) -> Float[Tensor, "head key"]:
        """What each weight is multiplied by: w ≥ 0, so ‖w·v‖ = w·‖v‖."""
        values = self.trace.values(self.paths[layer]).float()
        if self.quantity == Quantity.VALUE:
            return values.norm(dim=-1)
        attention = self.trace.module(self.paths[layer])
        assert isinstance(attention, MultiHeadAttention)
        parts = attention.output.weight.detach().float().unflatten(1, (self.heads, -1))  # (d_model, head, channel)
        return torch.einsum("hkc,dhc->hkd", values, parts).norm(dim=-1)


def _steps(trace: Trace, path: str, heads: slice, rows: slice) -> Iterator[tuple[str, Tensor]]:
    """Each step from the recorded query and key to the weights, by the model's own modules, of some heads and rows."""
    attention = trace.module(path)
    assert isinstance(attention, MultiHeadAttention)
    query = trace[f"{path}.query"]
    key = for_each_head(trace[f"{path}.key"], len(query))[heads]
    visible = trace.visible(path)
    visible = (visible if len(visible) == 1 else visible[heads])[:, rows]
    with torch.inference_mode(), no_recording(), changed(trace.network, trace.changes):
        tensor = attention.scores(query[heads, rows], key)
        yield "scores", tensor
        tensor = attention.scaled(tensor)
        yield "scaled", tensor
        if "capped" in attention.maps:
            tensor = attention.get_submodule("capped")(tensor)
            yield "capped", tensor
        if isinstance(attention.biased, PositionBias):
            tensor = tensor + attention.biased.bias(query.shape[1], key.shape[1], tensor, heads)[:, rows]
            yield "biased", tensor
        elif "biased" in attention.maps:
            tensor = attention.biased(tensor, trace[f"{path}.bias"][heads, rows])
            yield "biased", tensor
        tensor = attention.masked(tensor, visible)
        yield "masked", tensor
        yield "weights", attention.weights(tensor, visible)


# Several heads' maps as one: their average, their maximum, and attention rollout through the layers.

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
