"""Full attention, softmax(Q Kᵀ / √d_k) V: every query sees every key (Vaswani et al., 2017, equation 1)."""

from __future__ import annotations

import torch
from torch import Tensor

from model.experiments.variants.variant import AttentionOutput, Sizes, Variant, all_cached, softmax_where, whole_cache
from model.message import say


def full(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> AttentionOutput:
    """softmax(Q Kᵀ / √d_k) V over the visible keys."""
    scores = query @ key.mT / query.shape[-1] ** 0.5
    weights = softmax_where(scores, visible)
    return AttentionOutput(weights @ value, weights)


def quick(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """softmax(Q Kᵀ / √d_k) V with its map (query, key) in memory."""
    return torch.softmax(query @ key.mT / query.shape[-1] ** 0.5, dim=-1) @ value


def variant(sizes: Sizes) -> Variant:
    """Full attention."""
    return Variant(
        key="full",
        name=say("full attention"),
        formula=r"\mathrm{softmax}(Q K^\top / \sqrt{d_k})\, V",
        source="Vaswani et al., 2017, equation 1",
        exponents=(2, 2),
        attend=full,
        quick=quick,
        cache_tensors=whole_cache,
        cached=all_cached,
        options={},
        code=(full,),
    )
