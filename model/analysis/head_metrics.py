"""Metrics of a head's attention: how wide it looks, how far, and at what; and the likeness of heads.

Queries and keys of two texts are compared by their relative places: query i of n falls on the key at
p(i) = i·(m−1)/(n−1) of m. Where both are one text, p(i) = i. Rows without any weight do not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from model.analysis.attention_maps import Maps
from model.capture.trace import AttentionKind, Trace
from model.runtime.device import exact, float64_place, with_float64


def entropy(weights: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch"]:
    """Mean over the queries of −Σ w ln w, in nats: 0 for one key, ln n for n equal ones. Empty rows do not count."""
    return _mean_over_queries(_sum(entropy_terms(weights)), weights)


def distance(weights: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch"]:
    """Mean over the queries of Σ w |p(i) − j| / Σ w, in keys: how far a head looks (Vig and Belinkov, 2019, section
    4.3). Σ w is 1 unless a part goes to a sink, which stands nowhere.
    """
    places = torch.arange(weights.shape[-1], device=weights.device, dtype=weights.dtype)
    away = (_places(weights)[:, None] - places).abs()
    total = _sum(weights)
    far = (_sum(weights * away) / total.clamp(min=torch.finfo(torch.float32).tiny)).where(total > 0, 0)
    return _mean_over_queries(far, weights)


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
    """Mean weight on all special tokens together. marked: whether each key is one."""
    return _mean_over_queries(_sum(weights[..., marked]), weights)


def induction(weights: Float[Tensor, "*batch query key"], after: Bool[Tensor, "query key"]) -> Float[Tensor, "*batch"]:
    """Mean weight on earlier keys right after the query's own token, over the queries that have such a key; NaN where
    none has (Olsson et al., 2022: induction heads). after: whether a key is one, see `after_the_same`.
    """
    return _mean_over_queries(_sum(weights * after), weights, counted=after.any(dim=-1))


def after_the_same(labels: Sequence[str]) -> Bool[Tensor, "query key"]:
    """True where a key stands right after an earlier token that is the same as the query; never the query itself."""
    numbers = {label: number for number, label in enumerate(labels)}
    ids = torch.tensor([numbers[label] for label in labels])
    same = ids[:, None] == ids
    return torch.cat([torch.zeros_like(same[:, :1]), same[:, :-1]], dim=1).tril(-1)


# Metrics by name, of the weights and a mark: the special tokens for `special`, the keys after for `induction`.
METRICS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "entropy": lambda weights, _marked: entropy(weights),
    "distance": lambda weights, _marked: distance(weights),
    "previous": lambda weights, _marked: previous(weights),
    "first": lambda weights, _marked: first(weights),
    "special": special,
    "diagonal": lambda weights, _marked: diagonal(weights),
    "induction": induction,
}


def metric(
    name: str, weights: Float[Tensor, "head query key"], marked: Tensor, sink: Float[Tensor, "head query"] | None = None
) -> Float[Tensor, " head"]:
    """A metric of some heads, from their weights; the entropy counts what goes to a sink, too."""
    values = METRICS[name](weights, marked)
    return values if sink is None or name != "entropy" else values + exact(entropy_terms(sink)).mean(dim=-1)


def _places(weights: Tensor) -> Tensor:
    """p(i) of every query, among the keys."""
    queries, keys = weights.shape[-2:]
    query = torch.arange(queries, device=float64_place(weights.device), dtype=torch.float64)
    return (query * ((keys - 1) / max(1, queries - 1))).to(weights.dtype).to(weights.device)


def _at(weights: Tensor, keys: Tensor) -> Tensor:
    """Weight of each query on the key of its place."""
    rows = torch.arange(weights.shape[-2], device=weights.device)
    return exact(weights[..., rows, keys])


def _sum(cells: Tensor) -> Tensor:
    """Sum over the keys, in float64."""
    return with_float64(cells).sum(dim=-1, dtype=torch.float64)


def _mean_over_queries(rows: Tensor, weights: Tensor, counted: Tensor | None = None) -> Tensor:
    filled = (weights.sum(dim=-1) > 0).to(rows.device)
    if counted is None:
        return (rows * filled).sum(dim=-1) / filled.sum(dim=-1).clamp(min=1)
    filled = filled & counted.to(rows.device)
    return (rows * filled).sum(dim=-1) / filled.sum(dim=-1)  # 0/0 is NaN: no query has such a key


# Entropy, a term of it for each probability.


def entropy_terms(p: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """−p ln p of each probability, in nats, 0 where p is 0; in float32 at least, and without a gradient.

    On a CPU two to eight times as fast as `torch.special.entr`, which is not vectorised there.
    """
    p = p.detach().to(torch.promote_types(p.dtype, torch.float32))
    return p.clamp_min(torch.finfo(p.dtype).tiny).log_().mul_(p).neg_()


def entropies(p: Float[Tensor, "*batch outcome"]) -> Float[Tensor, "*batch"]:
    """−Σ p ln p of distributions, in nats: 0 for one sure outcome, ln n for n equal ones."""
    return entropy_terms(p).sum(dim=-1)


# Likeness of heads on one text: of where they look, and of their outputs.

MOST = 64  # queries compared; of longer texts so many, evenly spread


@dataclass(frozen=True)
class Likeness:
    """Likeness of one head to every head of its kind.

    maps: Jensen–Shannon distance of where they look, 0 (alike) to 1. outputs: cosine of their parts of the layer's
    output; None where the model does not show its W^O. queries: number of those compared.
    """

    maps: Float[Tensor, "layer head"]
    outputs: Float[Tensor, "layer head"] | None
    queries: int

    def nearest(self, layer: int, head: int) -> tuple[int, int] | None:
        """Layer and number of the head whose output is most alike, or, where outputs are not known, whose map is.

        layer, head: this head, which is left out. None where there is no other.
        """
        closeness = (-self.maps if self.outputs is None else self.outputs).clone()
        closeness[layer, head] = torch.nan
        if bool(closeness.isnan().all()):
            return None
        return divmod(int(closeness.nan_to_num(-torch.inf).argmax()), closeness.shape[1])


def likeness(trace: Trace, kind: AttentionKind, layer: int, head: int) -> Likeness:
    """Likeness of a head to all of its kind, over the same queries.

    maps: √JS, JS = H(½p + ½q) − ½H(p) − ½H(q) in bits, averaged over the queries (Clark et al., 2019, section 6, who
    take JS itself). outputs: cos(o, o′) of the outputs after W^O, all queries in a row (Li et al., 2018, whose
    disagreement on outputs takes it before W^O).
    """
    maps = Maps(trace, kind)
    count = min(MOST, maps.queries)
    places = torch.linspace(0, maps.queries - 1, count).round().long()
    chosen = _with_sink(maps, layer, slice(head, head + 1), places)
    distances = torch.zeros(maps.layers, maps.heads, dtype=torch.float64)
    for other, heads in maps.groups():
        weights = _with_sink(maps, other, heads, places)
        distances[other, heads] = map_distance(weights, chosen).mean(dim=-1).cpu()
    return Likeness(distances, _cosines(trace, maps, layer, head, places), count)


def _with_sink(maps: Maps, layer: int, heads: slice, queries: Tensor) -> Float[Tensor, "head query outcome"]:
    """Distributions of some queries of some heads: over the keys, and the sink where there is one."""
    weights, sink = exact(maps.weights(layer, heads)[:, queries]), maps.sink(layer, heads)
    none = weights.new_zeros(weights.shape[:-1]) if sink is None else exact(sink[:, queries])
    return torch.cat([weights, none[..., None]], dim=-1)


def map_distance(
    p: Float[Tensor, "head query key"], q: Float[Tensor, "#head query key"]
) -> Float[Tensor, "head query"]:
    """√JS(p, q) in bits: 0 where p is q, 1 where no key has weight in both (Endres and Schindelin, 2003)."""
    bits = (entropies((p + q) / 2) - (entropy_terms(p) + entropy_terms(q)).sum(dim=-1) / 2) / math.log(2)
    return bits.clamp(0, 1).sqrt()


def _cosines(trace: Trace, maps: Maps, layer: int, head: int, places: Tensor) -> Tensor | None:
    if not all(hasattr(trace.module(path), "output") and f"{path}.heads" in trace for path in maps.paths):
        return None
    chosen = _outputs(trace, maps, layer, places)[head]
    cosines = torch.zeros(maps.layers, maps.heads, dtype=torch.float64)
    for other in range(maps.layers):
        outputs = _outputs(trace, maps, other, places)
        sizes = outputs.norm(dim=-1) * chosen.norm()
        cosines[other] = (outputs @ chosen / sizes).cpu()  # NaN of a head that gives nothing
    return cosines


def _outputs(trace: Trace, maps: Maps, layer: int, places: Tensor) -> Float[Tensor, "head numbers"]:
    """Outputs of the heads of a layer after W^O, in float64, the numbers of all queries in a row."""
    path = maps.paths[layer]
    heads = exact(trace[f"{path}.heads"][:, places])
    weight = exact(trace.attention_at(path).output.weight.detach())
    parts = weight.unflatten(1, (maps.heads, -1))  # (d_model, head, channel)
    return torch.einsum("hqc,dhc->hqd", heads, parts).flatten(1)
