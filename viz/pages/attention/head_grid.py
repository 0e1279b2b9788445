"""The grid of heads: thumbnails, a number of each, and what is said below."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.attention_maps import Quantity
from model.analysis.head_importance import Place
from model.capture.interventions import RemovedHead, removed_heads
from model.message import Message
from model.runtime import cancellation
from viz.figures.axis import Axis
from viz.figures.figure import Caption
from viz.figures.head_grid import HeadGrid
from viz.i18n.format import significant, significant_alike
from viz.i18n.messages import joined
from viz.i18n.names import attention_title, side_title
from viz.pages.attention.text import (
    METRIC_SIGNS,
    METRIC_TITLES,
    about_grid,
    log_sentence,
    metric_caption,
    metric_number,
    metrics_of,
    quantity_name,
)
from viz.pages.attention.view import HeadMaps, marked, measured, metrics
from viz.ui.plots import stamp

GONE = "✕"  # in the place of a removed head's number
FAINT = 0.3  # of a query's largest weight, on the mean
NONE = 1e-9  # the end of a scale on which everything is 0
FLOOR = 1e-4  # of the end of a logarithmic scale: what is smaller has no colour
Heads = Sequence[tuple[int, int]]


def heads_grid(
    head_maps: HeadMaps, thumbnails: Thumbnails, heads: Heads, chosen: tuple[int, int], filmed: bool = False
) -> HeadGrid:
    """The thumbnails of these heads, in this order. filmed: the film of a training may take their place."""
    wish, maps = head_maps.wish, head_maps.maps
    index = tuple(np.array(heads, dtype=int).reshape(-1, 2).T)
    cells, tops = thumbnails.cells[index], top_values(head_maps, thumbnails)[index]
    strengths = thumbnails.strengths[index] if wish.threshold else None
    hidden = np.zeros(cells.shape, bool) if strengths is None else strengths < wish.threshold
    hidden[~thumbnails.known[index]] = True
    plain = wish.quantity == Quantity.WEIGHT and not head_maps.differing and tuple(thumbnails.block) == (1, 1)
    filmed = filmed and plain and not wish.threshold
    floor = floor_of(head_maps, float(tops.max(initial=0.0)))
    sentences = grid_sentences(head_maps, len(heads), cells[thumbnails.known[index]])
    if floor is not None:
        sentences.append(log_sentence(floor, head_maps.differing))
        if filmed:
            sentences.append(Message("a film's weights, in steps of 1/255, are not drawn on it"))
    seen, keys = states(head_maps, thumbnails), list[str](head_maps.column_labels)
    if (sinks := sink_columns(head_maps, thumbnails, heads)) is not None:
        cells, hidden = np.concatenate([cells, sinks], axis=2), np.pad(hidden, ((0, 0), (0, 0), (0, 1)))
        seen, keys = np.pad(seen, ((0, 0), (0, 1)), constant_values=1), [*keys, Message("sink")]
    sentence, name, file = joined(" · ", *sentences), Message("Every head"), f"heads-{wish.kind}"
    alt = joined("", sentence, ". ", extremes(head_maps, thumbnails, heads))
    return HeadGrid(
        Caption(
            name,
            file,
            stamp(head_maps.trace),
            sentence=sentence,
            alt=alt,
            about=about_grid(head_maps),
            code=f'page.trace.attention("{wish.kind}")' if plain and not head_maps.runs.joined else None,
        ),
        cells,
        hidden,
        seen,
        tops.tolist(),
        Axis(Message("query"), head_maps.row_labels, head_maps.rows),
        Axis(Message("key"), keys, head_maps.columns),
        order=heads,
        head=chosen,
        notes=_notes(head_maps, thumbnails, heads),
        waiting=(~thumbnails.known[index]).tolist(),
        across=maps.heads,
        block=thumbnails.block,
        difference=head_maps.differing,
        floor=floor,
        film=wish.kind if filmed and floor is None else "",
        best=best_of_kinds(head_maps, thumbnails),
        words={
            "metric": METRIC_TITLES[wish.metric],
            "hidden": Message("below {threshold}", threshold=wish.threshold),
            "quantity": quantity_name(wish.quantity),
        },
    )


def sink_columns(head_maps: HeadMaps, thumbnails: Thumbnails, heads: Heads) -> NDArray[np.float32] | None:
    """(thumbnail, row, 1): what each head keeps for no key; None where one has no sink, or a cell stands for many."""
    if max(thumbnails.block) > 1 or not heads:
        return None
    sinks = [head_maps.sink([head], "average") for head in heads]
    known = [sink for sink in sinks if sink is not None]
    return np.stack(known)[..., None] if len(known) == len(heads) else None


def _notes(head_maps: HeadMaps, thumbnails: Thumbnails, heads: Heads) -> list[str]:
    """Each head's number, or the sign of one that is removed from the model."""
    wish, changes, layers = head_maps.wish, head_maps.trace.changes, range(head_maps.maps.layers)
    gone = {(layer, head) for layer in layers for head in removed_heads(changes, wish.kind, layer)}
    sign = METRIC_SIGNS[wish.metric]
    known = [place for place in heads if thumbnails.known[place]]
    numbers = {place: metric_number(sign, thumbnails.values[place], head_maps.differing) for place in known}
    return [GONE if place in gone else numbers.get(place, "…") for place in heads]


def best_of_kinds(head_maps: HeadMaps, thumbnails: Thumbnails) -> list[tuple[Place, str]]:
    """Of each kind of attention that has the metric, the head that its order begins with, and its words; the first kind
    first. Of differences it is the head whose weights changed most. Empty where there is one kind; where the order is
    that of the layers; or while heads wait.
    """
    if not thumbnails.known.all():
        return []
    if head_maps.differing:
        return most_changed(head_maps)
    wish = head_maps.wish
    kinds = [kind for kind in head_maps.trace.attention_kinds if wish.metric in metrics_of(kind)]
    if wish.order == "layer" or len(kinds) < 2:
        return []
    firsts: list[tuple[float, Place]] = []
    for kind in kinds:
        maps, values = head_maps, thumbnails.values
        if kind != wish.kind:
            maps = head_maps.of_kind(kind)
            values = metrics(maps.maps, wish.metric, runs=maps.measured_runs)[wish.metric]
        place = next(iter(maps.shown_heads(values)), None)
        if place is not None and not np.isnan(values[place]):
            firsts.append((float(values[place]), (kind, *place)))
    firsts.sort(key=lambda each: each[0], reverse=wish.order == "highest")
    sign = METRIC_SIGNS[wish.metric]
    return [_named(place, metric_number(sign, value)) for value, place in firsts]


def most_changed(head_maps: HeadMaps) -> list[tuple[Place, str]]:
    """Of each kind of attention the head whose weights changed most since the pin, and the share that moved; the
    largest change first.
    """
    assert head_maps.comparison is not None
    firsts: list[tuple[float, Place]] = []
    for kind in head_maps.trace.attention_kinds:
        changes = np.nan_to_num(head_maps.comparison.head_changes(kind))
        layer, head = divmod(int(changes.argmax()), changes.shape[1])
        if changes[layer, head] > 0:
            firsts.append((float(changes[layer, head]), (kind, layer, head)))
    firsts.sort(key=lambda each: each[0], reverse=True)
    numbers = significant_alike(*(change for change, _place in firsts))
    return [_named(place, number) for (_change, place), number in zip(firsts, numbers, strict=True)]


def _named(place: Place, number: str) -> tuple[Place, str]:
    """A head with its name and number."""
    kind, layer, head = place
    name = joined(" ", attention_title(kind), f"{layer + 1}.{head + 1}")
    return place, joined(" · ", name, number)


def extremes(head_maps: HeadMaps, thumbnails: Thumbnails, heads: Heads) -> str:
    """The heads with the least and the most of the metric, in a sentence."""
    known = [place for place in heads if not np.isnan(thumbnails.values[place])]
    if not known:
        return ""
    places = min(known, key=thumbnails.values.__getitem__), max(known, key=thumbnails.values.__getitem__)
    low, high = (f"{significant(thumbnails.values[place])} ({place[0] + 1}.{place[1] + 1})" for place in places)
    return Message("{metric}: from {low} to {high}.", metric=METRIC_TITLES[head_maps.wish.metric], low=low, high=high)


def top_values(head_maps: HeadMaps, thumbnails: Thumbnails) -> NDArray[np.float64]:
    """(layer, head): what is drawn darkest. On one scale, weights go up to 1, other quantities and differences to their
    largest.
    """
    if head_maps.wish.scale == "others":  # beside many heads' weight on the first token all others look like none
        return np.maximum(thumbnails.largest_from(1).astype(np.float64), NONE)
    largest = np.maximum(thumbnails.largest_from(0).astype(np.float64), NONE)
    if head_maps.wish.scale == "largest":
        return largest
    if (head_maps.wish.quantity == "weight" and not head_maps.differing) or largest.max() <= NONE:
        return np.ones_like(largest)
    return np.full_like(largest, power_of_ten(largest.max()) if head_maps.wish.scale == "log" else largest.max())


def power_of_ten(value: float) -> float:
    """The first that is not below the value."""
    return float(f"1e{math.ceil(math.log10(value))}")


def floor_of(head_maps: HeadMaps, top: float) -> float | None:
    """The least size with a colour on a logarithmic scale that ends at `top`; None on other scales, and of no heads."""
    return FLOOR * top or None if head_maps.wish.scale == "log" else None


def states(head_maps: HeadMaps, thumbnails: Thumbnails) -> NDArray[np.uint8]:
    """(row, column) of a thumbnail: 0 masked, 1 visible, 2 with nothing in the pinned trace to compare with."""
    rows, columns = thumbnails.block
    height, width = thumbnails.cells.shape[2:]
    padded = np.zeros((height * rows, width * columns), bool)
    visible = head_maps.visible
    padded[: visible.shape[0], : visible.shape[1]] = visible
    cell_states = np.asarray(padded.reshape(height, rows, width, columns).any(axis=(1, 3)), np.uint8)
    if head_maps.differing:
        cell_states[np.isnan(thumbnails.cells[thumbnails.known]).all(axis=0) & (cell_states > 0)] = 2
    return cell_states


def faint(head_maps: HeadMaps, cells: NDArray[np.float32]) -> bool:
    """True if the thumbnails (head, row, column) look empty on the scale from 0 to 1, as those of a long text do."""
    weights = head_maps.wish.scale == "one" and head_maps.wish.quantity == "weight" and not head_maps.differing
    return weights and bool(cells.size) and float(cells.max(axis=-1).mean()) < FAINT


def grid_sentences(head_maps: HeadMaps, count: int, cells: NDArray[np.float32]) -> list[str]:
    """Sentences below the thumbnails of so many heads."""
    maps, wish = head_maps.maps, head_maps.wish
    layers = Message("{count} layer", plural="{count} layers", count=maps.layers)
    heads = Message("{count} head", plural="{count} heads", count=maps.heads)
    whole = joined(" × ", layers, heads)
    of_all = Message("{shown} of {layers} × {heads} heads", shown=count, layers=maps.layers, heads=maps.heads)
    sentences: list[str] = [
        whole if count == maps.layers * maps.heads else of_all,
        Message(
            "{metric} · rows: {rows} (query), columns: {columns} (key)",
            metric=metric_caption(wish.metric, wish.kind == "cross"),
            rows=side_title(head_maps.trace, head_maps.rows, head_maps.task),
            columns=side_title(head_maps.trace, head_maps.columns, head_maps.task),
        ),
    ]
    if not head_maps.differing:  # who compares has pressed one before, and the line above says where to press
        sentences.append(Message("press one to see it large"))
    if wish.kind == "cross" and not head_maps.differing:
        sentences.append(Message("by previous token, diagonal or induction: under Encoder and Decoder"))
    if any(isinstance(each, RemovedHead) and each.kind == wish.kind for each in head_maps.trace.changes):
        sentences.append(Message("{sign} = removed from the model", sign=GONE))
    if faint(head_maps, cells):
        sentences.append(Message("most weights are small here: “scale 0 to largest” shows them"))
    if head_maps.runs.joined and head_maps.measured_runs is None:
        sentences.append(Message("the numbers are of the tokens, not of merged pieces"))
    if head_maps.differing:
        sentences.append(Message("Δ = this trace − the pinned one"))
    return sentences


# Every head as a thumbnail, in as many cells as a thumbnail can show, and one number of each.

CELLS = 96  # of a thumbnail along each side, at most: it is shown on some 60 to 130 points


@dataclass(frozen=True)
class Thumbnails:
    """Every head's map, made smaller.

    cells: (layer, head, row, column), the largest of each block, NaN where nothing is comparable. strengths: the same
    of what decides whether a cell is below the threshold. values: (layer, head), the metric, or its difference.
    known: (layer, head), whether it is computed: of a long text one comes after the other. What is not is 0, its value
    NaN.
    """

    cells: NDArray[np.float32]
    strengths: NDArray[np.float32]
    values: NDArray[np.float64]
    block: tuple[int, int]
    known: NDArray[np.bool_]

    def largest_from(self, column: int) -> NDArray[np.float32]:
        """(layer, head): the size of the number furthest from 0, from this column of cells on where there are more."""
        cells = self.cells[..., min(column, self.cells.shape[3] - 1) :]
        largest: NDArray[np.float32] = np.nan_to_num(np.abs(cells)).max(axis=(2, 3))
        return largest


def block_size(queries: int, keys: int, most: int) -> tuple[int, int]:
    """Numbers of rows and columns that become one, so that there are at most so many of each."""
    return math.ceil(queries / most), math.ceil(keys / most)


def pooled(maps: Tensor, block: tuple[int, int]) -> Tensor:
    """The number of each block that is furthest from 0; NaN where all of it is NaN."""
    if block == (1, 1):
        return maps
    high, low = (pooled_positive(torch.nan_to_num(each, nan=-torch.inf), block) for each in (maps, -maps))
    return torch.where(high >= low, high, -low).masked_fill(high == -torch.inf, torch.nan)


def pooled_positive(maps: Tensor, block: tuple[int, int]) -> Tensor:
    """The largest number of each block. First over the rows: that reads the memory in its order."""
    if block == (1, 1):
        return maps
    rows, columns = maps.shape[1:]
    over = -columns % block[1], -rows % block[0]
    padded = F.pad(maps, (0, over[0], 0, over[1]), value=-torch.inf) if any(over) else maps
    blocks: Tensor = padded.unflatten(1, (-1, block[0])).amax(dim=2).unflatten(2, (-1, block[1]))
    return blocks.amax(dim=3)


class Thumbnail(NamedTuple):
    """Some heads of a layer, made smaller: cells and strengths (head, row, column), the latter None where there is no
    threshold, and values (head).
    """

    cells: NDArray[np.float32]
    strengths: NDArray[np.float32] | None
    values: NDArray[np.float64]


def all_thumbnails(head_maps: HeadMaps) -> Thumbnails:
    """Group by group, so that the maps of all heads are never in memory together."""
    counted = MetricMasks(head_maps)
    groups = head_maps.maps.groups()
    parts = {(layer, heads.start): thumbnail(head_maps, layer, heads, counted) for layer, heads in groups}
    return arrange_thumbnails(head_maps, parts)


def arrange_thumbnails(head_maps: HeadMaps, parts: Mapping[tuple[int, int], Thumbnail]) -> Thumbnails:
    """Groups of heads by layer and first head, as arrays of all heads: those that wait stay 0, their value NaN."""
    block = block_size(*head_maps.shape, CELLS)
    rows, columns = (math.ceil(count / of) for count, of in zip(head_maps.shape, block, strict=True))
    shape = (head_maps.maps.layers, head_maps.maps.heads, rows, columns)
    cells = np.zeros(shape, np.float32)
    strengths = np.zeros(shape if head_maps.wish.threshold else (0,), np.float32)
    values, known = np.full(shape[:2], np.nan), np.zeros(shape[:2], bool)
    for (layer, first), part in parts.items():
        heads = slice(first, first + len(part.values))
        cells[layer, heads], values[layer, heads], known[layer, heads] = part.cells, part.values, True
        if part.strengths is not None:
            strengths[layer, heads] = part.strengths
    return Thumbnails(cells, strengths, values, block, known)


class MetricMasks:
    """Keys that the metric counts, see `marked`: `own` of this trace, `pinned` of the pinned one; computed once."""

    def __init__(self, head_maps: HeadMaps) -> None:
        self._head_maps = head_maps

    @cached_property
    def own(self) -> Tensor:
        return marked(self._head_maps.maps, self._head_maps.wish.metric, self._head_maps.measured_runs)

    @cached_property
    def pinned(self) -> Tensor:
        assert self._head_maps.pinned is not None
        return marked(self._head_maps.pinned, self._head_maps.wish.metric)


def thumbnail(head_maps: HeadMaps, layer: int, heads: slice, counted: MetricMasks) -> Thumbnail:
    """Some heads of a layer."""
    name, block = head_maps.wish.metric, block_size(*head_maps.shape, CELLS)
    weights = head_maps.maps.weights(layer, heads)
    cancellation.check()
    metric = measured(name, head_maps.maps, layer, heads, weights, counted.own, head_maps.measured_runs)
    values = metric.double().cpu().numpy()
    if head_maps.differing:
        values = values - _pinned_metric(head_maps, layer, heads, counted)
    cancellation.check()
    drawn = head_maps.drawn(layer, heads, weights)
    smaller = pooled if head_maps.differing else pooled_positive
    strengths = pooled_positive(drawn.strength, block).cpu().numpy() if head_maps.wish.threshold else None
    return Thumbnail(smaller(drawn.cells, block).cpu().numpy(), strengths, values)


def _pinned_metric(head_maps: HeadMaps, layer: int, heads: slice, counted: MetricMasks) -> NDArray[np.float64] | float:
    """Metric of the pinned trace, on its own tokens; NaN where that has no such heads."""
    if head_maps.pinned is None or layer >= head_maps.pinned.layers:
        return math.nan
    weights = head_maps.pinned.weights(layer, heads)
    metric: NDArray[np.float64] = (
        measured(head_maps.wish.metric, head_maps.pinned, layer, heads, weights, counted.pinned).double().cpu().numpy()
    )
    return metric
