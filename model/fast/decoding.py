"""Faster decoding: layers as functions that are bound to their weights once for a text.

A call of a module costs as much as the work of a small one, and a step of decoding makes a hundred of them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import model.fast.one_token as one_token
from model.capture.hooks import is_watched, original_class
from model.fast.attention import fused, unrecorded
from model.fast.packed_weights import laid_out, product
from model.network.attention import HeadProjection, MultiHeadAttention, TurnedProjection, side_by_side
from model.network.kv_cache import Cache, DecoderCache, GrowingCache, LayerCache
from model.network.layers import (
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
from model.network.lm_head import Output, ScaledOutput, TransformedOutput
from model.network.norms import LayerNorm
from model.network.positions import RelativeBias

Function = Callable[..., Any]  # of tensors, or of arrays
Kind = type[nn.Module]


class Use(NamedTuple):
    """Use of a module in decoding.

    arrays: its function takes and gives NumPy's arrays (`one_token`), not tensors. text: cache of the text.
    """

    arrays: bool
    text: DecoderCache


def step_of(module: nn.Module, text: DecoderCache, rows: int, **caches: LayerCache) -> Function:
    """Layer with its cache, or output, as a function of new tokens; weights must not change while a text is written.

    It calls the module itself where that is watched or trained, or where a part of it has hooks at the first step.
    """
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or is_watched():
        return partial(module, **caches)
    alone = rows == 1
    key = (module, alone, *map(id, caches.values()))
    if key not in text.steps:
        needs_module = any(part.training or part._forward_hooks or part._forward_pre_hooks for part in module.modules())
        text.steps[key] = partial(module, **caches) if needs_module else _bound(module, text, alone, **caches)
    return text.steps[key]


def _bound(module: nn.Module, text: DecoderCache, alone: bool, **caches: LayerCache) -> Function:
    """Module as a function of tensors. alone: there is one token, which is computed in NumPy where that suits."""
    use = Use(alone and original_class(module) in _binders and one_token.suits(module), text)
    function = bind_layer(module, use, **caches)
    if not use.arrays:
        return function
    return lambda x, *rest: torch.from_numpy(function(x.numpy(), *rest))


def bind_layer(module: nn.Module, use: Use, **caches: Cache | LayerCache) -> Function:
    """Function that computes as a module of a registered class does; the module itself, if its class is not registered.

    caches: the module's cache as `cache`, if it has one.
    """
    binder = None if "forward" in module.__dict__ else _binders.get(original_class(module))
    if binder is None:
        plain = partial(module, **caches) if caches else module
        return one_token.by_torch(plain) if use.arrays else plain
    function: Function = binder(module, use, **caches)
    return function


def register_fast(*kinds: Kind) -> Callable[[Function], Function]:
    """Decorator of a binder for these classes; not for their subclasses, which may compute something else."""

    def register(binder: Function) -> Function:
        _binders.update(dict.fromkeys(kinds, binder))
        return binder

    return register


_binders: dict[Kind, Function] = {}


@register_fast(EncoderLayer)
def _encoder_layer(layer: EncoderLayer, use: Use, cache: LayerCache) -> Function:
    attend = bind_layer(layer.self_attention, use, cache=cache.self_attention)
    feed, reads = bind_layer(layer.feed_forward, use), layer.reads
    first, last = bind_layer(layer.self_attention_block, use), bind_layer(layer.feed_forward_block, use)

    def step(x: Any, mask: Any) -> Any:
        written = first(x, lambda y: attend(y, y, mask))
        return last(written, feed, reads(x, written))

    return step


@register_fast(DecoderLayer)
def _decoder_layer(layer: DecoderLayer, use: Use, cache: LayerCache) -> Function:
    attend = bind_layer(layer.self_attention, use, cache=cache.self_attention)
    cross = bind_layer(layer.cross_attention, use, cache=cache.cross_attention)
    feed, reads = bind_layer(layer.feed_forward, use), layer.reads
    first, second = bind_layer(layer.self_attention_block, use), bind_layer(layer.cross_attention_block, use)
    last = bind_layer(layer.feed_forward_block, use)

    def step(x: Any, mask: Any, memory: Tensor, memory_mask: Any) -> Any:
        written = first(x, lambda y: attend(y, y, mask))
        written = second(written, lambda y: cross(y, memory, memory_mask), reads(x, written))
        return last(written, feed, reads(x, written))

    return step


@register_fast(MultiHeadAttention)
def _attention_with(attention: MultiHeadAttention, use: Use, cache: Cache) -> Function:
    query, key, value = (bind_layer(part, use) for part in (attention.query, attention.key, attention.value))
    output = bind_layer(attention.output, use)
    if use.arrays:
        keys_and_values = one_token.cached(cache, attention, key, value)

        def step_in_arrays(x: Any, memory: Any, mask: Any) -> Any:
            queries = query(x, cache.length)
            return output(one_token.attend(attention, queries, *keys_and_values(memory), mask))

        return step_in_arrays
    attend = partial(unrecorded if isinstance(attention.biased, RelativeBias) else fused, attention)

    def project_new(memory: Tensor, first: int = 0) -> tuple[Tensor, Tensor]:
        return key(memory, first), value(memory)

    project = project_new if isinstance(cache, GrowingCache) else attention.keys_and_values  # once for a source

    def step(x: Tensor, memory: Tensor, mask: Any) -> Tensor:
        queries = query(x, cache.length)
        heads = attend(queries, *cache(project, memory), mask)
        written: Tensor = output(side_by_side(heads))
        return written

    return step


@register_fast(nn.Linear)
def _linear(module: nn.Linear, use: Use) -> Function:
    if use.arrays:
        return one_token.linear(module)
    weight, bias, packed = module.weight, module.bias, laid_out(module.weight, use.text)
    if packed is None:
        return lambda x: F.linear(x, weight, bias)
    return lambda x: product(x, packed, bias)


@register_fast(HeadProjection, TurnedProjection)
def _projection(module: HeadProjection, use: Use) -> Function:
    if use.arrays:
        return one_token.projection(module)
    multiply, split = _linear(module, use), module.split
    return lambda x, first=0: split(multiply(x), first)


@register_fast(LayerNorm)
def _layer_norm(module: LayerNorm, use: Use) -> Function:
    weight, bias, eps = module.weight, module.bias, module.eps
    compute = lambda x: torch.layer_norm(x, weight.shape, weight, bias, eps)  # noqa: E731
    return one_token.by_torch(compute) if use.arrays else compute


@register_fast(Residual)
def _residual(module: Residual, use: Use) -> Function:
    return operator.add


@register_fast(NoResidual)
def _no_residual(module: NoResidual, use: Use) -> Function:
    return lambda _x, y: y


@register_fast(PostNorm)
def _post_norm(module: PostNorm, use: Use) -> Function:
    add, norm = bind_layer(module.residual, use), bind_layer(module.norm, use)
    return lambda x, sublayer, read=None: norm(add(x, sublayer(x if read is None else read)))


@register_fast(PreNorm)
def _pre_norm(module: PreNorm, use: Use) -> Function:
    add, norm = bind_layer(module.residual, use), bind_layer(module.norm, use)
    return lambda x, sublayer, read=None: add(x, sublayer(norm(x if read is None else read)))


@register_fast(SandwichNorm)
def _sandwich_norm(module: SandwichNorm, use: Use) -> Function:
    add, norm, last = (bind_layer(part, use) for part in (module.residual, module.norm, module.output_norm))
    return lambda x, sublayer, read=None: add(x, last(sublayer(norm(x if read is None else read))))


@register_fast(nn.ReLU)
def _relu(module: nn.ReLU, use: Use) -> Function:
    return one_token.relu if use.arrays else torch.relu


@register_fast(FeedForward)
def _feed_forward(module: FeedForward, use: Use) -> Function:
    hidden, activation, output = (bind_layer(part, use) for part in (module.hidden, module.activation, module.output))
    return lambda x: output(activation(hidden(x)))


@register_fast(GatedFeedForward)
def _gated_feed_forward(module: GatedFeedForward, use: Use) -> Function:
    hidden, activation, output = (bind_layer(part, use) for part in (module.hidden, module.activation, module.output))
    linear = bind_layer(module.linear, use)
    return lambda x: output(activation(hidden(x)) * linear(x))


@register_fast(Output, ScaledOutput, TransformedOutput)
def _output(module: Output, use: Use) -> Function:
    before, logits = one_token.by_torch(module.before) if use.arrays else module.before, bind_layer(module.logits, use)
    return lambda x: logits(before(x))
