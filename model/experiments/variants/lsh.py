"""Attention by locality-sensitive hashing: a query sees the keys of its bucket (Kitaev et al., 2020, Reformer)."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from model.experiments.variants.full import full
from model.experiments.variants.module import VariantAttention
from model.experiments.variants.variant import (
    AttentionOutput,
    Sizes,
    Variant,
    all_cached,
    in_chunks,
    softmax_where,
    whole_cache,
    with_neighbours,
)
from model.message import say
from model.network.config import TransformerConfig

CHUNK = 64  # sorted tokens that attend to one another at once
BUCKETS = 32
ITSELF = -1e5  # score of a token with itself where keys are the queries: seen if there is no other


def rotations(
    channels: int, buckets: int, rounds: int, like: Tensor, seed: int = 0
) -> Float[Tensor, "round channel half"]:
    """Random matrices R, one for each hash, the same ones for a seed."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(rounds, channels, buckets // 2, generator=draw).to(like)


def hashed(
    x: Float[Tensor, "*batch length channel"], rotation: Float[Tensor, "channel half"]
) -> Int[Tensor, "*batch length"]:
    """Bucket argmax([x R; −x R]): vectors of similar direction mostly share one (section 2, angular LSH)."""
    turned = x @ rotation
    return torch.cat([turned, -turned], dim=-1).argmax(dim=-1)


def lsh(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor, buckets: int, rounds: int, seed: int = 0
) -> AttentionOutput:
    """Full attention over keys that share a bucket with the query in one of the rounds; a query always sees itself."""
    own = torch.eye(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device)
    shared = own.expand(*query.shape[:-1], key.shape[-2])
    for rotation in rotations(query.shape[-1], buckets, rounds, query, seed):
        shared = shared | (hashed(query, rotation)[..., :, None] == hashed(key, rotation)[..., None, :])
    return full(query, key, value, visible & shared)


def tied(query: Tensor, value: Tensor, visible: Tensor, buckets: int, rounds: int) -> AttentionOutput:
    """Reformer's own form: keys are the queries, made of length 1, and a token sees itself only if it sees no other."""
    key = F.normalize(query, dim=-1)
    shared = torch.eye(query.shape[-2], dtype=torch.bool, device=query.device).expand(*query.shape[:-1], -1)
    itself = shared
    for rotation in rotations(query.shape[-1], buckets, rounds, query):
        bucket = hashed(query, rotation)
        shared = shared | (bucket[..., :, None] == bucket[..., None, :])
    scores = (query @ key.mT / query.shape[-1] ** 0.5).masked_fill(itself, ITSELF)
    weights = softmax_where(scores, visible & shared)
    return AttentionOutput(weights @ value, weights)


def quick(query: Tensor, _key: Tensor, value: Tensor, buckets: int = BUCKETS, chunk: int = CHUNK) -> Tensor:
    """Tied, one round: tokens sorted by bucket, chunks of them against themselves and the chunk before (section 2)."""
    length, root = query.shape[1], query.shape[-1] ** 0.5
    bucket = hashed(query, rotations(query.shape[-1], buckets, 1, query)[0])
    order = bucket.argsort(dim=-1, stable=True)
    sorted_query, sorted_value = (x.take_along_dim(order[..., None], 1) for x in (query, value))
    rows = torch.arange(length, device=query.device).expand_as(order)
    tags = torch.stack([bucket.take_along_dim(order, 1) + 1, rows + 1], dim=-1)  # 0 fills up chunks
    at, seen = in_chunks(tags, chunk), with_neighbours(tags, chunk, after=False)
    key = with_neighbours(F.normalize(sorted_query, dim=-1), chunk, after=False)
    scores = in_chunks(sorted_query, chunk) @ key.mT / root
    same = at[..., :, None, :] == seen[..., None, :, :]
    weights = softmax_where(scores.masked_fill(same[..., 1], ITSELF), same[..., 0])
    heads = (weights @ with_neighbours(sorted_value, chunk, after=False)).flatten(1, 2)[:, :length]
    return torch.zeros_like(heads).scatter(1, order[..., None].expand_as(heads), heads)


def variant(sizes: Sizes) -> Variant:
    """Hashes into `sizes.buckets` buckets, `sizes.rounds` of them."""
    buckets, rounds = sizes.buckets, sizes.rounds

    def module(config: TransformerConfig, causal: bool) -> VariantAttention:
        return VariantAttention(config, causal, lambda q, _k, v, visible: tied(q, v, visible, buckets, rounds))

    return Variant(
        key="lsh",
        name=say("hashing (Reformer)"),
        formula=r"h(q_i) = h(k_j),\quad h(x) = \arg\max\,[xR;\, -xR]",
        source="Kitaev et al., 2020, section 2",
        exponents=(1, 1),
        attend=partial(lsh, buckets=buckets, rounds=rounds, seed=sizes.seed),
        quick=quick,
        cache_tensors=whole_cache,
        cached=all_cached,
        module=module,
        code=(hashed, lsh, quick),
    )
