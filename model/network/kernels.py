"""The four computations of a network that others with the same results may stand in for.

By default they are the plain ones, which the network's own files define; `install` sets others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.network.kv_cache import DecoderCache

Step = Callable[..., Tensor]  # arguments and result of a module's `forward`, without its cache


def _project(attention: Any, x: Tensor, memory: Tensor, cache: Any) -> tuple[Tensor, Tensor, Tensor]:
    projected: tuple[Tensor, Tensor, Tensor] = attention.project(x, memory, cache)
    return projected


def _attend(attention: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any) -> Tensor:
    heads: Tensor = attention.attend(query, key, value, mask)
    return heads


def _step(module: nn.Module, text: DecoderCache, rows: int, **cache: Any) -> Step:
    return partial(module, **cache)


@dataclass(frozen=True)
class Kernels:
    """Functions by which a network computes.

    project: queries, keys and values, as `MultiHeadAttention.project`. attend: heads, as `MultiHeadAttention.attend`.
    dropout: as `dropout.dropout`. step: `forward` of a layer or the output in a step of decoding, from the module, the
    cache of the text, the number of new tokens (of all texts of the batch) and, as `cache`, the cache of the layer.
    """

    project: Callable[..., tuple[Tensor, Tensor, Tensor]] = _project
    attend: Callable[..., Tensor] = _attend
    dropout: Callable[[Tensor, float, bool], Tensor] = F.dropout
    step: Callable[..., Step] = _step


_installed = _plain = Kernels()
_plain_wanted: ContextVar[bool] = ContextVar("plain_kernels", default=False)


def install(kernels: Kernels) -> None:
    """Let every network of this process compute with these functions from now on."""
    global _installed, _plain
    _installed = kernels
    _plain = replace(Kernels(), dropout=kernels.dropout)  # its draws are the same either way


def kernels() -> Kernels:
    """Functions in use in this context; in compiled code always those that were installed."""
    if torch.compiler.is_compiling():
        return _installed
    return _plain if _plain_wanted.get() else _installed


def are_plain() -> bool:
    """True if networks compute by the plain functions in this context, so that every step is a module's output."""
    return _plain_wanted.get()


@contextmanager
def plain_kernels(wanted: bool = True) -> Iterator[None]:
    """Block in which networks compute by the plain functions; with `wanted` False as outside of it."""
    before = _plain_wanted.set(wanted or _plain_wanted.get())
    try:
        yield
    finally:
        _plain_wanted.reset(before)


def with_cache(layers: nn.ModuleList, cache: DecoderCache | None, rows: int) -> Iterable[Step]:
    """Layers of a decoder, each with its own cache; without a cache the layers themselves.

    rows: number of new tokens, of all texts of the batch.
    """
    if cache is None:
        return layers
    step = kernels().step
    return [step(layer, cache, rows, cache=own) for layer, own in zip(layers, cache.layers, strict=True)]
