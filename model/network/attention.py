"""Multi-head attention (section 3.2), each quantity worth seeing the output of a small module."""

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

# From a query and a key to a weight, in their order. "capped" and "biased" are there where the model has them.
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
    """Scores times 1/√d_k, or times 1 when the scale is off (section 3.2.1)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.factor = config.d_head**-0.5 if config.scale_attention else 1.0

    def forward(self, scores: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
        return scores * self.factor


class Masked(nn.Module):
    """−∞ where a query may not look (section 3.2.3)."""

    def forward(
        self, scores: Float[Tensor, "*batch query key"], visible: Bool[Tensor, "*mask query key"]
    ) -> Float[Tensor, "*batch query key"]:
        return scores.masked_fill(~visible, -torch.inf)


class Weights(nn.Module):
    """Softmax over the keys; a query with nothing to look at gets zeros, never NaN."""

    def forward(
        self, masked: Float[Tensor, "*batch query key"], visible: Bool[Tensor, "*mask query key"]
    ) -> Float[Tensor, "*batch query key"]:
        return masked.softmax(dim=-1).masked_fill(~visible.any(dim=-1, keepdim=True), 0.0)


class MultiHeadAttention(nn.Module):
    """softmax(Q Kᵀ / √d_k) V in every head, then W^O on the heads side by side (section 3.2.2, equation 1).

    Queries come from `x`, keys and values from `memory`: the same tensor in self-attention, the
    encoder's output in cross-attention, where the two lengths may differ. causal: queries look at no later keys.
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

    def project(self, x: Tensor, memory: Tensor, cache: Cache | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of x, keys and values of what is cached and of `memory`: each (batch, head, length, channel)."""
        query = self.query(x, cache.length if cache else 0)
        key, value = cache(self.keys_and_values, memory) if cache else self.keys_and_values(memory)
        return query, key, value

    def keys_and_values(self, memory: Tensor, first: int = 0) -> KeysAndValues:
        """`first`: the position of the first token of `memory`."""
        return self.key(memory, first), self.value(memory)

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask
    ) -> Float[Tensor, "batch head query channel"]:
        """Equation 1 step by step; holds (batch, head, query, key) in memory."""
        visible = mask.visible(query.shape[-2], key.shape[-2], query.device)
        masked = self.masked(self.biased(self.scaled(self.scores(query, key))), visible)
        weights = self.weights(masked, visible)
        return dropout(weights, self.dropout, self.training) @ for_each_head(value, query.shape[1])

    @property
    def maps(self) -> list[str]:
        """The steps from a query and a key to a weight, in their order."""
        steps = {name: getattr(self, name, None) for name in MAPS}
        return [name for name, step in steps.items() if step is not None and not isinstance(step, Unbiased)]

    def steps(
        self, query: Tensor, key: Tensor, visible: Tensor, bias: Tensor | None = None
    ) -> Iterator[tuple[str, Float[Tensor, "*batch head query key"]]]:
        """Each map by its name, from a query and a key. bias: the positions' part of the scores, unless `biased` itself
        is to compute it.
        """
        tensor, others = query, {"scores": (key,), "masked": (visible,), "weights": (visible,)}
        for name in self.maps:
            if name == "biased" and bias is not None:
                tensor = tensor + bias
            else:
                tensor = getattr(self, name)(tensor, *others.get(name, ()))
            yield name, tensor


# From the residual stream to queries, keys and values, head by head.


class HeadProjection(nn.Linear):
    """x W + b, split into heads: (batch, length, d_model) to (batch, head, length, channel)."""

    def __init__(self, config: TransformerConfig, n_heads: int) -> None:
        super().__init__(config.d_model, n_heads * config.d_head, bias=config.attention_biases[0])
        self.n_heads = n_heads

    def forward(
        self, x: Float[Tensor, "batch length d_model"], first: int = 0
    ) -> Float[Tensor, "batch head length channel"]:
        """`first`: the position of the first of these tokens."""
        return self.split(super().forward(x), first)

    def split(
        self, projected: Float[Tensor, "batch length channels"], first: int = 0
    ) -> Float[Tensor, "batch head length channel"]:
        """What the product gives, head by head."""
        batch, length, _ = projected.shape
        return projected.view(batch, length, self.n_heads, -1).transpose(1, 2)


class TurnedProjection(HeadProjection):
    """A query or key whose length is normalised (QK-norm; Henry et al., 2020) or which is turned to its position."""

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
    """The projection whose products become scores. Source and target have no common positions to turn to."""
    rotary = config.position == "rotary" and not cross
    if rotary or config.qk_norm:
        return TurnedProjection(config, n_heads, rotary)
    return HeadProjection(config, n_heads)


def for_each_head(
    shared: Float[Tensor, "*batch kv_head length channel"], n_heads: int
) -> Float[Tensor, "*batch head length channel"]:
    """Keys or values with one entry per head, where heads share them in groups (Ainslie et al., 2023)."""
    groups = shared.shape[-3]
    return shared if groups == n_heads else shared.repeat_interleave(n_heads // groups, dim=-3)


def side_by_side(heads: Float[Tensor, "batch head query channel"]) -> Float[Tensor, "batch query channels"]:
    """The heads' outputs one beside another, as W^O reads them."""
    return heads.transpose(1, 2).flatten(2)
