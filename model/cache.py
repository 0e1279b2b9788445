"""Keys and values kept between decoding steps, so that each step computes only the newest token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

KeysAndValues = tuple[Tensor, Tensor]  # each (batch, head, position, channel)


@dataclass
class GrowingCache:
    """Self-attention: the new token's key and value are added to those of the earlier ones."""

    kept: KeysAndValues | None = None

    def __call__(self, project: Callable[[Tensor], KeysAndValues], memory: Tensor) -> KeysAndValues:
        key, value = project(memory)
        if self.kept is not None:
            key, value = torch.cat([self.kept[0], key], dim=2), torch.cat([self.kept[1], value], dim=2)
        self.kept = key, value
        return self.kept

    def cut(self, length: int) -> None:
        """Forget all but the first `length` positions."""
        if self.kept is not None:
            self.kept = self.kept[0][:, :, :length], self.kept[1][:, :, :length]


@dataclass
class FixedCache:
    """Cross-attention: the encoder's output does not change, its keys and values are computed once."""

    kept: KeysAndValues | None = None

    def __call__(self, project: Callable[[Tensor], KeysAndValues], memory: Tensor) -> KeysAndValues:
        if self.kept is None:
            self.kept = project(memory)
        return self.kept


@dataclass
class LayerCache:
    self_attention: GrowingCache = field(default_factory=GrowingCache)
    cross_attention: FixedCache = field(default_factory=FixedCache)


class DecoderCache:
    """A cache per decoder layer, and how many positions are in it."""

    def __init__(self, n_layers: int) -> None:
        self.layers = [LayerCache() for _ in range(n_layers)]
        self.length = 0

    def cut(self, length: int) -> None:
        """Forget all but the first `length` positions."""
        if length < self.length:
            for layer in self.layers:
                layer.self_attention.cut(length)
            self.length = length
