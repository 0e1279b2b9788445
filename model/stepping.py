"""A step of decoding without its modules: the same functions, bound to the weights once, where nobody looks.

Calling a module costs as much as the work of a small one, and a step calls a hundred of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial, singledispatch
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.attention import MultiHeadAttention, explicit_attention
from model.cache import Cache, DecoderCache, GrowingCache, LayerCache
from model.layers import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    GatedFeedForward,
    NoResidual,
    PostNorm,
    PreNorm,
    Residual,
    SandwichNorm,
)
from model.layouts import about, laid_out, product
from model.norms import LayerNorm
from model.observing import is_watched
from model.position_bias import RelativeBias
from model.projections import HeadProjection

Function = Callable[..., Any]


def steps(layers: Iterable[nn.Module], cache: DecoderCache, rows: int) -> list[Function]:
    """Each layer as a function of what its `forward` takes but the cache: of so many new tokens, the batch counted."""
    return [step_of(layer, cache, rows, cache=own) for layer, own in zip(layers, cache.layers, strict=True)]


def step_of(module: nn.Module, known: DecoderCache, rows: int, **given: LayerCache) -> Function:
    """A layer, with its cache, or the output, as a function.

    It holds for the weights as they are at the first step. The module itself where someone looks, changes, learns or
    has hooks.
    """
    if torch.is_grad_enabled() or is_watched() or explicit_attention.get():
        return partial(module, **given)
    rows = about(rows)
    if (module, rows) not in known.steps:
        awaited = any(part.training or part._forward_hooks or part._forward_pre_hooks for part in module.modules())
        known.steps[module, rows] = partial(module, **given) if awaited else bound(module, rows, **given)
    return known.steps[module, rows]


@singledispatch
def bound(module: nn.Module, rows: int, **given: LayerCache) -> Function:
    """What a module makes of so many rows; the module itself where that is no more work. given: a layer's cache."""
    return partial(module, **given) if given else module


@bound.register
def _(layer: EncoderLayer, rows: int, cache: LayerCache) -> Function:
    attend, feed = attention_step(layer.self_attention, rows, cache.self_attention), bound(layer.feed_forward, rows)
    first, last = bound(layer.self_attention_block, rows), bound(layer.feed_forward_block, rows)
    reads = layer.reads

    def step(x: Tensor, mask: Any) -> Tensor:
        written = first(x, lambda y: attend(y, y, mask))
        return last(written, feed, reads(x, written))

    return step


@bound.register
def _(layer: DecoderLayer, rows: int, cache: LayerCache) -> Function:
    attend = attention_step(layer.self_attention, rows, cache.self_attention)
    cross = attention_step(layer.cross_attention, rows, cache.cross_attention)
    feed, reads = bound(layer.feed_forward, rows), layer.reads
    first, second = bound(layer.self_attention_block, rows), bound(layer.cross_attention_block, rows)
    last = bound(layer.feed_forward_block, rows)

    def step(x: Tensor, mask: Any, memory: Tensor, memory_mask: Any) -> Tensor:
        written = first(x, lambda y: attend(y, y, mask))
        written = second(written, lambda y: cross(y, memory, memory_mask), reads(x, written))
        return last(written, feed, reads(x, written))

    return step


def attention_step(attention: MultiHeadAttention, rows: int, cache: Cache) -> Function:
    """The `forward` of an attention with this cache."""
    query, key, value = (bound(each, rows) for each in (attention.query, attention.key, attention.value))
    output = bound(attention.output, rows)
    attend = attention.unseen if isinstance(attention.biased, RelativeBias) else attention.fused

    def grown(memory: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        return key(memory, first), value(memory)

    project = grown if isinstance(cache, GrowingCache) else attention.project  # a source is read once

    def step(x: Tensor, memory: Tensor, mask: Any) -> Tensor:
        asked = query(x, cache.length)
        heads = attend(asked, *cache(project, memory), mask)
        return output(heads.transpose(1, 2).flatten(2))

    return step


@bound.register
def _(module: nn.Linear, rows: int) -> Function:
    weight, bias, packed = module.weight, module.bias, laid_out(module.weight, rows)
    if packed is None:
        return lambda x: F.linear(x, weight, bias)
    return lambda x: product(x, packed, bias)


@bound.register
def _(module: HeadProjection, rows: int) -> Function:
    product, split = bound.dispatch(nn.Linear)(module, rows), module.split
    return lambda x, first=0: split(product(x), first)


@bound.register
def _(module: LayerNorm, rows: int) -> Function:
    weight, bias, eps = module.weight, module.bias, module.eps
    return lambda x: torch.layer_norm(x, weight.shape, weight, bias, eps)


@bound.register
def _(module: Residual, rows: int) -> Function:
    return torch.add


@bound.register
def _(module: NoResidual, rows: int) -> Function:
    return lambda x, y: y


@bound.register
def _(module: PostNorm, rows: int) -> Function:
    add, norm = bound(module.residual, rows), bound(module.norm, rows)
    return lambda x, sublayer, read=None: norm(add(x, sublayer(x if read is None else read)))


@bound.register
def _(module: PreNorm, rows: int) -> Function:
    add, norm = bound(module.residual, rows), bound(module.norm, rows)
    return lambda x, sublayer, read=None: add(x, sublayer(norm(x if read is None else read)))


@bound.register
def _(module: SandwichNorm, rows: int) -> Function:
    add, norm, last = bound(module.residual, rows), bound(module.norm, rows), bound(module.output_norm, rows)
    return lambda x, sublayer, read=None: add(x, last(sublayer(norm(x if read is None else read))))


@bound.register
def _(module: nn.ReLU, rows: int) -> Function:
    return torch.relu


@bound.register
def _(module: FeedForward, rows: int) -> Function:
    hidden, activation, output = (bound(each, rows) for each in (module.hidden, module.activation, module.output))
    return lambda x: output(activation(hidden(x)))


@bound.register
def _(module: GatedFeedForward, rows: int) -> Function:
    hidden, activation, output = (bound(each, rows) for each in (module.hidden, module.activation, module.output))
    linear = bound(module.linear, rows)
    return lambda x: output(activation(hidden(x)) * linear(x))
