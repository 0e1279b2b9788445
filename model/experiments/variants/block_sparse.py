"""Block-sparse attention, the fixed pattern: a query sees its own block, and the last key of every other block (Child
et al., 2019, Sparse Transformer, section 4.2)."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from model.experiments.variants.full import full
from model.experiments.variants.variant import AttentionOutput, Shape, Sizes, Variant, in_chunks, places
from model.message import say


def blocks(query: Tensor, key: Tensor, value: Tensor, visible: Tensor, width: int) -> AttentionOutput:
    """Full attention over the keys of a query's own block of `width` tokens, and the last key of each block."""
    at, seen = places(query.shape[-2], key.shape[-2], query.device)
    own, last = at // width == seen // width, seen % width == width - 1
    return full(query, key, value, visible & (own | last))


def quick(query: Tensor, key: Tensor, value: Tensor, width: int) -> Tensor:
    """Scores within blocks and with the last keys, n (w + n / w) of them, in one softmax."""
    length, root = query.shape[1], query.shape[-1] ** 0.5
    q, k, v = (in_chunks(x, width) for x in (query, key, value))
    here = torch.arange(q.shape[1] * width, device=query.device).view(-1, width) < length
    last_key, last_value = (x[:, width - 1 :: width] for x in (key, value))  # of the blocks that are whole
    own = (q @ k.mT / root).masked_fill(~here[:, None], -torch.inf)
    far = q @ last_key.mT[:, None] / root
    itself = torch.eye(q.shape[1], last_key.shape[1], dtype=torch.bool, device=query.device)
    far = far.masked_fill(itself[:, None], -torch.inf)  # the block's own last key is among `own`
    weights = torch.cat([own, far], dim=-1).softmax(dim=-1)
    heads = weights[..., :width] @ v + weights[..., width:] @ last_value[:, None]
    return heads.flatten(1, 2)[:, :length]


def with_root(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Blocks of √n tokens, with which n (w + n / w) is least: 2 n √n."""
    return quick(query, key, value, max(1, math.isqrt(query.shape[1])))


def variant(sizes: Sizes) -> Variant:
    """Blocks of `sizes.width` tokens."""
    width = sizes.width

    def positions(length: int) -> list[int]:
        block_start = (length - 1) // width * width  # the block of the newest token
        return [*range(width - 1, block_start, width), *range(block_start, length)]

    def cache_tensors(key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        at = positions(key.shape[-2])
        return key[..., at, :], value[..., at, :]

    def cached(shape: Shape) -> int:
        before = (shape.length - 1) // width
        return 2 * shape.heads * (before + shape.length - before * width) * shape.width

    return Variant(
        key="blocks",
        name=say("block-sparse attention"),
        formula=r"\lfloor i/w \rfloor = \lfloor j/w \rfloor \;\lor\; j \bmod w = w - 1",
        source="Child et al., 2019, section 4.2",
        exponents=(1.5, 1.5),
        attend=partial(blocks, width=width),
        quick=with_root,
        cache_tensors=cache_tensors,
        cached=cached,
        code=(blocks, quick),
    )
