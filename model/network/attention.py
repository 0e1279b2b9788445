"""Multi-head attention (section 3.2): each step of equation 1 is a module of its own."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from model.network.config import TransformerConfig
from model.network.dropout import dropout
from model.network.kernels import kernels
from model.network.kv_cache import Cache, KeysAndValues
from model.network.masks import Mask
from model.network.positions import Unbiased, position_bias, turning

# Maps (query, key) from scores to weights, in order of computation; an attention has those that it needs.
MAPS = ("scores", "scaled", "capped", "biased", "masked", "weights")


class Scores(nn.Module):
    """Q Kᵀ: the dot product of every query with every key."""

    def forward(
        self,
        query: Float[Tensor, "*batch head query channel"],
        key: Float[Tensor, "*batch kv_head key channel"],
    ) -> Float[Tensor, "*batch head query key"]:
        return query @ for_each_head(key, query.shape[-3]).mT


class Scaled(nn.Module):
    """Scores times 1/√d_k (section 3.2.1), or times 1 when the scale is off."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.factor = config.d_head**-0.5 if config.scale_attention else 1.0

    def forward(self, scores: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
        return scores * self.factor


class Masked(nn.Module):
    """Scores, −∞ where a query may not look (section 3.2.3)."""

    def forward(
        self, scores: Float[Tensor, "*batch query key"], visible: Bool[Tensor, "*mask query key"]
    ) -> Float[Tensor, "*batch query key"]:
        return scores.masked_fill(~visible, -torch.inf)


class Weights(nn.Module):
    """Softmax over the keys; zeros, not NaN, for a query that may look nowhere."""

    def forward(
        self, masked: Float[Tensor, "*batch query key"], visible: Bool[Tensor, "*mask query key"]
    ) -> Float[Tensor, "*batch query key"]:
        return masked.softmax(dim=-1).masked_fill(~visible.any(dim=-1, keepdim=True), 0.0)


class MultiHeadAttention(nn.Module):
    """Concat(head₁, …, head_h) W^O with head_i = softmax(Q_i K_iᵀ / √d_k) V_i (section 3.2.2, equation 1).

    Queries are projected from `x`, keys and values from `memory`: the same tensor in self-attention, the encoder's
    output, of a length of its own, in cross-attention. causal: queries see no later keys.
    """

    def __init__(self, config: TransformerConfig, cross: bool = False, causal: bool = False) -> None:
        super().__init__()
        self.dropout = config.attention_dropout
        self.query = query_or_key(config, config.n_heads, cross)
        self.key = query_or_key(config, config.kv_heads, cross)
        self.value = HeadProjection(config, config.kv_heads)
        self.scores = Scores()
        self.scaled = Scaled(config)
        self.biased = position_bias(config, cross, causal)
        self.masked = Masked()
        self.weights = Weights()
        self.heads = nn.Identity()
        self.output = nn.Linear(config.n_heads * config.d_head, config.d_model, bias=config.attention_biases[1])

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"],
        mask: Mask,
        cache: Cache | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        query, key, value = kernels().project(self, x, memory, cache)
        heads = self.heads(kernels().attend(self, query, key, value, mask))
        return self.output(side_by_side(heads))

    def project(
        self, x: Float[Tensor, "batch query d_model"], memory: Float[Tensor, "batch key d_model"], cache: Cache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of `x`, keys and values of `memory` after those in the cache: each (batch, head, length, channel)."""
        query = self.query(x, cache.length if cache else 0)
        key, value = cache(self.keys_and_values, memory) if cache else self.keys_and_values(memory)
        return query, key, value

    def keys_and_values(self, memory: Float[Tensor, "batch key d_model"], first: int = 0) -> KeysAndValues:
        """Keys and values of `memory`, whose first token stands at position `first`."""
        return self.key(memory, first), self.value(memory)

    def attend(
        self,
        query: Float[Tensor, "batch head query channel"],
        key: Float[Tensor, "batch kv_head key channel"],
        value: Float[Tensor, "batch kv_head key channel"],
        mask: Mask,
    ) -> Float[Tensor, "batch head query channel"]:
        """softmax(Q Kᵀ / √d_k) V of every head, step by step (equation 1)."""
        visible = mask.visible(query.shape[-2], key.shape[-2], query.device)
        masked = self.masked(self.biased(self.scaled(self.scores(query, key))), visible)
        weights = self.weights(masked, visible)
        return dropout(weights, self.dropout, self.training) @ for_each_head(value, query.shape[1])

    @property
    def maps(self) -> list[str]:
        """Names of the maps that this attention computes, in order of computation."""
        return [name for name in MAPS if hasattr(self, name) and not isinstance(getattr(self, name), Unbiased)]

    def steps(
        self,
        query: Float[Tensor, "*batch head query channel"],
        key: Float[Tensor, "*batch kv_head key channel"],
        visible: Bool[Tensor, "*mask query key"],
        bias: Float[Tensor, "#head query key"] | None = None,
    ) -> Iterator[tuple[str, Float[Tensor, "*batch head query key"]]]:
        """Maps by name, in order of computation. bias: added for the positions in the place of `biased`."""
        tensor, arguments = query, {"scores": (key,), "masked": (visible,), "weights": (visible,)}
        for name in self.maps:
            if name == "biased" and bias is not None:
                tensor = tensor + bias
            else:
                tensor = getattr(self, name)(tensor, *arguments.get(name, ()))
            yield name, tensor


# From the residual stream to queries, keys and values, head by head.


class HeadProjection(nn.Linear):
    """x W + b of every head: W^Q, W^K or W^V of all heads in one matrix (section 3.2.2).

    `first` is the position of the first token of `x`.
    """

    def __init__(self, config: TransformerConfig, n_heads: int) -> None:
        super().__init__(config.d_model, n_heads * config.d_head, bias=config.attention_biases[0])
        self.n_heads = n_heads

    def forward(
        self, x: Float[Tensor, "batch length d_model"], first: int = 0
    ) -> Float[Tensor, "batch head length channel"]:
        return self.split(super().forward(x), first)

    def split(
        self, projected: Float[Tensor, "batch length channels"], first: int = 0
    ) -> Float[Tensor, "batch head length channel"]:
        """Heads of the product x W + b."""
        batch, length, _ = projected.shape
        return projected.view(batch, length, self.n_heads, -1).transpose(1, 2)


class TurnedProjection(HeadProjection):
    """Queries or keys, normalised (QK-norm), turned to their positions (rotary), or both.

    The norm is RMSNorm over a head's channels with a gain for each, before 1/√d_k. Henry et al. (2020), who named
    QK-norm, make both of length 1 instead (ℓ2) and multiply the scores by one learnt number in the place of 1/√d_k.
    """

    def __init__(self, config: TransformerConfig, n_heads: int, rotary: bool) -> None:
        super().__init__(config, n_heads)
        self.norm = nn.RMSNorm(config.d_head, eps=config.norm_epsilon) if config.qk_norm else nn.Identity()
        self.rotation = turning(config) if rotary else None

    def split(
        self, projected: Float[Tensor, "batch length channels"], first: int = 0
    ) -> Float[Tensor, "batch head length channel"]:
        heads = self.norm(super().split(projected, first))
        return self.rotation(heads, first) if self.rotation else heads


def query_or_key(config: TransformerConfig, n_heads: int, cross: bool) -> HeadProjection:
    """Projection to queries or keys. In cross-attention none is turned: source and target share no positions."""
    rotary = config.position == "rotary" and not cross
    if rotary or config.qk_norm:
        return TurnedProjection(config, n_heads, rotary)
    return HeadProjection(config, n_heads)


def for_each_head(
    shared: Float[Tensor, "*batch kv_head length channel"], n_heads: int
) -> Float[Tensor, "*batch head length channel"]:
    """Keys or values of every head, repeated where heads share them in groups (Ainslie et al., 2023)."""
    groups = shared.shape[-3]
    return shared if groups == n_heads else shared.repeat_interleave(n_heads // groups, dim=-3)


def side_by_side(heads: Float[Tensor, "batch head query channel"]) -> Float[Tensor, "batch query channels"]:
    """Concat(head₁, …, head_h), as W^O reads it."""
    return heads.transpose(1, 2).flatten(2)
