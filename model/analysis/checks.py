"""What a trace can prove about itself: each check computes on the recorded tensors and keeps the largest error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import torch

from model.analysis.attention_maps import AT_ONCE, Maps
from model.capture.hooks import no_recording
from model.capture.interventions import ChangedMask, kind_and_layer, removed_heads
from model.capture.trace import AttentionKind
from model.fast.attention import fused
from model.network.attention import MultiHeadAttention
from model.network.masks import Mask
from model.network.norms import Norm
from model.runtime.device import exact, with_float64

if TYPE_CHECKING:
    from model.capture.trace import Trace

# The largest error that rounding alone explains, for quantities of size about 1.
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 5e-2, torch.float16: 5e-3}


@dataclass(frozen=True)
class Check:
    """A statement about a trace, the largest error found, and how much of one rounding would explain.

    name: "rows", "future", "padding", "fused" or "norm". cells: how many numbers were compared. tensor: the name of the
    quantity with the largest error.
    """

    name: str
    error: float
    tolerance: float
    cells: int
    tensor: str = ""

    @property
    def passed(self) -> bool:
        return self.error <= self.tolerance  # False for NaN


@torch.no_grad()
def checks(trace: Trace) -> list[Check]:
    """All checks of a trace, in the order in which they are shown.

    What must not be seen is what the network's own masks hide, whatever an intervention made of them.
    """
    tolerance = TOLERANCES[trace.dtype()]
    rows, future, padding, fused = _Largest(), _Largest(), _Largest(), _Largest()
    for kind in get_args(AttentionKind):
        for paths, heads, weights in _pieces(trace, kind):
            # (layer, head, query, key); visible (layer, head or 1, query, key).
            names = [f"{path}.weights" for path in paths]
            masks = [trace.mask(path) for path in paths]
            own = [mask.original if isinstance(mask, ChangedMask) else mask for mask in masks]
            visible = _stacked([_of(trace.visible(path), heads) for path in paths])
            unseen = visible
            if any(isinstance(mask, ChangedMask) for mask in masks):
                unseen = _stacked(
                    [_of(trace.visible(path, mask), heads) for path, mask in zip(paths, own, strict=True)]
                )
            causal = [mask.causal or before.causal for mask, before in zip(masks, own, strict=True)]
            hidden = ~visible | ~unseen
            later = torch.ones_like(hidden).triu(1) & torch.tensor(causal, device=weights.device)[:, None, None, None]
            sums = with_float64(weights).sum(dim=-1, dtype=torch.float64)
            attentions = [trace.module(path) for path in paths]
            if all(getattr(each, "sums_to_one", True) for each in attentions):
                rows.add((sums - exact(visible.any(dim=-1))).abs(), names)
            if hidden.shape[1] == 1:  # the same for all heads: only their largest weights count
                worst, times = weights.amax(dim=1, keepdim=True), weights.shape[1]
            else:
                worst, times = weights, 1
            future.add_where(later, worst, names, times)
            padding.add_where(hidden & ~later, worst, names, times)
            if f"{paths[0]}.heads" not in trace or not all(getattr(each, "recombines", True) for each in attentions):
                continue
            for path, each in zip(paths, weights, strict=True):  # one by one: layers may have heads of other widths
                other = _without_removed(trace, path, heads, _other_path(trace, path, heads, each))
                fused.compare(other[None], trace[f"{path}.heads"][None, heads], [f"{path}.heads"])
    norm = _norm_errors(trace)
    return [
        Check("rows", rows.value, tolerance, rows.cells, rows.name),
        Check("future", future.value, 0.0, future.cells, future.name),
        Check("padding", padding.value, 0.0, padding.cells, padding.name),
        Check("fused", fused.value, tolerance * fused.size, fused.cells, fused.name),
        Check("norm", norm.value, tolerance * norm.size, norm.cells, norm.name),
    ]


def _of(visible: torch.Tensor, heads: slice) -> torch.Tensor:
    """What these heads may look at; one entry where all may look at the same."""
    return visible if len(visible) == 1 else visible[heads]


def _stacked(visible: list[torch.Tensor]) -> torch.Tensor:
    """The layers of one kind, one for all heads where no layer tells heads apart."""
    heads = max(len(each) for each in visible)
    return torch.stack([each.expand(heads, -1, -1) for each in visible])


class _Largest:
    """The largest of all numbers added, NaN if one of them is, and the name of the tensor that it is in."""

    def __init__(self) -> None:
        self.value, self.cells, self.size, self.name = 0.0, 0, 1.0, ""

    def compare(self, ours: torch.Tensor, theirs: torch.Tensor, names: list[str]) -> None:
        """Add the differences, and note how large the numbers are: rounding grows with them."""
        self.add((ours - theirs).abs(), names)
        if theirs.numel():
            self.size = max(self.size, float(theirs.detach().abs().max()))

    def add_where(self, where: torch.Tensor, numbers: torch.Tensor, names: list[str], times: int) -> None:
        """Only the numbers at these places; times: how many each stands for, of which it is the largest."""
        where = where.expand_as(numbers)
        if count := int(where.sum()):
            self.add(numbers.where(where, 0), names, times * count)

    def add(self, numbers: torch.Tensor, names: list[str], cells: int | None = None) -> None:
        """Numbers of several tensors along the first dimension, each with its name."""
        self.cells += numbers.numel() if cells is None else cells
        if not numbers.numel():
            return
        each = numbers.detach().flatten(1).amax(dim=1)
        largest, place = (float(part) for part in each.max(dim=0))
        if largest != largest or largest > self.value:
            self.value, self.name = largest, names[int(place)]


def _pieces(trace: Trace, kind: AttentionKind) -> Iterator[tuple[list[str], slice, torch.Tensor]]:
    """The weights (layer, head, query, key) and whose they are: of all layers at once where they are small."""
    if not trace.attention_paths(kind):
        return
    maps = Maps(trace, kind)
    if maps.small:
        yield maps.paths, slice(0, maps.heads), trace.attention(kind)
        return
    for layer, heads in maps.groups():
        yield [maps.paths[layer]], heads, maps.computed(layer, heads)[None]


def _other_path(trace: Trace, path: str, heads: slice, weights: torch.Tensor) -> torch.Tensor:
    """The heads' outputs by the path that the recorded pass did not take: explicit for fused, or the reverse."""
    attention = trace.module(path)
    assert isinstance(attention, MultiHeadAttention)
    if not trace.maps or "capped" in attention.maps or f"{path}.bias" in trace:
        return weights @ trace.values(path)[heads]
    query, key, value = (trace[f"{path}.{name}"][None] for name in ("query", "key", "value"))
    visible = trace[f"{path}.visible"]
    with torch.inference_mode(), no_recording():
        return fused(attention, query, key, value, Mask(pattern=lambda *positions: visible))[0]


def _without_removed(trace: Trace, path: str, heads: slice, outputs: torch.Tensor) -> torch.Tensor:
    """The outputs of these heads, 0 of those that were removed from the pass."""
    removed = [head - heads.start for head in removed_heads(trace.changes, *kind_and_layer(path))]
    here = [head for head in removed if 0 <= head < len(outputs)]
    return outputs.index_fill(0, torch.tensor(here, device=outputs.device), 0.0) if here else outputs


def _norm_errors(trace: Trace) -> _Largest:
    """Every norm's output against its formula in float64; norms of one rule at once where they see as many tokens."""
    errors = _Largest()
    alike: dict[object, list[tuple[str, Norm]]] = {}
    for path in trace.norm_paths():
        norm, given = trace.module(path), trace[f"{path}.input"]
        assert isinstance(norm, Norm)
        alike.setdefault((norm.rule, given.shape, given.device), []).append((path, norm))
    for found in (piece for group in alike.values() for piece in _modest(trace, group)):
        inputs, outputs = (
            torch.stack([trace[f"{path}.{side}"] for path, _norm in found]) for side in ("input", "output")
        )
        expected = Norm.exactly([norm for _path, norm in found], inputs)
        errors.compare(expected, exact(outputs), [f"{path}.output" for path, _norm in found])
    return errors


def _modest(trace: Trace, found: list[tuple[str, Norm]]) -> Iterator[list[tuple[str, Norm]]]:
    """Pieces of these norms, which see equally much: several at once only where that is little."""
    size = max(1, AT_ONCE // max(1, trace[f"{found[0][0]}.input"].numel()))
    for first in range(0, len(found), size):
        yield found[first : first + size]
