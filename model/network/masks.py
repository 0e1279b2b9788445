"""Which keys each query may look at. True = may look."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

# From the positions of queries (query, 1) and of keys (1, key): True where a query may look.
Pattern = Callable[[Tensor, Tensor], Tensor]
# Cells of a mask (head, query, key), None for all, and whether they are to be seen.
Edit = tuple[int | None, int | None, int | None, bool]


Made = TypeVar("Made")


@dataclass(frozen=True)
class Mask:
    """A rule for one attention, turned into a tensor only when a tensor is needed.

    keys: (batch, key), False on padding; None when there is no padding.
    causal: a query at position i sees keys at positions up to i (section 3.2.3).
    window: a query sees keys less than this far away (Beltagy et al., 2020, section 3.1); None: however far.
    pattern: any further rule over positions.
    """

    keys: Tensor | None = None
    causal: bool = False
    window: int | None = None
    pattern: Pattern | None = None
    _made: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def visible(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "batch head query key"]:
        """The rule as a tensor, True where a query may look; batch is 1 when there is no padding, head where one rule
        serves all heads.
        """
        if torch.compiler.is_compiling():  # a length that is looked up would be compiled for that length alone
            return self._make(queries, keys, device)
        return self.once((queries, keys), lambda: self._make(queries, keys, device))

    def once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` gives, made once for all layers of a pass."""
        if key not in self._made:
            self._made[key] = make()
        made: Made = self._made[key]
        return made

    def is_plain(self, queries: int, keys: int) -> bool:
        """Whether this is no mask at all, or the causal one of as many queries as keys."""
        near = self.window is None or self.window >= keys
        aligned = not self.causal or queries in (1, keys)  # a single query is the newest token and sees all
        return self.keys is None and self.pattern is None and near and aligned

    def _make(self, queries: int, keys: int, device: torch.device) -> Tensor:
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


def positions(
    queries: int, keys: int, device: torch.device | None = None
) -> tuple[Int[Tensor, "query 1"], Int[Tensor, "1 key"]]:
    """Where queries and keys stand: the last query at the last key, so that with more keys the first are earlier."""
    place = torch.arange(min(0, keys - queries), keys, device=device)
    return place[-queries:, None], place[None, -keys:]


def real_tokens(ids: Int[Tensor, "batch length"], padding: int) -> Bool[Tensor, "batch length"] | None:
    """True on real tokens, or None when nothing in the batch is padding."""
    real = ids != padding
    return None if bool(real.all()) else real
