"""Linear attention: φ(Q) (φ(K)ᵀ V) with φ = elu + 1, without a softmax (Katharopoulos et al., 2020, section 3.2)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from model.experiments.variants.variant import AttentionOutput, Shape, Sizes, Variant
from model.message import say


def features(x: Tensor) -> Tensor:
    """φ(x) = elu(x) + 1, above 0."""
    return F.elu(x) + 1


def linear(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> AttentionOutput:
    """φ(q)·φ(k) over its sum, in the place of the softmax."""
    return by_features(features(query), features(key), value, visible)


def by_features(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> AttentionOutput:
    """Weights as products of features, which are above 0, over their sum; zeros for a query that may look nowhere."""
    products = query @ key.mT * visible
    weights = products / products.sum(dim=-1, keepdim=True).masked_fill(~visible.any(dim=-1, keepdim=True), 1.0)
    return AttentionOutput(weights @ value, weights)


def quick(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """(φ(Q) (φ(K)ᵀ V)) over φ(Q) Σ φ(K): the brackets that make it n d²."""
    return in_brackets(features(query), features(key), value)


def in_brackets(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Heads of features with the product of keys and values first."""
    return query @ (key.mT @ value) / (query @ key.sum(dim=-2, keepdim=True).mT)


def variant(sizes: Sizes) -> Variant:
    """Linear attention."""

    def cache_tensors(key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return features(key).mT @ value, features(key).sum(dim=-2)

    def cached(shape: Shape) -> int:
        return shape.heads * shape.width * (shape.width + 1)

    return Variant(
        key="linear",
        name=say("linear attention"),
        formula=r"\frac{\phi(Q)\,(\phi(K)^\top V)}{\phi(Q) \sum_j \phi(k_j)},\quad \phi(x) = \mathrm{elu}(x) + 1",
        source="Katharopoulos et al., 2020, section 3.2",
        exponents=(1, 1),
        attend=linear,
        quick=quick,
        cache_tensors=cache_tensors,
        cached=cached,
        code=(features, linear, in_brackets),
    )
