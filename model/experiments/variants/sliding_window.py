"""Sliding window: a query sees keys less than w away (Beltagy et al., 2020, Longformer, section 3.1)."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from model.experiments.variants.full import full
from model.experiments.variants.variant import (
    AttentionOutput,
    Shape,
    Sizes,
    Variant,
    in_chunks,
    places,
    softmax_where,
    with_neighbours,
)
from model.message import say


def window(query: Tensor, key: Tensor, value: Tensor, visible: Tensor, width: int) -> AttentionOutput:
    """Full attention over keys less than `width` tokens away."""
    at, seen = places(query.shape[-2], key.shape[-2], query.device)
    return full(query, key, value, visible & ((at - seen).abs() < width))


def near(chunks: int, width: int, length: int, device: torch.device) -> Tensor:
    """Mask (chunk, query, near key) of a window, where each chunk stands between its neighbours."""
    first = torch.arange(chunks, device=device)[:, None, None] * width
    at = first + torch.arange(width, device=device)[:, None]
    seen = first - width + torch.arange(3 * width, device=device)
    return ((at - seen).abs() < width) & (seen >= 0) & (seen < length)


def quick(query: Tensor, key: Tensor, value: Tensor, width: int) -> Tensor:
    """Chunks of `width` queries against their own chunk of keys and its two neighbours: n · 3 w scores."""
    length = query.shape[1]
    chunks = in_chunks(query, width)
    scores = chunks @ with_neighbours(key, width, after=True).mT / query.shape[-1] ** 0.5
    weights = softmax_where(scores, near(chunks.shape[1], width, length, query.device))
    return (weights @ with_neighbours(value, width, after=True)).flatten(1, 2)[:, :length]


def variant(sizes: Sizes) -> Variant:
    """Sliding window of `sizes.width` tokens to each side, its own counted."""
    width = sizes.width

    def cache_tensors(key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        return key[..., -width:, :], value[..., -width:, :]

    def cached(shape: Shape) -> int:
        return 2 * shape.heads * min(shape.length, width) * shape.width

    return Variant(
        key="window",
        name=say("sliding window"),
        formula=r"|i - j| < w",
        source="Beltagy et al., 2020, section 3.1",
        exponents=(1, 1),
        attend=partial(window, width=width),
        quick=partial(quick, width=width),
        cache_tensors=cache_tensors,
        cached=cached,
        code=(window, quick),
    )
