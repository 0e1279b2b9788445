"""Which keys each query may look at. True = may look."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@dataclass(frozen=True)
class Mask:
    """A rule for one attention, turned into a tensor only when a tensor is needed.

    keys: (batch, key), False on padding; None when there is no padding.
    causal: a query at position i sees keys at positions up to i (section 3.2.3).
    """

    keys: Tensor | None = None
    causal: bool = False
    _made: dict[tuple[int, int], Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    def visible(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "batch 1 query key"]:
        """The rule as a tensor, True where a query may look; batch is 1 when there is no padding."""
        if (queries, keys) not in self._made:  # once for all layers of a pass
            self._made[queries, keys] = self._make(queries, keys, device)
        return self._made[queries, keys]

    def _make(self, queries: int, keys: int, device: torch.device) -> Tensor:
        visible = torch.ones(queries, keys, dtype=torch.bool, device=device)
        if self.causal:
            visible = causal(queries, keys, device)
        if self.keys is None:
            return visible[None, None]
        return visible & self.keys[:, None, None, :]


def causal(queries: int, keys: int, device: torch.device | None = None) -> Bool[Tensor, "query key"]:
    """No query sees a later key (section 3.2.3): True on and below the diagonal.

    The last query stands at the last key's position; with more keys than queries the first keys are earlier tokens.
    """
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def real_tokens(ids: Int[Tensor, "batch length"], padding: int) -> Bool[Tensor, "batch length"] | None:
    """True on real tokens, or None when nothing in the batch is padding."""
    real = ids != padding
    return None if bool(real.all()) else real
