"""Settings of the attention page, and the numbers that follow from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.attention_maps import COMBINATIONS, Heads, Maps, Quantity, combined_sink, rollout
from model.analysis.head_metrics import after_the_same, metric
from model.capture.interventions import ChangedMask
from model.network.transformer import Network
from viz.i18n.format import sides, tokens
from viz.state.token_groups import GroupedAxes

if TYPE_CHECKING:
    from model.analysis.comparison import Comparison
    from model.analysis.pieces import Pieces
    from model.capture.trace import AttentionKind, Trace


@dataclass(frozen=True)
class HeadSettings:
    """Settings of the controls.

    order: "layer", "highest" or "lowest" of the metric. layers, heads: those to show, counted from 0. least, most:
    bounds of the metric. combination: "head", the chosen one alone, or a name of COMBINATIONS. threshold: weights below
    it are not drawn.
    """

    kind: AttentionKind
    quantity: Quantity = Quantity.WEIGHT
    scale: str = "one"
    metric: str = "entropy"
    order: str = "layer"
    layers: Sequence[int] = ()
    heads: Sequence[int] = ()
    least: float | None = None
    most: float | None = None
    combination: str = "head"
    drawing: str = "map"
    threshold: float = 0.0

    @property
    def large_quantity(self) -> Quantity:
        """Quantity of the large figure: rollout is one of weights, whatever the heads show."""
        return Quantity.WEIGHT if self.combination == "rollout" else self.quantity


@dataclass(frozen=True)
class HeadImage:
    """cells: the quantity, or its difference from the pinned trace, NaN where there is nothing to compare with.

    strength: what decides whether a cell is below the threshold. own, pinned: the quantity, here and there.
    """

    cells: Tensor
    strength: Tensor
    own: Tensor
    pinned: Tensor | None


class HeadMaps:
    """The maps of a trace as the controls want them: a quantity, or its difference from the pinned trace.

    merged: by its side, the runs of tokens that are one. task: the model answers a built-in task.
    """

    def __init__(
        self,
        trace: Trace,
        wish: HeadSettings,
        comparison: Comparison | None,
        differing: bool,
        merged: Mapping[str, Pieces] = {},
        task: bool = False,
    ) -> None:
        self.task, self.merged = task, merged
        self.trace, self.wish, self.comparison = trace, wish, comparison
        self.differing = differing and comparison is not None
        self.maps = Maps(trace, wish.kind, wish.quantity)
        self.pinned: Maps | None = None
        if comparison and comparison.pinned.attention_paths(wish.kind):
            pinned = Maps(comparison.pinned, wish.kind, wish.quantity)
            self.pinned = pinned if pinned.heads == self.maps.heads else None
        self.rows, self.columns = sides(trace, wish.kind)
        self.runs = GroupedAxes(trace, (self.rows, self.columns), merged)
        self.row_labels, self.column_labels = self.runs.labels

    def of_kind(self, kind: AttentionKind) -> HeadMaps:
        """Maps of another kind of attention, as the controls want these."""
        wish = replace(self.wish, kind=kind)
        return HeadMaps(self.trace, wish, self.comparison, self.differing, self.merged, self.task)

    @property
    def measured_runs(self) -> GroupedAxes | None:
        """Groups of merged tokens that the metric is computed on; None, for single tokens, where nothing is merged, and
        beside a pinned map, whose groups differ.
        """
        return self.runs if self.runs.joined and self.comparison is None else None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self.row_labels), len(self.column_labels)

    @property
    def visible(self) -> NDArray[np.bool_]:
        """(query, key): what one layer at least may look at; of changed masks the first layer's."""
        visible_cells: NDArray[np.bool_] = self.visible_tensor.cpu().numpy()
        return visible_cells

    @property
    def visible_tensor(self) -> Tensor:
        return self.runs.any(self._visible())

    def _visible(self) -> Tensor:
        masks = {id(self.trace.mask(path)): path for path in reversed(self.maps.paths)}
        if any(isinstance(self.trace.mask(path), ChangedMask) for path in masks.values()):
            return self.trace[f"{self.maps.paths[0]}.visible"]
        # Where layers have masks of their own, as windows of a bridged model, what any of them shows.
        return torch.stack([self.trace[f"{path}.visible"] for path in masks.values()]).any(dim=0)

    def pinned_of(self, layer: int, heads: slice) -> tuple[Tensor, Tensor] | None:
        """The pinned weights and quantity of these heads at this trace's tokens, or None: the pinned model has none."""
        if self.pinned is None or self.comparison is None or layer >= self.pinned.layers:
            return None
        weights = self.pinned.weights(layer, heads)
        quantity = self.pinned.weighted(weights, layer, heads)
        name = f"{self.maps.paths[layer]}.weights"
        moved = [self.comparison.moved(name, each).to(self.device) for each in (weights, quantity)]
        return moved[0], moved[1]

    def drawn(self, layer: int, heads: slice, weights: Tensor) -> HeadImage:
        """Drawn cells of the heads with these weights."""
        quantity = self.maps.weighted(weights, layer, heads)
        pinned = self.pinned_of(layer, heads) if self.comparison else None
        return self._drawn(quantity, weights, *(pinned or (None, None)))

    def combined(self, heads: Heads) -> HeadImage:
        """Drawn cells of the combination of these heads; rollout is of the weights, whatever the quantity."""
        mine = self._combine(self.maps, heads)
        pinned = None
        if self.comparison and self.pinned and max(layer for layer, _head in heads) < self.pinned.layers:
            path = f"{self.maps.paths[0]}.weights"
            pinned = self.comparison.moved(path, self._combine(self.pinned, heads)).to(self.device)
        return self._drawn(mine, mine, pinned, pinned)

    def sink(self, heads: Heads, combination: str) -> NDArray[np.float32] | None:
        """Weights that these heads together keep for no key, by row, or their differences from the pinned ones, NaN
        where these lack the query; None where there are none.
        """
        weights = self._sink(heads, combination)
        if weights is None or self.runs.rows is None:
            return weights
        averaged: NDArray[np.float32] = self.runs.rows.mean(torch.from_numpy(weights), 0).numpy()
        return averaged

    def _sink(self, heads: Heads, combination: str) -> NDArray[np.float32] | None:
        if self.wish.quantity != Quantity.WEIGHT and combination != "rollout":
            return None
        sink = combined_sink(self.maps, heads, combination)
        if sink is None:
            return None
        own: NDArray[np.float32] = sink.cpu().numpy()
        if not self.differing or self.comparison is None:
            return own
        before = np.full(len(own), np.nan, np.float32)
        if self.pinned is not None and max(layer for layer, _head in heads) < self.pinned.layers:
            other = combined_sink(self.pinned, heads, combination)
            rows = np.asarray(self.comparison.alignments(f"{self.maps.paths[0]}.weights")[0].places)
            if other is not None:
                before[rows >= 0] = other.cpu().numpy()[rows[rows >= 0]]
        return own - before

    def _drawn(self, quantity: Tensor, weights: Tensor, strength: Tensor | None, pinned: Tensor | None) -> HeadImage:
        quantity, weights = self.runs.of(quantity), self.runs.of(weights)
        strength, pinned = (None if each is None else self.runs.of(each) for each in (strength, pinned))
        if not self.differing:
            return HeadImage(quantity, weights, quantity, pinned)
        if pinned is None or strength is None:
            return HeadImage(torch.full_like(quantity, torch.nan), weights, quantity, None)
        return HeadImage(quantity - pinned, torch.fmax(weights, strength), quantity, pinned)

    def _combine(self, maps: Maps, heads: Heads) -> Tensor:
        if self.wish.combination == "rollout":
            network = maps.trace.network
            assert isinstance(network, Network)
            return rollout(Maps(maps.trace, maps.kind), heads, residual=network.config.residual)
        return COMBINATIONS[self.wish.combination](maps, heads)

    @property
    def device(self) -> torch.device:
        return self.visible_tensor.device

    def shown_heads(self, values: NDArray[np.float64]) -> list[tuple[int, int]]:
        """The heads that the filter leaves, in the order wished for; values (layer, head): of the metric."""
        wish, maps = self.wish, self.maps
        low, high = wish.least, wish.most
        places = [
            (layer, head)
            for layer in range(maps.layers)
            for head in range(maps.heads)
            if (not wish.layers or layer in wish.layers)
            and (not wish.heads or head in wish.heads)
            and (low is None or values[layer, head] >= low)
            and (high is None or values[layer, head] <= high)
        ]
        if wish.order != "layer":
            sign = -1 if wish.order == "highest" else 1
            places.sort(key=lambda place: math.inf if np.isnan(values[place]) else sign * values[place])
        return places


def measured(
    name: str, maps: Maps, layer: int, heads: slice, weights: Tensor, counted: Tensor, runs: GroupedAxes | None = None
) -> Tensor:
    """A metric of some heads (head) with these weights. counted: see `marked`. runs: what is one row and one column of
    the map; None: tokens.
    """
    sink = maps.sink(layer, heads) if name == "entropy" else None
    if runs is not None:
        weights = runs.of(weights)
        sink = sink if sink is None or runs.rows is None else runs.rows.mean(sink, 1)
    return metric(name, weights, counted, sink)


def marked(maps: Maps, metric: str, runs: GroupedAxes | None = None) -> Tensor:
    """Keys that a metric counts: for "special", special tokens; for "induction", keys right behind an earlier copy of
    the query's token. Other metrics need none. runs: see `measured`.
    """
    if metric not in ("special", "induction"):
        return torch.empty(0)
    device = maps.trace[f"{maps.paths[0]}.visible"].device
    labels = runs.labels[1] if runs else tokens(maps.trace, sides(maps.trace, maps.kind)[1])
    if metric == "special":
        return torch.tensor([label in maps.trace.special_labels for label in labels], device=device)
    if maps.kind == "cross":
        return torch.zeros(len(runs.labels[0]) if runs else maps.queries, len(labels), dtype=torch.bool, device=device)
    return after_the_same(labels).to(device)


def metrics(maps: Maps, *names: str, runs: GroupedAxes | None = None) -> dict[str, NDArray[np.float64]]:
    """Numbers of every head (layer, head), by name. runs: see `measured`."""
    values = {name: np.zeros((maps.layers, maps.heads)) for name in names}
    counted = {name: marked(maps, name, runs) for name in names}
    for layer, heads in maps.groups():
        weights = maps.weights(layer, heads)
        for name in names:
            values[name][layer, heads] = measured(name, maps, layer, heads, weights, counted[name], runs).cpu().numpy()
    return values
