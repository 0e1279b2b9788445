"""The large figure: one head, or several combined, as a map or as lines from token to token."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.attention_maps import Heads, Quantity
from model.analysis.head_metrics import METRICS
from model.message import Message
from viz.figures.axis import Axis, Scale
from viz.figures.colours import ATTENTION, channels
from viz.figures.figure import Caption
from viz.figures.heatmap import Heatmap, Lines
from viz.i18n.format import significant
from viz.i18n.messages import joined
from viz.i18n.names import attention_reading
from viz.pages.attention.head_grid import (
    NONE,
    Thumbnails,
    block_size,
    floor_of,
    pooled,
    pooled_positive,
    power_of_ten,
    top_values,
)
from viz.pages.attention.text import (
    about_map,
    changed_finding,
    combination_title,
    finding,
    log_sentence,
    metric_name,
    quantity_name,
)
from viz.pages.attention.view import HeadImage, HeadMaps, metrics
from viz.state.session import Selection
from viz.ui.parts import frame_of
from viz.ui.plots import stamp, word

MEANS = 10  # columns whose means are said
CELLS = 256  # of the figure along each side, at most; longer texts in blocks
MERGED = channels(ATTENTION)  # of several heads' lines, the hue of the weights


def head_colour(head: int) -> tuple[int, int, int]:
    """A head's fixed colour, as on the thumbnails: hsl(137.5° times its number, 65 %, 50 %)."""
    red, green, blue = colorsys.hls_to_rgb((head * 137.5) % 360 / 360, 0.5, 0.65)
    return round(255 * red), round(255 * green), round(255 * blue)


def large(head_maps: HeadMaps, chosen: Selection, heads: Heads) -> HeadImage:
    """The chosen head, or the combination of these heads, without the head's axis."""
    if head_maps.wish.combination != "head":
        return head_maps.combined(heads)
    one = slice(chosen.head, chosen.head + 1)
    drawn = head_maps.drawn(chosen.layer, one, head_maps.maps.weights(chosen.layer, one))
    return HeadImage(*(None if each is None else each[0] for each in vars(drawn).values()))  # type: ignore[arg-type]


def head_figure(
    head_maps: HeadMaps,
    drawn: HeadImage,
    thumbnails: Thumbnails,
    chosen: Selection,
    heads: Heads,
) -> Heatmap:
    """The figure of these numbers; `thumbnails` have the scale of all heads."""
    wish, differing = head_maps.wish, head_maps.differing
    block = block_size(*head_maps.shape, CELLS)
    cells = _smaller(pooled if differing else pooled_positive, drawn.cells, block)
    rows = Axis(Message("query (from)"), head_maps.row_labels[:: block[0]], head_maps.rows)
    columns = Axis(Message("key (to)"), head_maps.column_labels[:: block[1]], head_maps.columns)
    top = _top(head_maps, thumbnails, chosen, cells)
    title = quantity_name(wish.large_quantity)
    floor = floor_of(head_maps, top)
    signed = Scale(-top, top, joined(" ", "Δ", title), True, floor)
    scale = signed if differing else Scale(0, top, title, floor=floor, colour=ATTENTION)
    titles, words = (
        (Message("query"), Message("key"), title),
        {"hidden": Message("below {threshold}", threshold=wish.threshold)},
    )
    colour = head_colour(chosen.head) if wish.combination == "head" else MERGED
    states = _states(head_maps, drawn, block)
    sink = sink_column(head_maps, chosen, heads, block)
    if sink is not None:
        cells, states = np.c_[cells, sink], np.c_[states, np.ones(len(states), np.uint8)]
        labels = [*columns.labels, Message("sink")] if columns.labels else None
        columns = replace(columns, labels=labels, places=[*range(len(head_maps.column_labels) + 1)])
    draw: Callable[..., Heatmap] = partial(Lines, colour=colour) if wish.drawing == "lines" else Heatmap
    return draw(
        _heading(head_maps, drawn, chosen, heads, block, floor),
        cells,
        rows,
        columns,
        scale,
        visible=states,
        block=block,
        chosen=head_maps.runs.row_of(chosen.query) // block[0],
        cell_titles=titles,
        words=words,
        large=True,
        ungrouped=True,
    )


def sink_column(
    head_maps: HeadMaps, chosen: Selection, heads: Heads, block: tuple[int, int]
) -> NDArray[np.float32] | None:
    """Weight that the chosen head, or these together, give to no key, by query; None where it has no sink."""
    if max(block) > 1:
        return None
    if head_maps.wish.combination == "head":
        return head_maps.sink([(chosen.layer, chosen.head)], "average")
    return head_maps.sink(heads, head_maps.wish.combination)


def file_name(head_maps: HeadMaps, chosen: Selection) -> str:
    if head_maps.wish.combination != "head":
        return f"attention-{head_maps.wish.kind}-{head_maps.wish.combination}"
    return f"attention-{head_maps.wish.kind}-layer{chosen.layer + 1}-head{chosen.head + 1}"


def _smaller(
    pool: Callable[[Tensor, tuple[int, int]], Tensor], cells: Tensor, block: tuple[int, int]
) -> NDArray[np.float32]:
    smaller: NDArray[np.float32] = pool(cells[None], block)[0].cpu().numpy()
    return smaller


def _states(head_maps: HeadMaps, drawn: HeadImage, block: tuple[int, int]) -> NDArray[np.uint8]:
    """(row, column): 0 masked, 1 drawn, 2 below the threshold. Rollout reaches further than one layer's mask."""
    visible = head_maps.visible_tensor | (drawn.own > 0)
    cell_states = _smaller(pooled_positive, visible.float(), block).astype(np.uint8)
    if head_maps.wish.threshold:
        weak = _smaller(pooled_positive, drawn.strength, block) < head_maps.wish.threshold
        cell_states[weak & (cell_states > 0)] = 2
    return cell_states


def _top(head_maps: HeadMaps, thumbnails: Thumbnails, chosen: Selection, cells: NDArray[np.float32]) -> float:
    """The value that is drawn darkest."""
    if head_maps.wish.combination == "head":
        return float(top_values(head_maps, thumbnails)[chosen.layer, chosen.head])
    wish = head_maps.wish
    bounded = wish.large_quantity == Quantity.WEIGHT and not head_maps.differing
    if wish.scale in ("one", "log") and bounded:
        return 1.0
    others = cells[:, 1:] if head_maps.wish.scale == "others" and cells.shape[1] > 1 else cells
    largest = max(float(np.nan_to_num(np.abs(others)).max()), NONE)
    if head_maps.differing and largest == NONE:
        return 1.0
    return power_of_ten(largest) if head_maps.wish.scale == "log" else largest


def _head_of(head_maps: HeadMaps, heads: Heads, row: int, column: int) -> str:
    """Number, from 1, of the head with most weight in a cell."""

    def weight(place: tuple[int, int]) -> float:
        layer, head = place
        return float(head_maps.runs.of(head_maps.maps.weights(layer, slice(head, head + 1)))[0, row, column])

    layer, head = max(heads, key=weight)
    return f"{layer + 1}.{head + 1}"


def _column_means(head_maps: HeadMaps, drawn: HeadImage) -> Message:
    """Mean weight that keys get from all queries: of all, or of the most."""
    means = drawn.own.nan_to_num().mean(dim=0).tolist()
    most = sorted(range(len(means)), key=lambda place: -means[place])[:MEANS]
    keys = most if len(means) > MEANS else range(len(means))
    labels = [word(head_maps.column_labels[place]) for place in keys]
    each = [f"{label} {means[place]:.3f}" for label, place in zip(labels, keys, strict=True)]
    return Message("mean of a column: {means}", means=joined(" · ", *each))


def _heading(
    head_maps: HeadMaps, drawn: HeadImage, chosen: Selection, heads: Heads, block: tuple[int, int], floor: float | None
) -> Caption:
    """The figure's name, who looks at whom, and what the chosen query looks most at, here and in the pinned trace."""
    wish, (rows, columns) = head_maps.wish, head_maps.shape
    if wish.combination == "head":
        name = Message("Layer {layer}, head {head}", layer=chosen.layer + 1, head=chosen.head + 1)
    else:
        name = combination_title(wish.combination, len(heads))
    sentences = [attention_reading(head_maps.trace, wish.kind, chosen.layer, head_maps.task)]
    if max(block) > 1:
        sentences.append(Message("each cell is the largest of {rows} × {columns}", rows=block[0], columns=block[1]))
    if floor is not None:
        sentences.append(log_sentence(floor, head_maps.differing))
    sentences += _pin_sentences(head_maps, drawn)
    at = head_maps.runs.row_of(chosen.query)
    row = drawn.own[at]
    strongest = int(row.argmax())
    query, key = word(head_maps.row_labels[at]), word(head_maps.column_labels[strongest])
    title = finding(wish.large_quantity, query, key, float(row[strongest]))
    notes: list[str] = []
    if wish.combination == "maximum" and wish.quantity == Quantity.WEIGHT and head_maps.maps.small and heads:
        notes.append(Message("head {head}", head=_head_of(head_maps, heads, at, strongest)))
    if bool(row.isnan().all()):
        title = Message("{query}: not a number", query=query)
    if wish.combination == "average" and wish.quantity == Quantity.WEIGHT and not head_maps.differing:
        notes.append(_column_means(head_maps, drawn))
    changes = drawn.cells[at].abs().nan_to_num(-1.0)
    most = int(changes.argmax())
    if head_maps.differing and drawn.pinned is not None and float(changes[most]) > 0:
        pair = float(drawn.pinned[at, most]), float(row[most])
        title = changed_finding(wish.large_quantity, query, word(head_maps.column_labels[most]), *pair)
        notes += _moved(head_maps, chosen)
    elif head_maps.comparison is not None:
        before = math.nan if drawn.pinned is None else float(drawn.pinned[at, strongest])
        value = "–" if math.isnan(before) else significant(before)
        notes.append(Message("pinned: {value}", value=value))
    sink = sink_column(head_maps, chosen, heads, block)
    if sink is not None and not np.isnan(sink[at]):
        notes.append(Message("to the sink {weight}", weight=significant(float(sink[at]))))
    sentence = joined(" · ", *sentences)
    alt = Message(
        "{name}, {sentence}. {queries}, {keys}. {strongest}.",
        name=name,
        sentence=sentence,
        queries=Message("{count} query", plural="{count} queries", count=rows),
        keys=Message("{count} key", plural="{count} keys", count=columns),
        strongest=joined(" · ", title, *notes),
    )
    file, about = file_name(head_maps, chosen), about_map(head_maps, chosen.layer)
    return Caption(
        name,
        file,
        stamp(head_maps.trace),
        joined(" · ", *notes),
        sentence,
        alt,
        about,
        title,
        code_of(head_maps, chosen),
    )


MOST_NAMED = 3  # tokens that are named


def _pin_sentences(head_maps: HeadMaps, drawn: HeadImage) -> list[Message]:
    """Sentences on tokens that only one of both texts has, where differences are drawn."""
    comparison = head_maps.comparison
    if not head_maps.differing or comparison is None or drawn.pinned is None:
        return []
    sentences: list[Message] = []
    pairs: list[str] = []
    gone: list[str] = []
    path, traces = _path(head_maps), (comparison.trace, comparison.pinned)
    queries, keys = comparison.alignments(path)
    texts = [(queries, [each.tokens_of(path) for each in traces])]
    if head_maps.wish.kind == "cross":
        texts.insert(0, (keys, [each.source_tokens for each in traces]))
    for alignment, (own, before) in texts:
        pairs += [f"{word(before[alignment.places[place]])} → {word(own[place])}" for place in alignment.replaced]
        gone += [word(before[place]) for place in alignment.deleted]
    if pairs:
        sentences.append(Message("compared at one place: {pairs}", pairs=_some(pairs)))
    if bool(drawn.cells.isnan().any()):
        sentences.append(Message("hatched: a token that the pinned text does not have"))
    if gone:
        sentences.append(Message("not drawn: {tokens}, pinned only", tokens=_some(gone)))
    return sentences


def _some(words: Sequence[str]) -> str:
    return ", ".join(words[:MOST_NAMED]) + (" …" if len(words) > MOST_NAMED else "")


def _path(head_maps: HeadMaps) -> str:
    return f"{head_maps.maps.paths[0]}.weights"


def _moved(head_maps: HeadMaps, chosen: Selection) -> list[str]:
    """How much of the chosen head's weight moved, as in the list of the largest changes."""
    wish, comparison = head_maps.wish, head_maps.comparison
    if comparison is None or wish.combination != "head" or wish.quantity != Quantity.WEIGHT:
        return []
    changes = comparison.row_changes(head_maps.maps.paths[chosen.layer])
    if changes is None:
        return []
    share = significant(float(changes[chosen.head].nanmean()))
    return [Message("{share} of this head's weight moved, the mean of its queries", share=share)]


def code_of(head_maps: HeadMaps, chosen: Selection) -> str | None:
    """Python of the chosen head's weights; None where something else is drawn, or their tokens are merged."""
    wish = head_maps.wish
    plain = wish.combination == "head" and wish.quantity == Quantity.WEIGHT and not head_maps.differing
    if not plain or head_maps.runs.joined:
        return None
    return f'page.trace.attention("{wish.kind}")[{chosen.layer}, {chosen.head}]'


# The numbers behind the page of attention, as tables.


def weights_table(head_maps: HeadMaps, drawn: HeadImage, sink: NDArray[np.float32] | None = None) -> pd.DataFrame:
    """A row a cell. sink: weights that go to no key, see `sink_column`."""
    rows, columns = head_maps.row_labels, head_maps.column_labels
    title = quantity_name(head_maps.wish.large_quantity)
    table = {
        Message("query"): np.repeat(rows, len(columns)),
        Message("key"): np.tile(columns, len(rows)),
        title: drawn.own.flatten().cpu().numpy(),
        Message("masked"): ~head_maps.visible.flatten(),
    }
    if drawn.pinned is not None:
        table[Message("pinned")] = drawn.pinned.flatten().cpu().numpy()
    if sink is None:
        return frame_of(table)
    sink_rows = {
        Message("query"): rows,
        Message("key"): Message("sink"),
        title: sink,
        Message("masked"): False,
    }
    return pd.concat([frame_of(table), frame_of(sink_rows)], ignore_index=True)


def metrics_table(head_maps: HeadMaps) -> pd.DataFrame:
    """A row a head: all its numbers."""
    maps = head_maps.maps
    layers, heads = np.indices((maps.layers, maps.heads)) + 1
    numbers = {
        metric_name(name): values.flatten()
        for name, values in metrics(maps, *METRICS, runs=head_maps.measured_runs).items()
    }
    table = {Message("layer"): layers.flatten(), Message("head"): heads.flatten(), **numbers}
    if head_maps.pinned is not None:  # of the pinned text as it was, where that model has the head
        before = metrics(head_maps.pinned, *METRICS)
        for name, values in before.items():
            known = np.full((maps.layers, maps.heads), np.nan)
            known[: len(values)] = values[: maps.layers]
            table[Message("{name}, pinned", name=metric_name(name))] = known.flatten()
    return frame_of(table)


def known_metrics(head_maps: HeadMaps, thumbnails: Thumbnails) -> pd.DataFrame:
    """A row a head of a long text: the chosen number of those that are computed."""
    layers, heads = np.indices(thumbnails.values.shape) + 1
    numbers = {metric_name(head_maps.wish.metric): thumbnails.values.flatten()}
    table = {Message("layer"): layers.flatten(), Message("head"): heads.flatten(), **numbers}
    return frame_of(table)[thumbnails.known.flatten()]
