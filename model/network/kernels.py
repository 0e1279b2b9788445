"""The four places where a quicker computation of the same numbers may stand in for the plain one.

They hold what the network's own files say; `model.fast.install` fills them.
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

Step = Callable[..., Tensor]


def _project(attention: Any, x: Tensor, memory: Tensor, cache: Any) -> tuple[Tensor, Tensor, Tensor]:
    projected: tuple[Tensor, Tensor, Tensor] = attention.project(x, memory, cache)
    return projected


def _attend(attention: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any) -> Tensor:
    heads: Tensor = attention.attend(query, key, value, mask)
    return heads


def _step(module: nn.Module, text: DecoderCache, rows: int, **given: Any) -> Step:
    return partial(module, **given)


@dataclass(frozen=True)
class Kernels:
    """How a network computes.

    project: queries, keys and values of an attention, from what it reads and its cache. attend: (batch, head, query,
    channel) of an attention, from its queries, keys and values and a mask. dropout: of a tensor, a rate and whether the
    network learns. step: of a layer or the output, its `forward` in the steps of writing a text, from the text's cache,
    how many new tokens there are, the batch counted, and the layer's own cache by name.
    """

    project: Callable[..., tuple[Tensor, Tensor, Tensor]] = _project
    attend: Callable[..., Tensor] = _attend
    dropout: Callable[[Tensor, float, bool], Tensor] = F.dropout
    step: Callable[..., Step] = _step


_installed = _plain = Kernels()
_asked: ContextVar[bool] = ContextVar("plain_kernels", default=False)


def install(kernels: Kernels) -> None:
    """Let every network compute with these from now on."""
    global _installed, _plain
    _installed = kernels
    _plain = replace(Kernels(), dropout=kernels.dropout)  # what is dropped out is no quantity that anyone looks at


def kernels() -> Kernels:
    """Those in use here. What is compiled is only trained, and nobody looks into it."""
    if torch.compiler.is_compiling():
        return _installed
    return _plain if _asked.get() else _installed


def are_plain() -> bool:
    """Whether every quantity is computed here step by step, so that it can be seen and changed."""
    return _asked.get()


@contextmanager
def plain_kernels(asked: bool = True) -> Iterator[None]:
    """A block in which every quantity is computed step by step; with `asked` False as around it."""
    before = _asked.set(asked or _asked.get())
    try:
        yield
    finally:
        _asked.reset(before)


def decoding_steps(layers: Iterable[nn.Module], cache: DecoderCache, rows: int) -> list[Step]:
    """Each layer as a function of what its `forward` takes but the cache; rows: new tokens, the batch counted."""
    step = kernels().step
    return [step(layer, cache, rows, cache=own) for layer, own in zip(layers, cache.layers, strict=True)]
