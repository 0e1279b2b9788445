"""Attention sinks: a window, and the first tokens, which take what attention is left over (Xiao et al., 2024)."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from model.experiments.variants.full import full
from model.experiments.variants.sliding_window import near
from model.experiments.variants.variant import (
    AttentionOutput,
    Shape,
    Sizes,
    Variant,
    in_chunks,
    places,
    with_neighbours,
)
from model.message import say


def with_sinks(query: Tensor, key: Tensor, value: Tensor, visible: Tensor, width: int, sinks: int) -> AttentionOutput:
    """Full attention over keys less than `width` tokens away and the first `sinks` keys."""
    at, seen = places(query.shape[-2], key.shape[-2], query.device)
    return full(query, key, value, visible & (((at - seen).abs() < width) | (seen < sinks)))


def quick(query: Tensor, key: Tensor, value: Tensor, width: int, sinks: int) -> Tensor:
    """Chunks of queries against near keys and the sinks in one softmax: n (3 w + s) scores."""
    length, root = query.shape[1], query.shape[-1] ** 0.5
    chunks = in_chunks(query, width)
    seen = near(chunks.shape[1], width, length, query.device)
    first = torch.arange(chunks.shape[1], device=query.device)[:, None] * width - width
    sink = first + torch.arange(3 * width, device=query.device) < sinks  # near keys that are sinks count once
    close = (chunks @ with_neighbours(key, width, after=True).mT / root).masked_fill(~seen | sink[:, None], -torch.inf)
    far = chunks @ key[:, None, :sinks].mT / root
    weights = torch.cat([close, far], dim=-1).softmax(dim=-1)
    heads = weights[..., : 3 * width] @ with_neighbours(value, width, after=True)
    return (heads + weights[..., 3 * width :] @ value[:, None, :sinks]).flatten(1, 2)[:, :length]


def variant(sizes: Sizes) -> Variant:
    """A window of `sizes.width` tokens and `sizes.sinks` sinks."""
    width, sinks = sizes.width, sizes.sinks

    def cache_tensors(key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        at = sorted({*range(key.shape[-2])[:sinks], *range(key.shape[-2])[-width:]})
        return key[..., at, :], value[..., at, :]

    def cached(shape: Shape) -> int:
        return 2 * shape.heads * min(shape.length, width + sinks) * shape.width

    return Variant(
        key="sinks",
        name=say("window with attention sinks"),
        formula=r"|i - j| < w \;\lor\; j < s",
        source="Xiao et al., 2024, section 3.2",
        exponents=(1, 1),
        attend=partial(with_sinks, width=width, sinks=sinks),
        quick=partial(quick, width=width, sinks=sinks),
        cache_tensors=cache_tensors,
        cached=cached,
        code=(with_sinks, quick),
    )
