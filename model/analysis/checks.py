"""What a trace can prove about itself: each check computes on the recorded tensors and keeps the largest error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import torch

from model.analysis.maps import Maps
from model.attention import MultiHeadAttention
from model.masks import Mask
from model.norms import Norm
from model.trace import AttentionKind, ordinary

if TYPE_CHECKING:
    from model.trace import Trace

# The largest error that rounding alone explains, for quantities of size about 1.
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 5e-2, torch.float16: 5e-3}


@dataclass(frozen=True)
class Check:
    """A statement about a trace, the largest error found, and how much of one rounding would explain.

    name: "rows", "future", "padding", "fused" or "norm". cells: how many numbers were compared.
    """

    name: str
    error: float
    tolerance: float
    cells: int

    @property
    def passed(self) -> bool:
        return self.error <= self.tolerance  # False for NaN


@torch.no_grad()
def checks(trace: Trace) -> list[Check]:
    """All checks of a trace, in the order in which they are shown."""
    tolerance = TOLERANCES[trace["output.logits"].dtype]
    rows, future, padding, fused = _Largest(), _Largest(), _Largest(), _Largest()
    for kind in get_args(AttentionKind):
        for paths, heads, weights in _pieces(trace, kind):
            visible = torch.stack([trace[f"{path}.visible"] for path in paths])[:, None]
            causal = torch.tensor([trace.mask(path).causal for path in paths], device=weights.device)
            later = torch.ones_like(visible).triu(1) & causal[:, None, None, None]
            rows.add((weights.sum(dim=-1, dtype=torch.float64) - visible.any(dim=-1).double()).abs())
            worst, count = weights.amax(dim=1, keepdim=True), weights.shape[1]
            future.largest_of(worst, later, count)
            padding.largest_of(worst, ~visible & ~later, count)
            recorded = torch.stack([trace[f"{path}.heads"][heads] for path in paths])
            other = [_other_path(trace, path, heads, each) for path, each in zip(paths, weights, strict=True)]
            fused.compare(torch.stack(other), recorded)
    norm = _norm_errors(trace)
    return [
        Check("rows", rows.value, tolerance, rows.cells),
        Check("future", future.value, 0.0, future.cells),
        Check("padding", padding.value, 0.0, padding.cells),
        Check("fused", fused.value, tolerance * fused.size, fused.cells),
        Check("norm", norm.value, tolerance * norm.size, norm.cells),
    ]


class _Largest:
    """The largest of all numbers added, NaN if one of them is."""

    def __init__(self) -> None:
        self.value, self.cells, self.size = 0.0, 0, 1.0

    def compare(self, ours: torch.Tensor, theirs: torch.Tensor) -> None:
        """Add the differences, and note how large the numbers are: rounding grows with them."""
        self.add((ours - theirs).abs())
        if theirs.numel():
            self.size = max(self.size, float(theirs.detach().abs().max()))

    def largest_of(self, numbers: torch.Tensor, where: torch.Tensor, times: int) -> None:
        """Add the numbers at some places; times: how many each stands for, of which it is the largest."""
        if cells := int(where.sum()):
            self.add(numbers.masked_fill(~where, 0.0).amax().reshape(1))
            self.cells += times * cells - 1

    def add(self, numbers: torch.Tensor) -> None:
        self.cells += numbers.numel()
        if numbers.numel():
            largest = float(numbers.detach().max())
            self.value = largest if largest != largest else max(self.value, largest)


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
    attention = trace.model.get_submodule(path)
    assert isinstance(attention, MultiHeadAttention)
    if not trace.maps:
        return weights @ trace.values(path)[heads]
    query, key, value = (trace[f"{path}.{name}"][None] for name in ("query", "key", "value"))
    visible = trace[f"{path}.visible"]
    with torch.inference_mode(), ordinary():
        return attention.fused(query, key, value, Mask(pattern=lambda *positions: visible))[0]


def _norm_errors(trace: Trace) -> _Largest:
    """Every norm's output against its formula in float64."""
    errors = _Largest()
    if paths := trace.norm_paths():
        expected = []
        for path in paths:
            norm = trace.model.get_submodule(path)
            assert isinstance(norm, Norm)
            expected.append(norm.exactly(trace[f"{path}.input"]))
        errors.compare(torch.cat(expected), torch.cat([trace[f"{path}.output"] for path in paths]).double())
    return errors
