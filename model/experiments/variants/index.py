"""Index of the attention variants."""

from __future__ import annotations

from model.experiments.variants import (
    additive,
    block_sparse,
    causal,
    differential,
    full,
    grouped_query,
    latent,
    linear,
    low_rank,
    lsh,
    multi_query,
    performer,
    sinks,
    sliding_window,
)
from model.experiments.variants.variant import Sizes, Variant

MODULES = (
    *(full, causal, sliding_window, sinks, block_sparse, lsh, low_rank, linear, performer),
    *(multi_query, grouped_query, latent, differential, additive),
)


def variants(sizes: Sizes) -> list[Variant]:
    """Every variant in these sizes; the first one is full attention."""
    return [module.variant(sizes) for module in MODULES]
