"""Faster attention: four kernels for the heads of equation 1, and the choice between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.attention import SDPBackend

from model.capture.hooks import is_watched, no_recording, recorders_of
from model.network.attention import MultiHeadAttention, for_each_head
from model.network.dropout import dropout
from model.network.kv_cache import Cache
from model.network.masks import Mask
from model.network.positions import RelativeBias

# Most tokens for which training on a CPU is faster by `products` than by `fused` (measured with AVX-512).
TRAINED_IN_PRODUCTS = {torch.float32: 64, torch.bfloat16: 512}

SMALL = 1 << 16  # weights of a projection: below, a call costs more than the product

Kernel = Callable[[MultiHeadAttention, Tensor, Tensor, Tensor, Mask], Tensor]


def project(
    attention: MultiHeadAttention, x: Tensor, memory: Tensor, cache: Cache | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, each (batch, head, length, channel), as of `attention.project`.

    A small self-attention that is trained and not watched computes them in one product.
    """
    small = attention.training and attention.query.weight.numel() < SMALL
    if not small or is_watched() or cache is not None or x is not memory:
        return attention.project(x, memory, cache)
    parts = (attention.query, attention.key, attention.value)
    bias = None if parts[0].bias is None else torch.cat([part.bias for part in parts])
    product = F.linear(x, torch.cat([part.weight for part in parts]), bias)
    query, key, value = product.split([part.out_features for part in parts], dim=-1)
    return parts[0].split(query), parts[1].split(key), parts[2].split(value)


def attend(
    attention: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Mask
) -> Float[Tensor, "batch head query channel"]:
    """Heads of `attention.attend`, by the fastest kernel."""
    return choose_kernel(attention, query, key)(attention, query, key, value, mask)


def choose_kernel(attention: MultiHeadAttention, query: Tensor, key: Tensor) -> Kernel:
    """Fastest kernel for queries and keys (batch, head, length, channel) of this length, device and precision."""
    if not attention.training and isinstance(attention.biased, RelativeBias):
        return unrecorded  # torch's kernel rounds a bias differently, which shows in mT5's large logits
    if not attention.training or query.device.type != "cpu":
        return fused
    # With dropout, torch's kernel takes the same steps on the CPU, and draws from the generator of the process.
    longest = max(query.shape[-2], key.shape[-2])
    return products if longest <= TRAINED_IN_PRODUCTS.get(query.dtype, 0) or attention.dropout else fused


def unrecorded(attention: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
    """Heads step by step; no step is recorded."""
    with no_recording():
        return attention.attend(query, key, value, mask)


def products(attention: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
    """Heads by two products and a softmax, with the mask added to the scores."""
    n_heads, queries, keys = query.shape[1], query.shape[-2], key.shape[-2]
    added, bias, blind = None, attention.biased.bias(queries, keys, query), None
    if torch.compiler.is_compiling():  # compiled code cannot ask whether there are blind queries
        visible, blind = opened(mask, queries, keys, query.device)
        added = _added(visible, query.dtype)
    else:
        added = added_mask(mask, queries, keys, query)
    if added is None:
        kernel = MultiHeadAttention.attend if attention.dropout else fused
        return kernel(attention, query, key, value, mask)
    scores = query * attention.scaled.factor @ for_each_head(key, n_heads).mT
    weights = (scores + (added if bias is None else added + bias)).softmax(dim=-1)
    heads = dropout(weights, attention.dropout, attention.training) @ for_each_head(value, n_heads)
    return heads if blind is None else heads.masked_fill(blind, 0.0)


def fused(attention: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
    """Heads by torch's fused kernel, which keeps nothing of size query × key."""
    options, blind = _options(attention, query, key, mask)
    for recorder, path in recorders_of(attention):
        recorder.keep_kernel(path, _has_kernel(query, key, value, options))
    heads = F.scaled_dot_product_attention(query, key, value, **options)
    return heads if blind is None else heads.masked_fill(blind, 0.0)


def is_fused(attention: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> bool:
    """True if `fused` computes these heads by a fused kernel: torch has none for every shape and device."""
    return _has_kernel(query, key, value, _options(attention, query, key, mask)[0])


def _has_kernel(query: Tensor, key: Tensor, value: Tensor, options: dict[str, Any]) -> bool:
    """True if torch chooses a fused kernel for these arguments; else, and where it does not tell, step by step."""
    if query.device.type == "mps":  # where torch cannot be asked
        return False
    arguments = (options.get("attn_mask"), options["dropout_p"], options.get("is_causal", False))
    named = {"scale": options["scale"], "enable_gqa": options["enable_gqa"]}
    return bool(torch._fused_sdp_choice(query, key, value, *arguments, **named) != SDPBackend.MATH.value)


def _options(
    attention: MultiHeadAttention, query: Tensor, key: Tensor, mask: Mask
) -> tuple[dict[str, Any], Bool[Tensor, "batch head query 1"] | None]:
    """Options of torch's attention, and which queries are to get zeros instead of its result, if any.

    For blind queries, which may look nowhere, only the CPU's kernels ensure zeros, not NaN, also in the gradients:
    others give NaN or a mean (pytorch's issues 103963, 156707). There a blind query sees all keys, and its result is
    replaced by zeros.
    """
    queries, keys, blind = query.shape[-2], key.shape[-2], None
    bias = attention.biased.bias(queries, keys, query)
    options: dict[str, Any] = {
        "dropout_p": attention.dropout if attention.training else 0.0,
        "scale": attention.scaled.factor,
        "enable_gqa": key.shape[1] != query.shape[1],
    }
    if bias is not None or not mask.is_plain(queries, keys):
        if query.device.type == "cpu":
            visible = mask.visible(queries, keys, query.device)
        else:
            visible, blind = opened(mask, queries, keys, query.device)
        options["attn_mask"] = visible if bias is None else bias.masked_fill(~visible, -torch.inf)
    elif mask.causal and queries > 1:  # compiled, the comparison itself is no bool
        options["is_causal"] = True
    return options, blind


def added_mask(mask: Mask, queries: int, keys: int, like: Tensor) -> Float[Tensor, "batch head query key"] | None:
    """Mask to add to scores, on the device and in the precision of `like`: 0 where a query may look, else −∞.

    None where there are blind queries: their softmax would be NaN.
    """

    def compute() -> Tensor | None:
        visible = mask.visible(queries, keys, like.device)
        return _added(visible, like.dtype) if bool(visible.any(dim=-1).all()) else None

    return mask.once(("added", queries, keys, like.dtype), compute)


def _added(visible: Bool[Tensor, "*mask"], dtype: torch.dtype) -> Float[Tensor, "*mask"]:
    return torch.zeros_like(visible, dtype=dtype).masked_fill(~visible, -torch.inf)


def opened(
    mask: Mask, queries: int, keys: int, device: torch.device
) -> tuple[Bool[Tensor, "batch head query key"], Bool[Tensor, "batch head query 1"]]:
    """Mask in which blind queries, which may look nowhere, see all keys; and which queries are blind."""
    visible = mask.visible(queries, keys, device)
    blind = ~visible.any(dim=-1, keepdim=True)
    return visible | blind, blind
