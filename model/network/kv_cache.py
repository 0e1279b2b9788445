"""Keys and values kept between decoding steps, so that each step computes only the newest token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

SPARE = 8  # free positions that stay where rows of a batch are chosen

KeysAndValues = tuple[Tensor, Tensor]  # each (batch, head, position, channel)
Project = Callable[[Tensor, int], KeysAndValues]  # from hidden states and the position of the first


@dataclass
class GrowingCache:
    """Self-attention: the new tokens' keys and values are written behind those of the earlier ones."""

    room: KeysAndValues | None = None  # twice as many positions whenever they are full
    length: int = 0

    def __call__(self, project: Project, memory: Tensor) -> KeysAndValues:
        new = project(memory, self.length)
        end = self.length + memory.shape[1]
        if self.room is None or end > self.room[0].shape[2]:
            self.room = self._larger(new, end)
        for room, added in zip(self.room, new, strict=True):
            room[:, :, self.length : end] = added
        self.length = end
        return self.room[0][:, :, :end], self.room[1][:, :, :end]

    def _larger(self, new: KeysAndValues, end: int) -> KeysAndValues:
        key, value = (each.new_empty(*each.shape[:2], max(32, 2 * end), each.shape[3]) for each in new)
        if self.room is not None:
            key[:, :, : self.length] = self.room[0][:, :, : self.length]
            value[:, :, : self.length] = self.room[1][:, :, : self.length]
        return key, value

    def first(self, queries: int) -> int:
        """The position of the first of so many queries, before they are fed."""
        return self.length

    def cut(self, length: int) -> None:
        """Forget all but the first `length` positions."""
        self.length = min(self.length, length)

    def select(self, rows: Tensor) -> None:
        """Go on with these rows of the batch; of the free positions only a few are copied."""
        if self.room is not None:
            key, value = (each[:, :, : self.length + SPARE].index_select(0, rows) for each in self.room)
            self.room = key, value


@dataclass
class FixedCache:
    """Cross-attention: the encoder's output does not change, its keys and values are computed once.

    beside: the cache of the layer's self-attention, which is fed first.
    """

    beside: GrowingCache
    kept: KeysAndValues | None = None
    length = 0  # no query stands behind these keys

    def __call__(self, project: Project, memory: Tensor) -> KeysAndValues:
        if self.kept is None:
            self.kept = project(memory, 0)
        return self.kept

    def first(self, queries: int) -> int:
        """The position of the first of so many queries."""
        return self.beside.length - queries

    def select(self, rows: Tensor) -> None:
        """Go on with these rows of the batch."""
        if self.kept is not None:
            self.kept = self.kept[0].index_select(0, rows), self.kept[1].index_select(0, rows)


Cache = GrowingCache | FixedCache


@dataclass
class LayerCache:
    self_attention: GrowingCache = field(default_factory=GrowingCache)
    cross_attention: FixedCache = field(init=False)

    def __post_init__(self) -> None:
        self.cross_attention = FixedCache(self.self_attention)


class DecoderCache:
    """A cache per decoder layer, and how many positions are in it."""

    def __init__(self, n_layers: int) -> None:
        self.layers = [LayerCache() for _ in range(n_layers)]
        self.length = 0
        self.steps: dict[tuple[Any, ...], Callable[..., Any]] = {}  # of layers, see `kernels.Kernels`

    def cut(self, length: int) -> None:
        """Forget all but the first `length` positions."""
        if length < self.length:
            for layer in self.layers:
                layer.self_attention.cut(length)
            self.length = length

    def select(self, rows: Tensor) -> None:
        """Go on with the targets at these rows, each still of the same source."""
        for layer in self.layers:
            layer.self_attention.select(rows)

    def select_sources(self, rows: Tensor) -> None:
        """Go on with the sources at these rows."""
        for layer in self.layers:
            layer.cross_attention.select(rows)
