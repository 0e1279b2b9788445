"""Differential attention: the difference of two softmax maps, so that what both give to all keys cancels (Ye et al.,
2024, section 2.1).
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn

from model.experiments.variants import full as all_pairs
from model.experiments.variants.full import full
from model.experiments.variants.module import VariantAttention
from model.experiments.variants.variant import AttentionOutput, Sizes, Variant, all_cached, whole_cache
from model.message import say
from model.network.config import TransformerConfig


def first_lambda(layer: int) -> float:
    """λ_init = 0.8 − 0.6 exp(−0.3 (l − 1)) of layer l, counted from 1."""
    return 0.8 - 0.6 * math.exp(-0.3 * (layer - 1))


def differential(query: Tensor, key: Tensor, value: Tensor, visible: Tensor, factor: float | Tensor) -> AttentionOutput:
    """(softmax(Q₁ K₁ᵀ / √d) − λ softmax(Q₂ K₂ᵀ / √d)) V (equation 1), with λ = `factor`.

    Q₁, Q₂ and K₁, K₂ are the halves of the channels of queries and keys: a head of two narrow ones.
    """
    maps = [full(q, k, value, visible).weights for q, k in zip(query.chunk(2, -1), key.chunk(2, -1), strict=True)]
    weights = maps[0] - factor * maps[1]
    return AttentionOutput(weights @ value, weights)


def quick(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Two full attentions."""
    both = [all_pairs.quick(q, k, value) for q, k in zip(query.chunk(2, -1), key.chunk(2, -1), strict=True)]
    return both[0] - first_lambda(1) * both[1]


class DifferentialAttention(VariantAttention):
    """Differential attention with its trained λ (equation 2), and a norm of each head times 1 − λ_init (equation 3)."""

    def __init__(self, config: TransformerConfig, causal: bool, layer: int = 1) -> None:
        super().__init__(config, causal)
        self.first = first_lambda(layer)
        self.lambdas = nn.Parameter(torch.randn(4, config.d_head // 2) * 0.1)
        self.norm = nn.RMSNorm(config.d_head, eps=1e-5, elementwise_affine=False)

    def attended(self, query: Tensor, key: Tensor, value: Tensor, visible: Tensor, x: Tensor) -> Tensor:
        one, other = (self.lambdas[::2] * self.lambdas[1::2]).sum(dim=-1).exp()
        heads = differential(query, key, value, visible, one - other + self.first).heads
        return self.norm(heads) * (1 - self.first)


def variant(sizes: Sizes) -> Variant:
    """Differential attention, with the λ of a first layer where none is trained."""
    return Variant(
        key="differential",
        name=say("differential attention"),
        formula=r"(\mathrm{softmax}(Q_1 K_1^\top / \sqrt d) - \lambda\, \mathrm{softmax}(Q_2 K_2^\top / \sqrt d))\, V",
        source="Ye et al., 2024, section 2.1",
        exponents=(2, 2),
        attend=partial(differential, factor=first_lambda(1)),
        quick=quick,
        cache_tensors=whole_cache,
        cached=all_cached,
        module=DifferentialAttention,
        needs="λ",
        code=(first_lambda, differential),
    )
