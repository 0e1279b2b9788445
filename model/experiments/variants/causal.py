"""Causal attention: a query sees its own key and earlier ones (Vaswani et al., 2017, section 3.2.3)."""

from __future__ import annotations

from torch import Tensor

from model.experiments.variants.full import full
from model.experiments.variants.variant import (
    AttentionOutput,
    Sizes,
    Variant,
    all_cached,
    places,
    softmax_where,
    whole_cache,
)
from model.message import say


def causal(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> AttentionOutput:
    """Full attention over keys that are not later than the query."""
    at, seen = places(query.shape[-2], key.shape[-2], query.device)
    return full(query, key, value, visible & (seen <= at))


def quick(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """All scores, of which half are then hidden: as many operations as without the mask."""
    at, seen = places(query.shape[-2], key.shape[-2], query.device)
    return softmax_where(query @ key.mT / query.shape[-1] ** 0.5, seen <= at) @ value


def variant(sizes: Sizes) -> Variant:
    """Causal attention."""
    return Variant(
        key="causal",
        name=say("causal attention"),
        formula=r"j \le i",
        source="Vaswani et al., 2017, section 3.2.3",
        exponents=(2, 2),
        attend=causal,
        quick=quick,
        cache_tensors=whole_cache,
        cached=all_cached,
        code=(causal,),
    )
