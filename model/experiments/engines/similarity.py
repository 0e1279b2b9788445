"""Similarity of queries and keys: whether a larger dot product means a larger cosine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from model.analysis.attention_maps import Maps
from model.network.attention import for_each_head
from model.runtime.device import exact
from model.runtime.errors import require


def dots(query: Float[Tensor, "*query channel"], key: Float[Tensor, "*key channel"]) -> Float[Tensor, "*query_key"]:
    """Dot products q · k = ‖q‖ ‖k‖ cos(q, k), in float64."""
    return exact(query) @ exact(key).mT


def cosines(query: Float[Tensor, "*query channel"], key: Float[Tensor, "*key channel"]) -> Float[Tensor, "*query_key"]:
    """Cosines q · k / (‖q‖ ‖k‖), in float64; NaN where one of the vectors is 0."""
    query, key = exact(query), exact(key)
    return (query / query.norm(dim=-1, keepdim=True)) @ (key / key.norm(dim=-1, keepdim=True)).mT


def ranks(values: Float[Tensor, "*row key"]) -> Float[Tensor, "*row key"]:
    """Ranks from 1 for the smallest value of each row; equal values share the mean of their ranks; NaN is last."""
    ordered, order = values.sort(dim=-1, stable=True)
    first = torch.searchsorted(ordered.contiguous(), ordered.contiguous(), right=False)
    last = torch.searchsorted(ordered.contiguous(), ordered.contiguous(), right=True)
    return torch.empty_like(values).scatter_(-1, order, (first + last + 1).to(values.dtype) / 2)


def spearman(
    one: Float[Tensor, "*row key"], other: Float[Tensor, "*row key"], visible: Bool[Tensor, "*row key"]
) -> Float[Tensor, "*row"]:
    """Spearman's rank correlation over the visible keys of each row; NaN where there are fewer than two, all are equal,
    or one is NaN.

    Hidden keys get +∞, so that they rank behind all others, and their ranks do not count.
    """
    count = visible.sum(dim=-1, keepdim=True).clamp(min=1)
    centred = []
    for values in (one, other):
        rank = ranks(values.masked_fill(~visible, torch.inf))
        mean = rank.masked_fill(~visible, 0.0).sum(dim=-1, keepdim=True) / count
        centred.append((rank - mean).masked_fill(~visible, 0.0))
    first, second = centred
    spread = first.square().sum(dim=-1).sqrt() * second.square().sum(dim=-1).sqrt()
    unknown = ((one.isnan() | other.isnan()) & visible).any(dim=-1)
    return ((first * second).sum(dim=-1) / spread).masked_fill(unknown, torch.nan)  # 0/0 is NaN too


@dataclass(frozen=True)
class Agreement:
    """Rank correlation of dot products and cosines, and whether the best key is the same (1 or 0), for each query.

    NaN for queries that see fewer than two keys, or a vector of length 0. queries: their positions.
    """

    correlation: Float[Tensor, "layer head query"]
    same_best: Float[Tensor, "layer head query"]
    queries: Int[Tensor, " query"]

    @property
    def share(self) -> float:
        """Share of queries with the same best key, of those that see two keys or more."""
        return float(self.same_best.nanmean())


def agreement(maps: Maps) -> Agreement:
    """Agreement for every query of every head, or for as many as can be ranked at once, evenly spread.

    Raises:
        MissingQuantityError: the model does not show its queries and keys.
    """
    queries = torch.arange(0, maps.queries, maps.every)
    layers = (_agreement(*_compare(maps, layer, slice(None), queries)) for layer in range(maps.layers))
    correlations, same = zip(*layers, strict=True)
    return Agreement(torch.stack(correlations), torch.stack(same), queries)


@dataclass(frozen=True)
class RankedKeys:
    """Visible keys of one query: their places, dot products and cosines, and the rank correlation."""

    places: list[int]
    dot: Float[Tensor, " key"]
    cosine: Float[Tensor, " key"]
    correlation: float


def rank_keys(maps: Maps, layer: int, head: int, query: int) -> RankedKeys:
    """Visible keys of one query of a head.

    Raises:
        MissingQuantityError: the model does not show its queries and keys.
    """
    compared = _compare(maps, layer, slice(head, head + 1), torch.tensor([query]))
    dot, cosine, visible = (values[0, 0].cpu() for values in compared)
    return RankedKeys(
        visible.nonzero()[:, 0].tolist(), dot[visible], cosine[visible], float(spearman(dot, cosine, visible))
    )


def _compare(
    maps: Maps, layer: int, heads: slice, queries: Tensor
) -> tuple[Float[Tensor, "head query key"], Float[Tensor, "head query key"], Bool[Tensor, "head query key"]]:
    """Dot products and cosines of queries with all keys, and whether each key is visible."""
    trace, path = maps.trace, maps.paths[layer]
    require(trace.network, f"{path}.query", f"{path}.scores")
    query = exact(trace[f"{path}.query"][heads])
    key = exact(for_each_head(trace[f"{path}.key"], maps.heads)[heads])
    queries = queries.to(query.device)
    visible = trace.visible(path).to(query.device)[:, queries].expand(maps.heads, -1, -1)[heads]
    return dots(query[:, queries], key), cosines(query[:, queries], key), visible


def _agreement(dot: Tensor, cosine: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
    """Rank correlation of each query, and whether its best key is the same."""
    best = [values.masked_fill(~visible, -torch.inf).argmax(dim=-1) for values in (dot, cosine)]
    usable = (visible.sum(dim=-1) > 1) & ~(cosine.isnan() & visible).any(dim=-1)
    same = (best[0] == best[1]).double().masked_fill(~usable, torch.nan)
    return spearman(dot, cosine, visible).cpu(), same.cpu()


def plane(vectors: Sequence[tuple[float, float]]) -> tuple[Tensor, Tensor, Tensor]:
    """Dot products (key), norms (1 + key) of all vectors, and cosines (key) of the first vector, the query, with the
    others, the keys; all in the plane.
    """
    query, *keys = torch.tensor(vectors, dtype=torch.float64)
    key = torch.stack(keys)
    both = torch.cat([query[None], key])
    return dots(query[None], key)[0], both.norm(dim=-1), cosines(query[None], key)[0]
