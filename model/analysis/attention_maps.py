"""Attention maps of a trace, computed head by head where they are large: nothing of size heads × n² is kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import reduce

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from model.capture.hooks import changed, no_recording
from model.capture.trace import LARGEST_MAP, AttentionKind, Trace
from model.network.attention import for_each_head
from model.network.positions import PositionBias
from model.runtime import cancellation
from model.runtime.memory import require_room_for_map

AT_ONCE = 1 << 20  # cells of a layer's maps computed together; one head's are, however many
CELLS = 1 << 22  # cells of a layer's maps looked into at once; of longer texts every k-th query
STEPS = 6  # numbers of a cell that are in memory at once: on the way to its weight, and from there to a metric


class Quantity(StrEnum):
    """Quantity in a cell of a map: what it says about a query and a key."""

    WEIGHT = "weight"
    VALUE = "value"
    OUTPUT = "output"


class Maps:
    """Maps of one kind of attention: of `layers` layers and `heads` heads, each of `queries` × `keys` cells.

    quantity: WEIGHT is w; VALUE ‖w·v‖, the norm of the key's part of the head; OUTPUT ‖w·v·Wᴼ‖, that of its part of the
    layer's output (Kobayashi et al., 2020, section 3).
    """

    def __init__(self, trace: Trace, kind: AttentionKind, quantity: Quantity = Quantity.WEIGHT) -> None:
        self.trace, self.kind, self.quantity = trace, kind, quantity
        self.paths = trace.attention_paths(kind)
        self.layers = len(self.paths)
        first = self.paths[0]
        self.recorded = trace.has_weights(first)
        if self.recorded:
            self.heads, self.queries, self.keys = trace[f"{first}.weights"].shape
        else:
            self.heads, self.queries, _channels = trace[f"{first}.query"].shape
            self.keys = trace[f"{first}.key"].shape[1]
        self._norms: dict[int, Tensor] = {}

    def groups(self) -> Iterator[tuple[int, slice]]:
        """Layer and heads of each group of heads that may be computed at once.

        Raises:
            SupersededError: what is being computed is no longer wanted.
        """
        size = max(1, AT_ONCE // max(1, self.queries * self.keys))
        for layer in range(self.layers):
            for first in range(0, self.heads, size):
                cancellation.check()
                yield layer, slice(first, min(first + size, self.heads))

    def weights(self, layer: int, heads: slice) -> Float[Tensor, "head query key"]:
        """Attention weights of some heads of a layer, in float32."""
        return self.computed(layer, heads).float()

    def computed(self, layer: int, heads: slice) -> Float[Tensor, "head query key"]:
        """Attention weights of some heads of a layer, in the precision that the model computes in."""
        path = self.paths[layer]
        if self.small:
            return self.trace[f"{path}.weights"][heads]
        cancellation.check()
        _name, weights = deque(steps(self.trace, path, heads, slice(None)), maxlen=1).pop()
        return weights

    def sink(self, layer: int, heads: slice) -> Float[Tensor, "head query"] | None:
        """Weights that some heads of a layer keep for no key; None: they have no sink."""
        name = f"{self.paths[layer]}.sink"
        return self.trace[name][heads].float() if name in self.trace else None

    def of(self, layer: int, heads: slice) -> Float[Tensor, "head query key"]:
        """Quantity of some heads of a layer."""
        return self.weighted(self.weights(layer, heads), layer, heads)

    def weighted(
        self, weights: Float[Tensor, "head query key"], layer: int, heads: slice
    ) -> Float[Tensor, "head query key"]:
        """Quantity of some heads of a layer, from their weights."""
        return weights if self.quantity == Quantity.WEIGHT else weights * self.norms(layer)[heads, None]

    def row(self, layer: int, head: int, query: int) -> dict[str, Float[Tensor, " key"]]:
        """Row of one query in each map by name: scores, scaled, biased where positions add to them, masked, weights."""
        path, heads = self.paths[layer], slice(head, head + 1)
        if self.small:
            return {name: self.trace[f"{path}.{name}"][head, query].float() for name in self.trace.maps_of(path)}
        of_row = steps(self.trace, path, heads, slice(query, query + 1))
        return {name: tensor[0, 0].float() for name, tensor in of_row}

    @property
    def small(self) -> bool:
        """True if the trace computes all heads of a layer and keeps them."""
        return self.heads * self.queries * self.keys <= LARGEST_MAP or self.recorded

    @property
    def cells(self) -> int:
        """Number of cells of all these maps together."""
        return self.layers * self.heads * self.queries * self.keys

    def require_room(self) -> None:
        """Refuse maps of a text of which not even one fits into free memory.

        Raises:
            ValueError: it does not fit.
        """
        device = next(self.trace.network.parameters()).device
        require_room_for_map(self.queries, self.keys, self.memory, device)

    @property
    def memory(self) -> int:
        """Bytes that one group of heads takes while it is computed."""
        return STEPS * 4 * max(AT_ONCE, self.queries * self.keys)

    @property
    def every(self) -> int:
        """Least k with which every k-th query of a layer has at most `CELLS` cells."""
        return max(1, -(-self.heads * self.queries * self.keys // CELLS))

    def norms(self, layer: int) -> Float[Tensor, "head key"]:
        """Factor of each weight: w ≥ 0, so ‖w·v‖ = w·‖v‖."""
        if layer not in self._norms:
            self._norms[layer] = self._factor(layer)
        return self._norms[layer]

    def _factor(self, layer: int) -> Float[Tensor, "head key"]:
        values = self.trace.values(self.paths[layer]).float()
        if self.quantity == Quantity.VALUE:
            norms: Tensor = values.norm(dim=-1)
            return norms
        weight = self.trace.attention_at(self.paths[layer]).output.weight.detach().float()
        parts = weight.unflatten(1, (self.heads, -1))  # (d_model, head, channel)
        norms = torch.einsum("hkc,dhc->hkd", values, parts).norm(dim=-1)
        return norms


def steps(
    trace: Trace, path: str, heads: slice, rows: slice, dtype: torch.dtype | None = None
) -> Iterator[tuple[str, Tensor]]:
    """Maps of some heads and rows by name, from the recorded query and key to the weights, by the model's modules.

    dtype: precision to compute in; None: that of the pass.
    """
    query = trace[f"{path}.query"]
    key = for_each_head(trace[f"{path}.key"], len(query))[heads]
    visible = heads_of(trace.visible(path), heads)[:, rows]
    with torch.inference_mode(), no_recording(), changed(trace.network, trace.changes):
        bias = position_bias(trace, path, heads, rows)
        if dtype is not None:
            query, key, bias = query.to(dtype), key.to(dtype), None if bias is None else bias.to(dtype)
        yield from trace.attention_at(path).steps(query[heads, rows], key, visible, bias)


def position_bias(trace: Trace, path: str, heads: slice, rows: slice) -> Float[Tensor, "head query key"] | None:
    """Numbers that positions add to the scores of some heads and rows; None where they add none."""
    query, key = trace[f"{path}.query"], trace[f"{path}.key"]
    biased = trace.attention_at(path).biased
    if isinstance(biased, PositionBias):
        return biased.bias(query.shape[1], key.shape[1], query, heads)[:, rows]
    return trace[f"{path}.bias"][heads, rows] if f"{path}.bias" in trace else None


def heads_of(visible: Bool[Tensor, "#head query key"], heads: slice) -> Bool[Tensor, "#head query key"]:
    """Visible cells of some heads; one entry where all heads have the same."""
    return visible if len(visible) == 1 else visible[heads]


# Maps of several heads as one: their average, their maximum, and attention rollout through the layers.

Heads = Sequence[tuple[int, int]]  # layer and head, counted from 0


def average(maps: Maps, heads: Heads) -> Float[Tensor, "query key"]:
    """Mean of the maps of these heads.

    Raises:
        ValueError: there is no head.
    """
    return _accumulated(maps, heads, torch.add) / len(heads)


def maximum(maps: Maps, heads: Heads) -> Float[Tensor, "query key"]:
    """Largest value of these heads, in each cell.

    Raises:
        ValueError: there is no head.
    """
    return _accumulated(maps, heads, torch.maximum)


def rollout(maps: Maps, heads: Heads, residual: bool = True) -> Float[Tensor, "token token"]:
    """Ã_L ⋯ Ã_1, the share of each input token in each position after the last of these layers.

    Ã is ½ W + ½ I with its rows scaled to 1, W the average of a layer's heads (Abnar and Zuidema, 2020, section 3);
    without `residual`, where a model adds none, it is W. Rows are not scaled in a layer with sinks: what goes to these
    comes from no token. Layers without any of these heads are left out.

    Raises:
        ValueError: queries and keys are tokens of two texts, whose maps cannot be multiplied.
    """
    if maps.kind == "cross":
        raise ValueError("rollout multiplies the maps of one text, layer by layer: cross-attention joins two texts")
    joined = torch.eye(maps.queries)
    for layer in sorted({layer for layer, _head in heads}):
        weights = average(maps, [head for head in heads if head[0] == layer])
        mixed = (weights + torch.eye(maps.queries, device=weights.device)) / 2 if residual else weights
        if maps.sink(layer, slice(0, 1)) is None:
            mixed = mixed / mixed.sum(dim=-1, keepdim=True).clamp(min=1e-12)
        joined = mixed @ joined.to(weights.device)
    return joined


def combined_sink(maps: Maps, heads: Heads, combination: str) -> Float[Tensor, " query"] | None:
    """Weight that these heads together give to no key: of "average" the mean, of "maximum" the largest, of "rollout"
    what is left of each position; None: no head has a sink.
    """
    sinks = [maps.sink(layer, slice(head, head + 1)) for layer, head in heads]
    if any(sink is None for sink in sinks):
        return None
    if combination == "rollout":
        residual: bool = maps.trace.network.config.residual
        return 1 - rollout(maps, heads, residual).sum(dim=-1)
    every = torch.cat([sink for sink in sinks if sink is not None])
    return every.mean(dim=0) if combination == "average" else every.amax(dim=0)


def _accumulated(maps: Maps, heads: Heads, join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Maps joined one by one: never more than two of them are in memory."""
    if not heads:
        raise ValueError("there is no head to combine: choose at least one")
    return reduce(join, (maps.of(layer, slice(head, head + 1))[0] for layer, head in heads))


COMBINATIONS: dict[str, Callable[[Maps, Heads], Tensor]] = {"average": average, "maximum": maximum, "rollout": rollout}
