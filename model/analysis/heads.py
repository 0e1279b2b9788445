"""Numbers that describe a head's attention: how wide it looks, how far, and at what.

Queries and keys of two texts are compared by their relative places: query i of n falls on the key at
p(i) = i·(m−1)/(n−1) of m. Where both are one text, p(i) = i. Rows without any weight do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from model.analysis.information import entropy_terms
from model.runtime.device import exact, float64_place, with_float64


def entropy(weights: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch"]:
    """Mean over the queries of −Σ w ln w, in nats: 0 for one key, ln n for n equal ones. Empty rows do not count."""
    return _mean_over_queries(_sum(entropy_terms(weights)), weights)


def distance(weights: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch"]:
    """Mean over the queries of Σ w |p(i) − j|, in keys: how far a head looks (Vig and Belinkov, 2019, section 4.3)."""
    places = torch.arange(weights.shape[-1], device=weights.device, dtype=weights.dtype)
    away = (_places(weights)[:, None] - places).abs()
    return _mean_over_queries(_sum(weights * away), weights)


def diagonal(weights: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch"]:
    """Mean weight on the query's own place, the key nearest to p(i)."""
    return _mean_over_queries(_at(weights, _places(weights).round().long()), weights)


def previous(weights: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch"]:
    """Mean weight on the key before the query's own place, over the queries that have one; NaN where none has."""
    before = _places(weights).round().long() - 1
    return _mean_over_queries(_at(weights, before.clamp(min=0)), weights, counted=before >= 0)


def first(weights: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch"]:
    """Mean weight on the first key."""
    return _mean_over_queries(exact(weights[..., 0]), weights)


def special(weights: Float[Tensor, "*batch query key"], marked: Bool[Tensor, " key"]) -> Float[Tensor, "*batch"]:
    """Mean weight on all special tokens together; marked: which keys those are."""
    return _mean_over_queries(_sum(weights[..., marked]), weights)


def induction(weights: Float[Tensor, "*batch query key"], after: Bool[Tensor, "query key"]) -> Float[Tensor, "*batch"]:
    """Mean weight on earlier keys right after the query's own token, over the queries that have such a key; NaN where
    none has (Olsson et al., 2022: induction heads). after: which keys those are, see `after_the_same`.
    """
    return _mean_over_queries(_sum(weights * after), weights, counted=after.any(dim=-1))


def after_the_same(labels: Sequence[str]) -> Bool[Tensor, "query key"]:
    """Of each token of a text, which earlier ones stand right after one that is the same; never the token itself."""
    numbers = {label: number for number, label in enumerate(labels)}
    ids = torch.tensor([numbers[label] for label in labels])
    same = ids[:, None] == ids
    return torch.cat([torch.zeros_like(same[:, :1]), same[:, :-1]], dim=1).tril(-1)


# By name, each of the weights and of what is marked: the keys that are special tokens, or what `induction` needs.
METRICS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "entropy": lambda weights, _marked: entropy(weights),
    "distance": lambda weights, _marked: distance(weights),
    "previous": lambda weights, _marked: previous(weights),
    "first": lambda weights, _marked: first(weights),
    "special": special,
    "diagonal": lambda weights, _marked: diagonal(weights),
    "induction": induction,
}


def _places(weights: Tensor) -> Tensor:
    """p(i) of every query, among the keys."""
    queries, keys = weights.shape[-2:]
    each = torch.arange(queries, device=float64_place(weights.device), dtype=torch.float64)
    return (each * ((keys - 1) / max(1, queries - 1))).to(weights.dtype).to(weights.device)


def _at(weights: Tensor, keys: Tensor) -> Tensor:
    """Of each query the weight on the key of that place."""
    rows = torch.arange(weights.shape[-2], device=weights.device)
    return exact(weights[..., rows, keys])


def _sum(cells: Tensor) -> Tensor:
    """Over the keys, in float64."""
    return with_float64(cells).sum(dim=-1, dtype=torch.float64)


def _mean_over_queries(rows: Tensor, weights: Tensor, counted: Tensor | None = None) -> Tensor:
    filled = (weights.sum(dim=-1) > 0).to(rows.device)
    if counted is None:
        return (rows * filled).sum(dim=-1) / filled.sum(dim=-1).clamp(min=1)
    filled = filled & counted.to(rows.device)
    return (rows * filled).sum(dim=-1) / filled.sum(dim=-1)  # 0/0 is NaN: no query has such a key
