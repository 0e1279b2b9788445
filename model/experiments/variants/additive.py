"""Additive attention: scores v·tanh(q + k), with W and U of the source as W_Q and W_K (Bahdanau et al., 2015, appendix
A.1.2).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.experiments.variants.module import VariantAttention
from model.experiments.variants.variant import AttentionOutput, Sizes, Variant, all_cached, softmax_where, whole_cache
from model.message import say
from model.network.config import TransformerConfig


def additive(query: Tensor, key: Tensor, value: Tensor, visible: Tensor, v: Tensor) -> AttentionOutput:
    """softmax(v·tanh(q + k)) V. v: (head, channel), or (channel) for all heads."""
    sums = torch.tanh(query[..., :, None, :] + key[..., None, :, :])  # (*batch, head, query, key, channel)
    weights = softmax_where((sums * v[..., None, None, :]).sum(dim=-1), visible)
    return AttentionOutput(weights @ value, weights)


def untrained(like: Tensor) -> Tensor:
    """v of ones, where none is trained."""
    return like.new_ones(like.shape[-1])


def quick(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Additive attention a head at a time, for it takes n² d numbers."""
    heads = []
    for q, k, v in zip(query, key, value, strict=True):
        scores = torch.tanh(q[:, None] + k[None]).sum(dim=-1)
        heads.append(scores.softmax(dim=-1) @ v)
    return torch.stack(heads)


class AdditiveAttention(VariantAttention):
    """Additive attention with a trained v for each head."""

    def __init__(self, config: TransformerConfig, causal: bool) -> None:
        super().__init__(config, causal)
        self.v = nn.Parameter(torch.empty(config.n_heads, config.d_head))
        nn.init.xavier_uniform_(self.v)

    def attended(self, query: Tensor, key: Tensor, value: Tensor, visible: Tensor, x: Tensor) -> Tensor:
        return additive(query, key, value, visible, self.v).heads


def variant(sizes: Sizes) -> Variant:
    """Additive attention, with v of ones where none is trained."""
    return Variant(
        key="additive",
        name=say("additive attention"),
        formula=r"\mathrm{softmax}(v^\top \tanh(q_i + k_j))\, V",
        source="Bahdanau et al., 2015, appendix A.1.2",
        exponents=(2, 2),
        attend=lambda q, k, value, visible: additive(q, k, value, visible, untrained(q)),
        quick=quick,
        cache_tensors=whole_cache,
        cached=all_cached,
        module=AdditiveAttention,
        needs="v",
        code=(additive,),
    )
