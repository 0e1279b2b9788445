"""Grouped-query attention: heads share keys and values in groups (Ainslie et al., 2023)."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from model.experiments.variants import full as all_pairs
from model.experiments.variants.full import full
from model.experiments.variants.variant import AttentionOutput, Shape, Sizes, Variant
from model.message import say
from model.network.attention import for_each_head


def pooled(x: Float[Tensor, "*batch head length channel"], groups: int) -> Float[Tensor, "*batch group length channel"]:
    """Mean of the keys or values of each group of heads, by which a trained model becomes one (section 2.1)."""
    return x.unflatten(-3, (groups, -1)).mean(dim=-3)


def grouped(query: Tensor, key: Tensor, value: Tensor, visible: Tensor, groups: int) -> AttentionOutput:
    """Full attention of each head with the keys and values of its group."""
    heads = query.shape[-3]
    return full(query, for_each_head(pooled(key, groups), heads), for_each_head(pooled(value, groups), heads), visible)


def of_groups(key: str, name: str, source: str, groups: int) -> Variant:
    """Attention whose heads share `groups` heads of keys and values, or as many of these as divide their number."""

    def count(heads: int) -> int:
        return max(each for each in range(1, groups + 1) if heads % each == 0)

    def attend(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> AttentionOutput:
        return grouped(query, key, value, visible, count(query.shape[-3]))

    def quick(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return all_pairs.quick(query, *(for_each_head(pooled(x, count(len(query))), len(query)) for x in (key, value)))

    def cache_tensors(key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return tuple(pooled(x, count(key.shape[-3])) for x in (key, value))

    def cached(shape: Shape) -> int:
        return 2 * count(shape.heads) * shape.length * shape.width

    return Variant(
        key=key,
        name=name,
        formula=r"\mathrm{softmax}(Q_i K_{g(i)}^\top / \sqrt{d_k})\, V_{g(i)}",
        source=source,
        exponents=(2, 2),
        attend=attend,
        quick=quick,
        cache_tensors=cache_tensors,
        cached=cached,
        options={"n_key_value_heads": groups},
        code=(pooled, grouped),
    )


def variant(sizes: Sizes) -> Variant:
    """`sizes.groups` heads of keys and values."""
    return of_groups("grouped-query", say("grouped-query attention"), "Ainslie et al., 2023", sizes.groups)
