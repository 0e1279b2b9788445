"""Checks of a trace on itself: each computes on the recorded tensors, and keeps the error farthest from rounding."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from model.analysis.attention_maps import AT_ONCE, Maps, heads_of, position_bias, steps
from model.capture.hooks import no_recording
from model.capture.interventions import ChangedMask, kind_and_layer, removed_heads
from model.capture.trace import AttentionKind, Trace
from model.fast.attention import fused, is_fused
from model.network.masks import FixedMask, Mask
from model.network.norms import Norm
from model.network.positions import PositionBias
from model.runtime.device import exact, with_float64

# Roundings, each of half an epsilon, that may lie between two ways of one computation.
EXPONENTIALS = 64  # of weights: torch's fused kernel has an exponential that is 20 epsilons off
SCORES = 4  # of a score, relative to ‖q‖ ‖k‖ / √d_k: they come into the weight as they are
NARROW = 2  # in a kernel that computes in float32 on narrower numbers: of the exponential, and of the result
NARROW_STEPS = 6  # on the way to a weight, where each step is in the narrower precision


@dataclass(frozen=True)
class Check:
    """Statement about a trace, with the number in it that rounding explains least.

    name: "rows", "future", "padding", "hidden", "fused" or "norm". error: of that number, NaN where one is not finite.
    tolerance: largest error of it that rounding explains. cells: count of numbers compared. tensor: name of the
    quantity that it is in. modules, all_modules: attentions or norms in which it could be compared, of how many.
    """

    name: str
    error: float
    tolerance: float
    cells: int
    tensor: str = ""
    modules: int = 0
    all_modules: int = 0

    @property
    def passed(self) -> bool:
        """True if the error is within the tolerance."""
        return self.error <= self.tolerance < math.inf  # False for NaN

    @property
    def possible(self) -> bool:
        """True if this model shows what has to be compared, where there is something."""
        return bool(self.modules) or not self.all_modules


@torch.no_grad()
def checks(trace: Trace, count: Callable[[int], None] = lambda _heads: None) -> list[Check]:
    """All checks of a trace, in the order in which they are shown.

    Hidden is what the network's masks hide, whatever an intervention made of them. count: called with how many heads
    were checked just now.
    """
    rows, future, padding, covered, heads_of_pass = (_Worst() for _ in range(5))
    for kind in get_args(AttentionKind):
        for paths, heads, weights in _weights(trace, kind):
            _compare_rows(trace, paths, heads, weights, rows)
            _compare_hidden(trace, paths, heads, weights, (future, padding, covered))
            _compare_heads(trace, paths, heads, weights, heads_of_pass)
            count(weights.shape[0] * weights.shape[1])
    norms = _norm_errors(trace)
    attentions = sum(len(trace.attention_paths(kind)) for kind in get_args(AttentionKind))
    fusing = 0 if trace.network.kind == "recurrent" else attentions  # whose attention is computed in one way alone
    has_norms = trace.network.config.norm != "none"
    return [
        rows.check("rows", attentions),
        future.check("future"),
        padding.check("padding"),
        covered.check("hidden"),
        heads_of_pass.check("fused", fusing),
        norms.check("norm", len(trace.norm_paths()) or int(has_norms)),
    ]


class _Worst:
    """Largest error of all numbers added, in units of their tolerances, or one that is not finite; and the name of its
    tensor.
    """

    def __init__(self) -> None:
        self.error, self.tolerance, self.cells, self.name = 0.0, 0.0, 0, ""
        self._modules: set[str] = set()
        self._ratio = -1.0

    def add(self, errors: Tensor, tolerances: Tensor, names: list[str], cells: int | None = None) -> None:
        """Add the errors in several tensors along the first dimension, each with its name."""
        self.cells += errors.numel() if cells is None else cells
        self._modules.update(names)
        if not errors.numel():
            return
        ratios = (errors / tolerances).flatten(1)
        largest = ratios.amax(dim=1).tolist()  # which is many times faster than where it is, and knows NaN
        tensor = max(range(len(largest)), key=lambda each: (largest[each] != largest[each], largest[each]))
        if self._ratio == self._ratio and not largest[tensor] <= self._ratio:
            self._ratio, self.name = largest[tensor], names[tensor]
            at = int(ratios[tensor].argmax())
            self.error = float(errors[tensor].flatten()[at])
            self.tolerance = float(tolerances.expand_as(errors)[tensor].flatten()[at])
            if self._ratio != self._ratio:  # also ∞ beside ∞: no rounding explains it
                self.error = math.nan

    def add_where(self, where: Tensor, numbers: Tensor, names: list[str], times: int) -> None:
        """Add the numbers at these places, which must be 0. times: how many each stands for, as the largest of them."""
        if not (count := int(where.sum())):
            return
        self.cells += times * count * (numbers.numel() // where.numel())
        for name, largest in zip(names, numbers.where(where, 0).flatten(1).amax(dim=1).tolist(), strict=True):
            if self.error == self.error and not largest <= self.error:
                self.error, self.name = largest, name

    def check(self, name: str, all_modules: int = 0) -> Check:
        """Check with the largest error of what was compared."""
        modules = len(self._modules)
        return Check(name, self.error, self.tolerance, self.cells, self.name, modules, all_modules)


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


def _compare_rows(
    trace: Trace, paths: list[str], heads: slice, weights: Float[Tensor, "layer head query key"], worst: _Worst
) -> None:
    """Add how far the weights of each query, with what a sink keeps, are from 1 together."""
    layers = [layer for layer, path in enumerate(paths) if getattr(trace.attention_at(path), "sums_to_one", True)]
    if not layers:
        return
    sums = with_float64(weights).sum(dim=-1, dtype=torch.float64)
    for layer in layers:
        if f"{paths[layer]}.sink" in trace:  # which keeps the rest
            sums[layer] += exact(trace[f"{paths[layer]}.sink"][heads])
    own, eps = torch.finfo(weights.dtype), min(torch.finfo(weights.dtype).eps, torch.finfo(torch.float32).eps)
    keys = weights.shape[-1]
    tolerance = (64 + keys**0.5) * eps + (own.eps if own.eps > eps else 0) + keys * own.smallest_normal * own.eps
    names = [f"{paths[layer]}.weights" for layer in layers]
    sums = sums if len(layers) == len(paths) else sums[layers]
    worst.add((sums - 1).abs_(), sums.new_tensor(tolerance), names)


def _compare_hidden(
    trace: Trace,
    paths: list[str],
    heads: slice,
    weights: Float[Tensor, "layer head query key"],
    worst: tuple[_Worst, _Worst, _Worst],
) -> None:
    """Add the weights on hidden cells: in the future, of padding that is not in the future, and others."""
    names = [f"{path}.weights" for path in paths]
    masks = [trace.mask(path) for path in paths]
    if all(mask is masks[0] for mask in masks):
        masks = masks[:1]  # which stands for all layers
    originals = [mask.original if isinstance(mask, ChangedMask) else mask for mask in masks]
    hidden = ~_visible(trace, paths, masks, heads)
    if any(isinstance(mask, ChangedMask) for mask in masks):
        hidden = hidden | ~_visible(trace, paths, originals, heads)
    if not bool(hidden.any()):
        return
    largest, times = weights, 1
    if hidden.shape[1] == 1:  # the same for all heads: only their largest weights count
        largest, times = weights.amax(dim=1, keepdim=True), weights.shape[1]
    causal = [mask.causal or original.causal for mask, original in zip(masks, originals, strict=True)]
    if any(causal):
        later = torch.ones(hidden.shape[-2:], dtype=torch.bool, device=hidden.device).triu(1)
        later = later & torch.tensor(causal, device=hidden.device)[:, None, None, None]
        worst[0].add_where(later, largest, names, times)
        hidden = hidden & ~later
    if any(original.keys is not None for original in originals):
        real = _visible(trace, paths, [Mask(keys=original.keys) for original in originals], heads)
        worst[1].add_where(hidden & ~real, largest, names, times)
        hidden = hidden & real
    worst[2].add_where(hidden, largest, names, times)


def _visible(trace: Trace, paths: list[str], masks: list[Mask], heads: slice) -> Bool[Tensor, "layer head query key"]:
    """Cells that the masks leave visible in these heads; one entry for all heads where no layer tells them apart."""
    layers = [heads_of(trace.visible(path, mask), heads) for path, mask in zip(paths, masks, strict=False)]
    if len(layers) == 1:
        return layers[0][None]
    most = max(layer.shape[0] for layer in layers)
    return torch.stack([layer.expand(most, -1, -1) for layer in layers])


def _compare_heads(
    trace: Trace, paths: list[str], heads: slice, weights: Float[Tensor, "layer head query key"], worst: _Worst
) -> None:
    """Add how far the heads of the pass are from those by the other way, where there are two: step by step, where a
    fused kernel computed them; by the fused kernel, where the pass did step by step. Queries of which rounding may
    explain any weights are left out.
    """
    alike: dict[tuple[torch.Size, float], list[tuple[int, list[Tensor]]]] = {}  # layers may have heads of other widths
    for layer, path in enumerate(paths):
        if _has_two_ways(trace, path):
            parts = [trace[f"{path}.{part}"] for part in ("query", "key", "value", "heads")]
            rule = parts[2].shape, trace.attention_at(path).scaled.factor
            alike.setdefault(rule, []).append((layer, [_of_heads(part, parts[0].shape[0], heads) for part in parts]))
    for (_shape, factor), group in alike.items():
        layers, chosen = [layer for layer, _parts in group], [paths[layer] for layer, _parts in group]
        query, key, value, actual = map(torch.stack, zip(*(parts for _layer, parts in group), strict=True))
        own = torch.finfo(actual.dtype)
        wide = torch.promote_types(actual.dtype, torch.float32)
        if trace.maps or wide == actual.dtype:
            maps = weights if len(layers) == len(paths) else weights[layers]
        else:  # in the narrower precision the steps' own rounding would hide the kernel's errors
            maps = torch.stack([deque(steps(trace, path, heads, slice(None), wide), maxlen=1)[0][1] for path in chosen])
        value = value.to(wide)
        expected, size = (maps.to(wide) @ torch.cat([value, value.abs()], dim=-1)).chunk(2, dim=-1)
        if trace.maps:
            expected = torch.stack([_by_kernel(trace, path)[heads] for path in chosen]).to(wide)
        for layer, path in enumerate(chosen if trace.changes else ()):
            expected[layer, _removed(trace, path, heads)] = 0
        longest = key.to(wide).norm(dim=-1).amax(dim=-1)[..., None, None]
        scores = query.to(wide).norm(dim=-1, keepdim=True) * longest * factor
        bias: Tensor | float = 0.0
        if isinstance(trace.attention_at(chosen[0]).biased, PositionBias):
            biases = (position_bias(trace, path, heads, slice(None)) for path in chosen)
            bias = torch.stack([each.abs().amax() for each in biases if each is not None])[:, None, None, None]
        roundings = torch.finfo(wide).eps / 2 * (EXPONENTIALS + SCORES * (scores + bias))
        least: Tensor | float = torch.finfo(wide).tiny
        if wide != actual.dtype:
            roundings += own.eps / 2 * NARROW
            least = own.smallest_normal * own.eps * (1 + value.abs().sum(dim=-2, keepdim=True))
            if trace.maps:  # which round the scores themselves, as large as they are
                real = (query.to(wide) @ key.to(wide).mT).abs_().amax(dim=-1, keepdim=True) * factor
                roundings += own.eps / 2 * NARROW_STEPS * (1 + real + bias)
        errors, names, cells = (expected - actual.to(wide)).abs_(), [f"{path}.heads" for path in chosen], None
        tolerances = roundings.clamp(max=1) * size + least
        if bool((roundings >= 1).any()):
            vague = (roundings >= 1) & errors.isfinite()
            indices = [layer for layer, some in enumerate((~vague).flatten(1).any(dim=1).tolist()) if some]
            cells, names = int((~vague).sum()), [names[layer] for layer in indices]
            errors, tolerances = errors.masked_fill(vague, 0)[indices], tolerances[indices]
        worst.add(errors, tolerances, names, cells)


def _has_two_ways(trace: Trace, path: str) -> bool:
    """True if the heads of the attention at `path` can be computed step by step and by a fused kernel, one of which the
    pass did.
    """
    if not trace.maps:
        return trace.is_fused(path)
    attention = trace.attention_at(path)
    if f"{path}.heads" not in trace or not getattr(attention, "recombines", True):
        return False
    if not getattr(attention, "computes", True) or "capped" in attention.maps or f"{path}.bias" in trace:
        return False
    return is_fused(attention, *_inputs(trace, path))


def _inputs(trace: Trace, path: str) -> tuple[Tensor, Tensor, Tensor, Mask]:
    """Queries, keys and values (1, head, position, channel) of the attention at `path`, and its mask."""
    query, key, value = (trace[f"{path}.{name}"][None] for name in ("query", "key", "value"))
    return query, key, value, FixedMask(trace.visible(path)[None])


def _by_kernel(trace: Trace, path: str) -> Float[Tensor, "head query channel"]:
    """Outputs of the heads of the attention at `path` by the fused kernel."""
    with torch.inference_mode(), no_recording():
        return fused(trace.attention_at(path), *_inputs(trace, path))[0]


def _of_heads(
    tensor: Float[Tensor, "shared position channel"], n_heads: int, heads: slice
) -> Float[Tensor, "head position channel"]:
    """Queries, keys, values or outputs of these heads, repeated where heads share them."""
    shared = tensor.shape[0]
    if shared == n_heads:
        return tensor if heads == slice(0, n_heads) else tensor[heads]
    return tensor[torch.arange(n_heads, device=tensor.device)[heads] // (n_heads // shared)]


def _removed(trace: Trace, path: str, heads: slice) -> list[int]:
    """Numbers of the heads that were removed from the pass, counted among these."""
    removed = (head - heads.start for head in removed_heads(trace.changes, *kind_and_layer(path)))
    return [head for head in removed if 0 <= head < heads.stop - heads.start]


def _norm_errors(trace: Trace) -> _Worst:
    """Errors of the norms' outputs against their formulas in float64; norms of one rule and shape are computed at once,
    where that is little.
    """
    worst = _Worst()
    alike: dict[object, list[tuple[str, Norm]]] = {}
    for path in trace.norm_paths():
        norm, x = trace.module(path), trace[f"{path}.input"]
        assert isinstance(norm, Norm)
        alike.setdefault((norm.rule, x.shape, x.dtype, x.device), []).append((path, norm))
    for group in alike.values():
        size = max(1, AT_ONCE // max(1, trace[f"{group[0][0]}.input"].numel()))
        for first in range(0, len(group), size):
            paths, norms = zip(*group[first : first + size], strict=True)
            inputs, outputs = (torch.stack([trace[f"{path}.{side}"] for path in paths]) for side in ("input", "output"))
            expected, rounding = Norm.exactly(norms, inputs)
            worst.add((expected - exact(outputs)).abs_(), rounding, [f"{path}.output" for path in paths])
    return worst
