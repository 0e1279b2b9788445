"""Attention variant: a rule that makes heads of queries, keys and values in the place of equation 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from model.network.config import TransformerConfig


@dataclass(frozen=True)
class Sizes:
    """Sizes of the variants.

    width: tokens of a window, a block or a chunk. sinks: first tokens that all queries see. rank: rows of keys and
    values after Linformer's projection, and channels of a latent. features: random ones of Performer. buckets: of a
    hash, an even number. rounds: hashes. groups: heads of keys and values that are shared. seed: of random features and
    hashes.
    """

    width: int = 4
    sinks: int = 1
    rank: int = 4
    features: int = 64
    buckets: int = 4
    rounds: int = 2
    groups: int = 2
    seed: int = 0


class AttentionOutput(NamedTuple):
    """Heads (*batch, head, query, channel), and the weight of each value in them (*batch, head, query, key)."""

    heads: Tensor
    weights: Tensor


class Shape(NamedTuple):
    """Numbers of heads, tokens and channels of a head."""

    heads: int
    length: int
    width: int


Attend = Callable[[Tensor, Tensor, Tensor, Tensor], AttentionOutput]


def random_inputs(shape: Shape) -> tuple[Tensor, ...]:
    """Standard normal queries, keys and values, each (head, length, channel)."""
    draw = torch.Generator().manual_seed(0)
    return tuple(torch.randn(*shape, generator=draw) for _ in range(3))


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Attention variant.

    key: its name in files. formula: LaTeX. exponents: of n in the time and in the memory of `quick`, as its source
    claims them, logarithms left out. attend: heads as they are defined, from queries, keys, values and a mask (query,
    key) of what is visible. quick: the same heads by the algorithm of the claim, where all is visible. inputs: of
    `quick`. cache_tensors: what a KV cache keeps of keys and values; None: it cannot write token by token. cached: how
    many numbers these are. options: of a network that has the variant. module: of a network that has its own weights
    for it, from its configuration, and whether it is causal; None: `attend` alone. needs: weights beside W_Q, W_K, W_V.
    """

    key: str
    name: str
    formula: str
    source: str
    exponents: tuple[int | float, int | float]
    attend: Attend
    quick: Callable[..., Tensor]
    inputs: Callable[[Shape], tuple[Tensor, ...]] = random_inputs
    cache_tensors: Callable[[Tensor, Tensor], tuple[Tensor, ...]] | None
    cached: Callable[[Shape], int] | None
    options: dict[str, Any] | None = None
    module: Callable[[TransformerConfig, bool], nn.Module] | None = None
    needs: str = ""
    code: tuple[Any, ...] = ()


def whole_cache(key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
    """Keys and values of every head and token: what full attention keeps."""
    return key, value


def all_cached(shape: Shape) -> int:
    """2 h n d_k numbers."""
    return 2 * shape.heads * shape.length * shape.width


def softmax_where(
    scores: Float[Tensor, "*batch query key"], visible: Bool[Tensor, "*mask query key"]
) -> Float[Tensor, "*batch query key"]:
    """Softmax over the visible keys; zeros for a query that may look nowhere."""
    weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
    return weights.masked_fill(~visible.any(dim=-1, keepdim=True), 0.0)


def places(queries: int, keys: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Positions of queries (query, 1) and of keys (1, key)."""
    return torch.arange(queries, device=device)[:, None], torch.arange(keys, device=device)[None, :]


def in_chunks(x: Shaped[Tensor, "head length channel"], width: int) -> Shaped[Tensor, "head chunk width channel"]:
    """Rows cut into chunks; rows of zeros fill up the last one."""
    return F.pad(x, (0, 0, 0, -x.shape[1] % width)).unflatten(1, (-1, width))


def with_neighbours(
    x: Shaped[Tensor, "head length channel"], width: int, after: bool
) -> Shaped[Tensor, "head chunk near channel"]:
    """Each chunk behind the one before it, and before the one after it."""
    chunks = in_chunks(x, width)
    padded = F.pad(chunks, (0, 0, 0, 0, 1, 1))
    parts = (padded[:, :-2], chunks, padded[:, 2:])
    return torch.cat(parts if after else parts[:2], dim=2)
