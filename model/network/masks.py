"""Masks of attention: True where a query may look at a key. The paper has the causal one alone (section 3.2.3)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

# From positions of queries (query, 1) and of keys (1, key) to a mask (query, key), True where a query may look.
Pattern = Callable[[Tensor, Tensor], Tensor]
# Head, query and key of cells of a mask, None for all of them, and whether the cells are visible.
Edit = tuple[int | None, int | None, int | None, bool]

Value = TypeVar("Value")


@dataclass(frozen=True)
class Mask:
    """Rule of which keys the queries of an attention may look at; `visible` is its tensor.

    keys: (batch, key), False on padding; None when there is no padding.
    causal: a query at position i sees keys at positions up to i (section 3.2.3).
    window: a query sees keys less than this far away (Beltagy et al., 2020, section 3.1); None: all.
    pattern: a further rule over positions.
    """

    keys: Tensor | None = None
    causal: bool = False
    window: int | None = None
    pattern: Pattern | None = None
    _values: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def visible(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "batch head query key"]:
        """True where a query may look; batch is 1 without padding, head is 1 where all heads have the same rule."""
        if torch.compiler.is_compiling():  # a length that is looked up would be compiled for that length alone
            return self._make(queries, keys, device)
        return self.once((queries, keys), lambda: self._make(queries, keys, device))

    def once(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Result of `compute`, which is called once for all layers of a pass; key: tells results apart."""
        if key not in self._values:
            self._values[key] = compute()
        value: Value = self._values[key]
        return value

    def is_plain(self, queries: int, keys: int) -> bool:
        """True if all keys are visible, or the rule is the causal one for as many queries as keys."""
        near = self.window is None or self.window >= keys
        aligned = not self.causal or queries in (1, keys)  # a single query is the newest token and sees all
        return self.keys is None and self.pattern is None and near and aligned

    def _make(self, queries: int, keys: int, device: torch.device) -> Tensor:
        """Visible cells (query, key): for a causal mask the triangle key ≤ query, without padding."""
        query, key = positions(queries, keys, device)
        visible = torch.ones(queries, keys, dtype=torch.bool, device=device)
        if self.causal:
            visible &= key <= query
        if self.window is not None:
            visible &= (query - key).abs() < self.window
        if self.pattern is not None:
            visible &= self.pattern(query, key)
        if self.keys is None:
            return visible[None, None]
        return visible & self.keys[:, None, None, :]


class FixedMask(Mask):
    """Mask (batch, head, query, key) that no rule gives."""

    def __init__(self, fixed: Bool[Tensor, "batch head query key"]) -> None:
        super().__init__()
        object.__setattr__(self, "fixed", fixed)

    def visible(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "batch head query key"]:
        fixed: Tensor = self.__dict__["fixed"]
        return fixed

    def is_plain(self, queries: int, keys: int) -> bool:
        return False


def positions(
    queries: int, keys: int, device: torch.device | None = None
) -> tuple[Int[Tensor, "query 1"], Int[Tensor, "1 key"]]:
    """Positions of queries and keys; the last query stands at the last key."""
    all_positions = torch.arange(min(0, keys - queries), keys, device=device)
    return all_positions[-queries:, None], all_positions[None, -keys:]


def real_tokens(ids: Int[Tensor, "batch length"], padding: int) -> Bool[Tensor, "batch length"] | None:
    """True on real tokens, False on padding; None when there is no padding in the batch."""
    real = ids != padding
    return None if bool(real.all()) else real
