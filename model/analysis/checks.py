"""Checks of a trace on itself: each computes on the recorded tensors and keeps the largest error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from model.analysis.attention_maps import AT_ONCE, Maps, heads_of
from model.capture.hooks import no_recording
from model.capture.interventions import ChangedMask, kind_and_layer, removed_heads
from model.capture.trace import AttentionKind, Trace
from model.fast.attention import fused
from model.network.masks import Mask
from model.network.norms import Norm
from model.runtime.device import exact, with_float64

# Largest errors that rounding alone explains, for quantities of size about 1.
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 5e-2, torch.float16: 5e-3}


@dataclass(frozen=True)
class Check:
    """Statement about a trace, with the largest error that was found and the largest that rounding would explain.

    name: "rows", "future", "padding", "hidden", "fused" or "norm". cells: count of numbers compared. tensor: name of
    the quantity with the largest error. possible: whether this model shows what has to be compared, where there is
    something.
    """

    name: str
    error: float
    tolerance: float
    cells: int
    tensor: str = ""
    possible: bool = True

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.error <= self.tolerance  # False for NaN


@torch.no_grad()
def checks(trace: Trace, count: Callable[[int], None] = lambda heads: None) -> list[Check]:
    """All checks of a trace, in the order in which they are shown.

    Hidden is what the network's masks hide, whatever an intervention made of them. count: called with how many heads
    were checked just now.
    """
    tolerance = TOLERANCES[trace.dtype()]
    rows, future, padding, covered, fused = _Largest(), _Largest(), _Largest(), _Largest(), _Largest()
    for kind in get_args(AttentionKind):
        for paths, heads, weights in _weights(trace, kind):
            names = [f"{path}.weights" for path in paths]
            masks = [trace.mask(path) for path in paths]
            originals = [mask.original if isinstance(mask, ChangedMask) else mask for mask in masks]
            visible = _visible(trace, paths, masks, heads)
            hidden = ~visible
            if any(isinstance(mask, ChangedMask) for mask in masks):
                hidden = hidden | ~_visible(trace, paths, originals, heads)
            causal = [mask.causal or original.causal for mask, original in zip(masks, originals, strict=True)]
            later = torch.ones_like(hidden).triu(1) & torch.tensor(causal, device=weights.device)[:, None, None, None]
            attentions = [trace.module(path) for path in paths]
            if all(getattr(attention, "sums_to_one", True) for attention in attentions):
                sums = with_float64(weights).sum(dim=-1, dtype=torch.float64)
                for layer, path in enumerate(paths):
                    if f"{path}.sink" in trace:  # which keeps the rest
                        sums[layer] += exact(trace[f"{path}.sink"][heads])
                rows.add((sums - 1).abs(), names)
            if hidden.shape[1] == 1:  # the same for all heads: only their largest weights count
                worst, times = weights.amax(dim=1, keepdim=True), weights.shape[1]
            else:
                worst, times = weights, 1
            future.add_where(later, worst, names, times)
            padded = ~_visible(trace, paths, [Mask(keys=original.keys) for original in originals], heads)
            padding.add_where(padded & hidden & ~later, worst, names, times)
            covered.add_where(hidden & ~padded & ~later, worst, names, times)
            recombine = all(getattr(attention, "recombines", True) for attention in attentions)
            if f"{paths[0]}.heads" in trace and recombine:
                for path, maps in zip(paths, weights, strict=True):  # one by one: layers may have heads of other widths
                    other = _without_removed(trace, path, heads, _other_path(trace, path, heads, maps))
                    fused.compare(other[None], trace[f"{path}.heads"][None, heads], [f"{path}.heads"])
            count(weights.shape[0] * weights.shape[1])
    norm = _norm_errors(trace)
    attends = any(trace.attention_paths(kind) for kind in get_args(AttentionKind))
    fuses = attends and trace.network.kind != "recurrent"  # whose attention is computed in one way alone
    has_norms = trace.network.config.norm != "none"
    return [
        Check("rows", rows.value, tolerance, rows.cells, rows.name, bool(rows.cells) or not attends),
        Check("future", future.value, 0.0, future.cells, future.name),
        Check("padding", padding.value, 0.0, padding.cells, padding.name),
        Check("hidden", covered.value, 0.0, covered.cells, covered.name),
        Check("fused", fused.value, tolerance * fused.size, fused.cells, fused.name, bool(fused.cells) or not fuses),
        Check("norm", norm.value, tolerance * norm.size, norm.cells, norm.name, bool(norm.cells) or not has_norms),
    ]


def _visible(trace: Trace, paths: list[str], masks: list[Mask], heads: slice) -> Bool[Tensor, "layer head query key"]:
    """Cells that the masks leave visible in these heads; one entry for all heads where no layer tells them apart."""
    layers = [heads_of(trace.visible(path, mask), heads) for path, mask in zip(paths, masks, strict=True)]
    most = max(len(layer) for layer in layers)
    return torch.stack([layer.expand(most, -1, -1) for layer in layers])


class _Largest:
    """Largest of all numbers added, NaN if one of them is, and the name of the tensor that it is in."""

    def __init__(self) -> None:
        self.value, self.cells, self.size, self.name = 0.0, 0, 1.0, ""

    def compare(self, expected: Tensor, actual: Tensor, names: list[str]) -> None:
        """Add the differences, and note how large the numbers are: rounding grows with them."""
        self.add((expected - actual).abs(), names)
        if actual.numel():
            self.size = max(self.size, float(actual.detach().abs().max()))

    def add_where(self, where: Tensor, numbers: Tensor, names: list[str], times: int) -> None:
        """Add the numbers at these places. times: how many each stands for, as the largest of them."""
        where = where.expand_as(numbers)
        if count := int(where.sum()):
            self.add(numbers.where(where, 0), names, times * count)

    def add(self, numbers: Tensor, names: list[str], cells: int | None = None) -> None:
        """Add the numbers of several tensors along the first dimension, each with its name."""
        self.cells += numbers.numel() if cells is None else cells
        if not numbers.numel():
            return
        largest, place = (float(part) for part in numbers.detach().flatten(1).amax(dim=1).max(dim=0))
        if largest != largest or largest > self.value:
            self.value, self.name = largest, names[int(place)]


def _weights(trace: Trace, kind: AttentionKind) -> Iterator[tuple[list[str], slice, Tensor]]:
    """Paths, heads and weights (layer, head, query, key) of attentions: all layers at once where they are small."""
    if not trace.attention_paths(kind):
        return
    maps = Maps(trace, kind)
    if maps.small:
        yield maps.paths, slice(0, maps.heads), trace.attention(kind)
        return
    for layer, heads in maps.groups():
        yield [maps.paths[layer]], heads, maps.computed(layer, heads)[None]


def _other_path(trace: Trace, path: str, heads: slice, weights: Tensor) -> Float[Tensor, "head query channel"]:
    """Outputs of the heads by the path that the recorded pass did not take: explicit for fused, or the reverse."""
    attention = trace.attention_at(path)
    if not trace.maps or "capped" in attention.maps or f"{path}.bias" in trace:
        return weights @ trace.values(path)[heads]
    query, key, value = (trace[f"{path}.{name}"][None] for name in ("query", "key", "value"))
    visible = trace[f"{path}.visible"]
    with torch.inference_mode(), no_recording():
        return fused(attention, query, key, value, Mask(pattern=lambda *positions: visible))[0]


def _without_removed(trace: Trace, path: str, heads: slice, outputs: Tensor) -> Tensor:
    """Outputs of these heads, 0 of those that were removed from the pass."""
    removed = [head - heads.start for head in removed_heads(trace.changes, *kind_and_layer(path))]
    here = [head for head in removed if 0 <= head < len(outputs)]
    return outputs.index_fill(0, torch.tensor(here, device=outputs.device), 0.0) if here else outputs


def _norm_errors(trace: Trace) -> _Largest:
    """Errors of the norms' outputs against their formulas in float64; norms of one rule and shape are computed at once,
    where that is little.
    """
    errors = _Largest()
    alike: dict[object, list[tuple[str, Norm]]] = {}
    for path in trace.norm_paths():
        norm, x = trace.module(path), trace[f"{path}.input"]
        assert isinstance(norm, Norm)
        alike.setdefault((norm.rule, x.shape, x.device), []).append((path, norm))
    for group in alike.values():
        size = max(1, AT_ONCE // max(1, trace[f"{group[0][0]}.input"].numel()))
        for first in range(0, len(group), size):
            paths, norms = zip(*group[first : first + size], strict=True)
            inputs, outputs = (torch.stack([trace[f"{path}.{side}"] for path in paths]) for side in ("input", "output"))
            errors.compare(Norm.exactly(norms, inputs), exact(outputs), [f"{path}.output" for path in paths])
    return errors
