"""Keys and values of earlier decoding steps (KV cache): each step computes those of the newest tokens only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

SPARE = 8  # free positions that are kept when rows of a batch are selected

KeysAndValues = tuple[Tensor, Tensor]  # each (batch, head, position, channel)
# From states (batch, length, d_model) and the position of the first of them to their keys and values.
Project = Callable[[Tensor, int], KeysAndValues]


@dataclass
class GrowingCache:
    """Cache of a self-attention: keys and values of new tokens are written after those of earlier ones.

    room: storage, twice as many positions as needed when it was last full. length: number of positions in use.
    """

    room: KeysAndValues | None = None
    length: int = 0

    def __call__(self, project: Project, memory: Float[Tensor, "batch new d_model"]) -> KeysAndValues:
        """Keys and values of all tokens until now, after those of `memory` are added."""
        new = project(memory, self.length)
        end = self.length + memory.shape[1]
        self.make_room(new, end)
        assert self.room is not None
        for room, added in zip(self.room, new, strict=True):
            room[:, :, self.length : end] = added
        self.length = end
        return self.room[0][:, :, :end], self.room[1][:, :, :end]

    def make_room(self, new: KeysAndValues, end: int) -> None:
        """Storage for positions up to `end`, of keys and values as `new`; those of earlier tokens stay."""
        if self.room is not None and end <= self.room[0].shape[2]:
            return
        key, value = (tensor.new_empty(*tensor.shape[:2], max(32, 2 * end), tensor.shape[3]) for tensor in new)
        if self.room is not None:
            key[:, :, : self.length] = self.room[0][:, :, : self.length]
            value[:, :, : self.length] = self.room[1][:, :, : self.length]
        self.room = key, value

    def first(self, queries: int) -> int:
        """Position of the first of the next `queries` queries, before they are added."""
        return self.length

    def cut(self, length: int) -> None:
        """Forget all but the first `length` positions."""
        self.length = min(self.length, length)

    def select(self, rows: Int[Tensor, row]) -> None:
        """Keep these rows of the batch, in this order."""
        if self.room is not None:
            key, value = (tensor[:, :, : self.length + SPARE].index_select(0, rows) for tensor in self.room)
            self.room = key, value


@dataclass
class FixedCache:
    """Cache of a cross-attention: keys and values of the encoder's output, which are computed once.

    beside: cache of the layer's self-attention, which comes first.
    """

    beside: GrowingCache
    keys_and_values: KeysAndValues | None = None
    length = 0  # queries and these keys have no common positions

    def __call__(self, project: Project, memory: Float[Tensor, "batch source d_model"]) -> KeysAndValues:
        """Keys and values of `memory`."""
        if self.keys_and_values is None:
            self.keys_and_values = project(memory, 0)
        return self.keys_and_values

    def first(self, queries: int) -> int:
        """Position of the first of the `queries` queries that the self-attention has just added."""
        return self.beside.length - queries

    def select(self, rows: Int[Tensor, row]) -> None:
        """Keep these rows of the batch, in this order."""
        if self.keys_and_values is not None:
            key, value = (tensor.index_select(0, rows) for tensor in self.keys_and_values)
            self.keys_and_values = key, value


Cache = GrowingCache | FixedCache


@dataclass
class LayerCache:
    """Caches of both attentions of a layer."""

    self_attention: GrowingCache = field(default_factory=GrowingCache)
    cross_attention: FixedCache = field(init=False)

    def __post_init__(self) -> None:
        self.cross_attention = FixedCache(self.self_attention)


class DecoderCache:
    """Caches of all layers of a decoder."""

    def __init__(self, n_layers: int) -> None:
        self.layers = [LayerCache() for _ in range(n_layers)]
        self.steps: dict[tuple[Any, ...], Callable[..., Any]] = {}  # of layers, see `kernels.Kernels`

    @property
    def length(self) -> int:
        """Number of target positions in the cache."""
        return self.layers[0].self_attention.length

    def cut(self, length: int) -> None:
        """Forget all but the first `length` positions."""
        for layer in self.layers:
            layer.self_attention.cut(length)

    def select(self, rows: Int[Tensor, row]) -> None:
        """Keep the targets at these rows of the batch, each with its own source."""
        for layer in self.layers:
            layer.self_attention.select(rows)

    def select_sources(self, rows: Int[Tensor, row]) -> None:
        """Keep the sources at these rows of the batch."""
        for layer in self.layers:
            layer.cross_attention.select(rows)
