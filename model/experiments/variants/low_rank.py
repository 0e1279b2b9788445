"""Low-rank attention: keys and values of n tokens become those of k rows (Wang et al., 2020, Linformer, section 4)."""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from model.experiments.variants.module import VariantAttention
from model.experiments.variants.variant import AttentionOutput, Sizes, Variant
from model.message import say
from model.network.config import TransformerConfig


def pooling(rank: int, length: int, like: Tensor) -> Float[Tensor, "rank length"]:
    """Projection E = F that averages neighbouring tokens (section 4, "general projections")."""
    row = torch.arange(length, device=like.device) * min(rank, length) // length
    member = (row == torch.arange(min(rank, length), device=like.device)[:, None]).to(like)
    return member / member.sum(dim=-1, keepdim=True)


def low_rank(query: Tensor, key: Tensor, value: Tensor, visible: Tensor, projection: Tensor) -> AttentionOutput:
    """softmax(Q (E K)ᵀ / √d_k) E V; the softmax is over rows, so padding is taken out of K and V, and nothing else can
    be hidden.

    projection: E (rank, key).
    """
    seen = visible.any(dim=-2)[..., None].to(key)  # keys that some query may see
    scores = query @ (projection @ (key * seen)).mT / query.shape[-1] ** 0.5
    weights = scores.softmax(dim=-1) @ projection
    return AttentionOutput(weights @ (value * seen), weights * seen.mT)


def quick(query: Tensor, key: Tensor, value: Tensor, rank: int) -> Tensor:
    """n · k scores: rows are pooled first."""
    projection = pooling(rank, key.shape[-2], key)
    return (query @ (projection @ key).mT / query.shape[-1] ** 0.5).softmax(dim=-1) @ (projection @ value)


class LowRankAttention(VariantAttention):
    """Attention with a trained E for keys and F for values, of `rank` rows, shared by the heads."""

    def __init__(self, config: TransformerConfig, causal: bool, rank: int) -> None:
        super().__init__(config, causal)
        self.keys, self.values = (nn.Parameter(torch.empty(rank, config.max_length)) for _ in range(2))
        for projection in (self.keys, self.values):
            nn.init.normal_(projection, std=rank**-0.5)

    def attended(self, query: Tensor, key: Tensor, value: Tensor, visible: Tensor, x: Tensor) -> Tensor:
        seen = visible.any(dim=-2)[..., None].to(key)
        rows, mixed = (projection[:, : key.shape[-2]] for projection in (self.keys, self.values))
        scores = query @ (rows @ (key * seen)).mT / query.shape[-1] ** 0.5
        return scores.softmax(dim=-1) @ (mixed @ (value * seen))


def variant(sizes: Sizes) -> Variant:
    """Keys and values of `sizes.rank` rows."""
    rank = sizes.rank

    def attend(query: Tensor, key: Tensor, value: Tensor, visible: Tensor) -> AttentionOutput:
        return low_rank(query, key, value, visible, pooling(rank, key.shape[-2], key))

    return Variant(
        key="low-rank",
        name=say("low rank (Linformer)"),
        formula=r"\mathrm{softmax}(Q (E K)^\top / \sqrt{d_k})\, F V,\quad E, F \in \mathbb{R}^{k \times n}",
        source="Wang et al., 2020, section 4",
        exponents=(1, 1),
        attend=attend,
        quick=partial(quick, rank=rank),
        cache_tensors=None,
        cached=None,
        module=lambda config, causal: LowRankAttention(config, causal, rank),
        needs="E, F",
        code=(pooling, low_rank),
    )
