"""Multi-head attention (section 3.2), each quantity worth seeing the output of a small module."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from model.capture.hooks import is_watched, no_recording
from model.fast.attention import apart, in_one_product, self_attention
from model.network.config import TransformerConfig
from model.network.dropout import dropout
from model.network.kv_cache import Cache, KeysAndValues
from model.network.masks import Mask
from model.network.positions import RelativeBias, Unbiased, position_bias, turning

# Up to so many tokens, training on a CPU is quicker in plain products than in torch's fused kernel (AVX-512, measured).
TRAINED_IN_PRODUCTS = {torch.float32: 64, torch.bfloat16: 512}
SMALL = 1 << 16  # weights: below, calls cost more than products, see joint_attention
# From a query and a key to a weight, in their order. "capped" and "biased" are there where the model has them.
MAPS = ("scores", "scaled", "capped", "biased", "masked", "weights")
# True while a view or an intervention needs scores and weights to be computed inside the forward pass.
explicit_attention: ContextVar[bool] = ContextVar("explicit_attention", default=False)


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
        turned, shared = isinstance(self.query, TurnedProjection), config.kv_heads != config.n_heads
        self.joins = not turned and not shared and isinstance(self.biased, Unbiased)

    def forward(
        self,
        x: Float[Tensor, "batch query d_model"],
        memory: Float[Tensor, "batch key d_model"],
        mask: Mask,
        cache: Cache | None = None,
    ) -> Float[Tensor, "batch query d_model"]:
        compiling = torch.compiler.is_compiling()  # what is compiled is only trained
        asked = not compiling and explicit_attention.get()
        small = self.training and self.query.weight.numel() < SMALL
        if small and x is memory and cache is None and not asked and (compiling or not is_watched()):
            return self.output(self.learnt(x, mask))
        query = self.query(x, cache.length if cache else 0)
        key, value = cache(self.project, memory) if cache else self.project(memory)
        attend = self.explicit if asked else self.quickest(query, key)
        heads = self.heads(attend(query, key, value, mask))
        return self.output(heads.transpose(1, 2).flatten(2))

    def learnt(self, x: Float[Tensor, "batch length d_model"], mask: Mask) -> Float[Tensor, "batch length d_heads"]:
        """The heads side by side, of a small model that learns: there calls and copies take longer than products.

        Hooks on the modules inside are not called.
        """
        projected, length = in_one_product(x, self.query, self.key, self.value), x.shape[1]
        simple = self.joins and not self.dropout and trained_in_products(projected, length)
        if simple and (added := mask.added(length, length, projected)) is not None:
            return self_attention(projected, added, self.scaled.factor, self.query.n_heads)
        query, key, value = apart(projected, self.query, self.key, self.value)
        return self.quickest(query, key)(query, key, value, mask).transpose(1, 2).flatten(2)

    @property
    def maps(self) -> list[str]:
        """The steps from a query and a key to a weight, in their order."""
        steps = {name: getattr(self, name, None) for name in MAPS}
        return [name for name, step in steps.items() if step is not None and not isinstance(step, Unbiased)]

    def step(
        self, last: str, query: Tensor, key: Tensor, visible: Tensor, bias: tuple[Tensor, ...] = ()
    ) -> Float[Tensor, "*batch head query key"]:
        """The map of this name, from a query and a key. bias: what the positions add, where that is not known here."""
        tensor, given = query, {"scores": (key,), "biased": bias, "masked": (visible,), "weights": (visible,)}
        maps = self.maps
        for part in maps[: maps.index(last) + 1]:
            tensor = getattr(self, part)(tensor, *given.get(part, ()))
        return tensor

    def project(self, memory: Tensor, first: int = 0) -> KeysAndValues:
        """`first`: the position of the first token of `memory`."""
        return self.key(memory, first), self.value(memory)

    def explicit(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        """Equation 1 step by step; holds (batch, head, query, key) in memory."""
        visible = mask.visible(query.shape[-2], key.shape[-2], query.device)
        masked = self.masked(self.biased(self.scaled(self.scores(query, key))), visible)
        weights = self.weights(masked, visible)
        return dropout(weights, self.dropout, self.training) @ for_each_head(value, query.shape[1])

    def unseen(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        """The same; none of it is kept."""
        with no_recording():
            return self.explicit(query, key, value, mask)

    def quickest(self, query: Tensor, key: Tensor) -> Callable[[Tensor, Tensor, Tensor, Mask], Tensor]:
        """Of two ways to the same heads the one that is quicker here."""
        if not self.training and isinstance(self.biased, RelativeBias):
            return self.unseen  # torch's kernel rounds a bias otherwise, which mT5's large logits would show
        if not self.training or query.device.type != "cpu":
            return self.fused
        # With dropout, torch's kernel takes the same steps on the CPU, and draws from the whole process's generator.
        is_short = trained_in_products(query, max(query.shape[-2], key.shape[-2]))
        return self.products if is_short or self.dropout else self.fused

    def products(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        """Equation 1 as two products and a softmax, the mask added to the scores."""
        n_heads, queries, keys = query.shape[1], query.shape[-2], key.shape[-2]
        added, bias = mask.added(queries, keys, query), self.biased.bias(queries, keys, query)
        blind = None
        if torch.compiler.is_compiling():  # code that is compiled cannot ask whether there are blind queries
            visible, blind = mask.opened(queries, keys, query.device)
            added = torch.zeros_like(visible, dtype=query.dtype).masked_fill(~visible, -torch.inf)
        if added is None:
            return self.explicit(query, key, value, mask) if self.dropout else self.fused(query, key, value, mask)
        scores = query * self.scaled.factor @ for_each_head(key, n_heads).mT
        weights = (scores + (added if bias is None else added + bias)).softmax(dim=-1)
        heads = dropout(weights, self.dropout, self.training) @ for_each_head(value, n_heads)
        return heads if blind is None else heads.masked_fill(blind, 0.0)

    def fused(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        """Equation 1 in one kernel, nothing of size query × key kept."""
        queries, keys = query.shape[-2], key.shape[-2]
        bias = self.biased.bias(queries, keys, query)
        options: dict[str, Any] = {
            "dropout_p": self.dropout if self.training else 0.0,
            "scale": self.scaled.factor,
            "enable_gqa": key.shape[1] != query.shape[1],
        }
        if bias is not None or not mask.is_plain(queries, keys):
            return masked_kernel(query, key, value, mask, bias, **options)
        if mask.causal and queries > 1:  # compiled, this comparison is no bool that could be handed on
            options["is_causal"] = True
        return F.scaled_dot_product_attention(query, key, value, **options)


def trained_in_products(like: Tensor, longest: int) -> bool:
    """Whether a text of this length is, on the device and in the precision of `like`."""
    return like.device.type == "cpu" and longest <= TRAINED_IN_PRODUCTS.get(like.dtype, 0)


def masked_kernel(
    query: Tensor, key: Tensor, value: Tensor, mask: Mask, bias: Tensor | None, **options: Any
) -> Float[Tensor, "batch head query channel"]:
    """torch's fused kernel; a query with nothing to look at gets zeros, never NaN, and so do the gradients.

    Only the CPU's kernels are sure to do so: others give NaN or a mean (pytorch's issues 103963, 156707). There such a
    query is let look everywhere, and what it saw is taken away.
    """
    place, blind = (query.shape[-2], key.shape[-2], query.device), None
    if query.device.type == "cpu":
        visible = mask.visible(*place)
    else:
        visible, blind = mask.opened(*place)
    added = visible if bias is None else bias.masked_fill(~visible, -torch.inf)
    heads = F.scaled_dot_product_attention(query, key, value, attn_mask=added, **options)
    return heads if blind is None else heads.masked_fill(blind, 0.0)


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
