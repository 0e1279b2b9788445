"""How alike heads are on one text: in where they look, and in what they give."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from model.analysis.information import entropy_terms
from model.analysis.maps import Maps
from model.capture.trace import AttentionKind, Trace
from model.network.attention import MultiHeadAttention
from model.runtime.device import exact

MOST = 64  # queries that are compared; of longer texts so many, evenly spread


@dataclass(frozen=True)
class Likeness:
    """One head beside every head of its kind (layer, head).

    maps: the Jensen–Shannon distance of where they look, 0 (alike) to 1. outputs: the cosine of what they give; None
    where a model's W^O was not found. queries: how many were compared.
    """

    maps: Float[Tensor, "layer head"]
    outputs: Float[Tensor, "layer head"] | None
    queries: int

    def nearest(self, layer: int, head: int) -> tuple[int, int] | None:
        """The other head that gives what this one gives, or, where that is not known, looks where it looks."""
        likest = (-self.maps if self.outputs is None else self.outputs).clone()
        likest[layer, head] = torch.nan
        if bool(likest.isnan().all()):
            return None
        place = int(likest.nan_to_num(-torch.inf).argmax())
        return place // likest.shape[1], place % likest.shape[1]


def likeness(trace: Trace, kind: AttentionKind, layer: int, head: int) -> Likeness:
    """A head beside all of its kind, over the same queries.

    Where they look: the distance √JS, JS = H(½p + ½q) − ½H(p) − ½H(q) in bits, averaged over the queries (Clark et al.,
    2019, section 6, who take JS itself). What they give: cos(o, o′) of the outputs after W^O, all queries in a row (Li
    et al., 2018, whose disagreement on outputs takes it before W^O).
    """
    maps = Maps(trace, kind)
    count = min(MOST, maps.queries)
    places = torch.linspace(0, maps.queries - 1, count).round().long()
    chosen = exact(maps.weights(layer, slice(head, head + 1))[:, places])
    distances = torch.zeros(maps.layers, maps.heads, dtype=torch.float64)
    for each, heads in maps.groups():
        weights = maps.weights(each, heads)
        distances[each, heads] = map_distance(exact(weights[:, places]), chosen).mean(dim=-1).cpu()
    return Likeness(distances, _cosines(trace, maps, layer, head, places), count)


def map_distance(
    p: Float[Tensor, "head query key"], q: Float[Tensor, "#head query key"]
) -> Float[Tensor, "head query"]:
    """√JS(p, q) in bits: 0 where p is q, 1 where no key has weight in both (Endres and Schindelin, 2003)."""
    mixed, both = entropy_terms((p + q) / 2), entropy_terms(p) + entropy_terms(q)
    bits = (mixed.sum(dim=-1) - both.sum(dim=-1) / 2) / math.log(2)
    return bits.clamp(0, 1).sqrt()


def _cosines(trace: Trace, maps: Maps, layer: int, head: int, places: Tensor) -> Tensor | None:
    if not all(hasattr(trace.module(path), "output") and f"{path}.heads" in trace for path in maps.paths):
        return None
    (chosen,) = (given[head].flatten() for at, given in _given(trace, maps, places) if at == layer)
    found = torch.zeros(maps.layers, maps.heads, dtype=torch.float64)
    for at, given in _given(trace, maps, places):
        rows = given.flatten(1)
        sizes = rows.norm(dim=-1) * chosen.norm()
        found[at] = (rows @ chosen / sizes).cpu()  # NaN of a head that gives nothing
    return found


def _given(trace: Trace, maps: Maps, places: Tensor) -> Iterator[tuple[int, Tensor]]:
    """What the heads of each layer add to its output, (head, query, d_model), in float64."""
    for layer, path in enumerate(maps.paths):
        attention = trace.module(path)
        assert isinstance(attention, MultiHeadAttention)
        heads = exact(trace[f"{path}.heads"][:, places])
        parts = exact(attention.output.weight.detach()).unflatten(1, (maps.heads, -1))  # (d_model, head, channel)
        yield layer, torch.einsum("hqc,dhc->hqd", heads, parts)
