"""Equation 1 sooner: which of four ways to the same heads is the quickest here, and these ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from model.capture.hooks import is_watched, no_recording
from model.network.attention import MultiHeadAttention, for_each_head
from model.network.dropout import dropout
from model.network.kv_cache import Cache
from model.network.masks import Mask
from model.network.positions import RelativeBias

# Up to so many tokens, training on a CPU is quicker in plain products than in torch's fused kernel (AVX-512, measured).
TRAINED_IN_PRODUCTS = {torch.float32: 64, torch.bfloat16: 512}

SMALL = 1 << 16  # weights of a projection: below, calls cost more than products

Kernel = Callable[[MultiHeadAttention, Tensor, Tensor, Tensor, Mask], Tensor]


def project(
    attention: MultiHeadAttention, x: Tensor, memory: Tensor, cache: Cache | None
) -> tuple[Tensor, Tensor, Tensor]:
    """`attention.project`, in one product where a small self-attention learns and nobody sees its parts."""
    small = attention.training and attention.query.weight.numel() < SMALL
    seen = not torch.compiler.is_compiling() and is_watched()
    if not small or seen or cache is not None or x is not memory:
        return attention.project(x, memory, cache)
    parts = (attention.query, attention.key, attention.value)
    bias = None if parts[0].bias is None else torch.cat([each.bias for each in parts])
    product = F.linear(x, torch.cat([each.weight for each in parts]), bias)
    query, key, value = product.split([each.out_features for each in parts], dim=-1)
    return parts[0].split(query), parts[1].split(key), parts[2].split(value)


def attend(
    attention: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Mask
) -> Float[Tensor, "batch head query channel"]:
    """`attention.attend`, by the way that is quickest here."""
    return choose_kernel(attention, query, key)(attention, query, key, value, mask)


def choose_kernel(attention: MultiHeadAttention, query: Tensor, key: Tensor) -> Kernel:
    """The quickest way to the heads for queries and keys of these lengths, on their device and in their precision."""
    if not attention.training and isinstance(attention.biased, RelativeBias):
        return unrecorded  # torch's kernel rounds a bias otherwise, which mT5's large logits would show
    if not attention.training or query.device.type != "cpu":
        return fused
    # With dropout, torch's kernel takes the same steps on the CPU, and draws from the whole process's generator.
    longest = max(query.shape[-2], key.shape[-2])
    return products if longest <= TRAINED_IN_PRODUCTS.get(query.dtype, 0) or attention.dropout else fused


def unrecorded(attention: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
    """Step by step; none of it is kept."""
    with no_recording():
        return attention.attend(query, key, value, mask)


def products(attention: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
    """Two products and a softmax, the mask added to the scores."""
    n_heads, queries, keys = query.shape[1], query.shape[-2], key.shape[-2]
    added, bias, blind = None, attention.biased.bias(queries, keys, query), None
    if torch.compiler.is_compiling():  # code that is compiled cannot ask whether there are blind queries
        visible, blind = opened(mask, queries, keys, query.device)
        added = torch.zeros_like(visible, dtype=query.dtype).masked_fill(~visible, -torch.inf)
    else:
        added = added_mask(mask, queries, keys, query)
    if added is None:
        way = MultiHeadAttention.attend if attention.dropout else fused
        return way(attention, query, key, value, mask)
    scores = query * attention.scaled.factor @ for_each_head(key, n_heads).mT
    weights = (scores + (added if bias is None else added + bias)).softmax(dim=-1)
    heads = dropout(weights, attention.dropout, attention.training) @ for_each_head(value, n_heads)
    return heads if blind is None else heads.masked_fill(blind, 0.0)


def fused(attention: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
    """One kernel, nothing of size query × key kept."""
    queries, keys = query.shape[-2], key.shape[-2]
    bias = attention.biased.bias(queries, keys, query)
    options: dict[str, Any] = {
        "dropout_p": attention.dropout if attention.training else 0.0,
        "scale": attention.scaled.factor,
        "enable_gqa": key.shape[1] != query.shape[1],
    }
    if bias is not None or not mask.is_plain(queries, keys):
        return _masked(query, key, value, mask, bias, **options)
    if mask.causal and queries > 1:  # compiled, this comparison is no bool that could be handed on
        options["is_causal"] = True
    return F.scaled_dot_product_attention(query, key, value, **options)


def _masked(
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
        visible, blind = opened(mask, *place)
    added = visible if bias is None else bias.masked_fill(~visible, -torch.inf)
    heads = F.scaled_dot_product_attention(query, key, value, attn_mask=added, **options)
    return heads if blind is None else heads.masked_fill(blind, 0.0)


def added_mask(mask: Mask, queries: int, keys: int, like: Tensor) -> Float[Tensor, "batch head query key"] | None:
    """The mask as what is added to scores: 0 where a query may look, else −∞, on the device and in the precision of
    `like`. None where a query may look nowhere: then no sum says so.
    """

    def make() -> Tensor | None:
        visible = mask.visible(queries, keys, like.device)
        added = torch.zeros_like(visible, dtype=like.dtype).masked_fill(~visible, -torch.inf)
        return added if bool(visible.any(dim=-1).all()) else None

    return mask.once(("added", queries, keys, like.dtype), make)


def opened(
    mask: Mask, queries: int, keys: int, device: torch.device
) -> tuple[Bool[Tensor, "batch head query key"], Bool[Tensor, "batch head query 1"]]:
    """The mask, but that queries which may look nowhere look everywhere; and which those are."""
    visible = mask.visible(queries, keys, device)
    blind = ~visible.any(dim=-1, keepdim=True)
    return visible | blind, blind
