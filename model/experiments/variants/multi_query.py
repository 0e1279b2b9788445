"""Multi-query attention: all heads share one head of keys and values (Shazeer, 2019)."""

from __future__ import annotations

from model.experiments.variants.grouped_query import of_groups
from model.experiments.variants.variant import Sizes, Variant
from model.message import say


def variant(sizes: Sizes) -> Variant:
    """One head of keys and values: grouped-query attention with one group."""
    return of_groups("multi-query", say("multi-query attention"), "Shazeer, 2019", 1)
