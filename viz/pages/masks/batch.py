"""The current text with the other sentences, else its parts, as one padded batch: its masks, and what padding does
without them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import torch

from model.analysis.comparison import align
from model.analysis.masking import Batch, without_causal_mask, without_padding_masks
from model.capture.trace import AttentionKind, Trace
from model.inference.text_model import TextModel
from model.message import Message
from model.network.config import TWO_STACKS
from model.network.masks import Mask
from model.text.tokenizer import Tokens
from viz.figures.axis import Axis
from viz.figures.panels import Panel, Panels
from viz.i18n.catalogue import _
from viz.i18n.format import sides
from viz.i18n.messages import joined
from viz.i18n.names import attention_reading, side_title
from viz.pages.masks.figures import DRAWN, WORDS, mask_shape, numbers, of_head
from viz.pages.masks.pinned import text_of, unlike
from viz.pages.masks.text import about_batch
from viz.state.pin import cached_for_pin
from viz.state.sentences import Pair, read
from viz.ui.parts import frame_of
from viz.ui.plots import caption

if TYPE_CHECKING:
    import pandas as pd

    from model.capture.interventions import Intervention
    from viz.state.inputs import Inputs, Selection
    from viz.state.pin import Pin

EXAMPLES = 4  # texts of the batch


def parts_of(text: str) -> list[str]:
    """A text, then its sentences; of a single sentence two halves, at a space where there is one."""
    sentences = [part.strip() for part in re.findall(r"[^.!?。！？\n]+[.!?。！？\n]*", text) if part.strip()]
    if len(sentences) > 1:
        return [text, *sentences[: EXAMPLES - 1]]
    pieces = text.split()
    if len(pieces) > 1:
        return [text, " ".join(pieces[: len(pieces) // 2]), " ".join(pieces[len(pieces) // 2 :])]
    return [text, text[: len(text) // 2], text[len(text) // 2 :]]


def batch_of(
    model: TextModel, text: str, source: Tokens, target: Tokens | None, others: Sequence[Pair] = ()
) -> tuple[Batch, list[list[Tokens]]]:
    """The current text and others, else its parts, as one batch; the model writes the targets that they lack."""
    inputs = read(model, others or [(part, "") for part in parts_of(text)[1:]])
    rows, paddings = [[source, *(each["source"] for each in inputs)]], [model.source_tokenizer.filler]
    if target is not None:
        rows.append([target, *(each["target"] for each in inputs)])
        paddings.append(model.target_tokenizer.filler)
    return Batch.of([[each.ids for each in stack] for stack in rows], paddings, model.device), rows


def batch_sentence(model: TextModel, count: int) -> str:
    """Sentence on the origin of the batch's texts. count: of the other sentences in it."""
    if count:
        return _("The text and {count} of your other sentences as one batch.").format(count=count)
    if model.kind in TWO_STACKS:
        return _("The source and its sentences (or halves) as one batch; the model writes the targets of the parts.")
    return _("The text and its sentences (or halves) as one batch.")


@dataclass(frozen=True)
class PinnedBatch:
    """The pinned text and its parts as one batch of the pinned model, changed as the pinned trace; and what padding
    moves in it.
    """

    batch: Batch
    rows: list[list[Tokens]]
    trace: Trace
    moves: list[list[float]]


def pinned_batch(inputs: Inputs, beside: tuple[Pair, ...]) -> tuple[PinnedBatch | None, str]:
    """The same batch of what is pinned; or a sentence why there is none."""
    pin = inputs.pin
    if pin is None:
        return None, ""
    texts, lacking = text_of(pin, inputs.model.kind)
    if lacking:
        return None, lacking
    return cached_for_pin(pin, "batch", beside, lambda: _batch_of_pin(pin, beside, *texts)), ""


def _batch_of_pin(pin: Pin, beside: Sequence[Pair], source: Tokens, target: Tokens | None = None) -> PinnedBatch:
    batch, rows = batch_of(pin.model, pin.text, source, target, beside)
    trace = batch.trace(pin.model.network, pin.trace.changes)
    return PinnedBatch(batch, rows, trace, _moves(pin.model, batch))


def batch_panels(
    inputs: Inputs,
    text: str,
    beside: Sequence[Pair],
    changes: Sequence[Intervention],
    kind: AttentionKind,
    chosen: Selection,
) -> tuple[Panels, pd.DataFrame, str]:
    """The masks of a padded batch, framed where the pinned batch's are others; how far padding moves each text's
    outputs with and without them; and a sentence where there is no pinned batch to compare with.

    beside: other sentences for the batch; without any it is of parts of the text. changes: of the model.
    """
    model, trace = inputs.model, inputs.trace
    batch, rows = batch_of(model, text, inputs.source, inputs.target, beside)
    with_changes = batch.trace(model.network, changes)
    path = with_changes.attention_paths(kind)[chosen.layer]
    row_side, column_side = sides(trace, kind)
    row_texts, column_texts = (rows[0 if side == "source" else -1] for side in (row_side, column_side))
    queries, keys = (batch.ids[0 if side == "source" else -1].shape[1] for side in (row_side, column_side))
    before, lacking = pinned_batch(inputs, tuple(beside))
    panels = [_padding_panel(batch, stack, trace, before) for stack in range(len(rows))]
    panels += _rule_panels(with_changes.mask(path), queries, keys)
    for example in range(len(rows[0])):
        visible = of_head(with_changes.example(example).visible(path), chosen.head)
        framed = None
        if before is not None and example < len(before.rows[0]) and _has(before.trace, kind, chosen):
            other = of_head(before.trace.example(example).visible(path), chosen.head)
            framed = numbers(unlike(visible, other))
        name, note = Message("text {number}", number=example + 1), f"[{example}, 0, :, :]"
        row_axis = _text_axis(Message("query"), row_texts, example, row_side, queries)
        column_axis = _text_axis(Message("key"), column_texts, example, column_side, keys)
        panels.append(Panel(name, row_axis, column_axis, numbers(visible), changed=framed, note=note, line=1))
    shape = with_changes.mask(path).visible(queries, keys, model.device).shape
    note = joined(" = ", mask_shape(shape[1]), str(list(shape)))
    table = _batch_table(batch, rows, _moves(model, batch))
    if before is not None:
        note = joined(" · ", note, Message("framed: unlike the pinned, place by place"))
        table = _with_pinned(table, _batch_table(before.batch, before.rows, before.moves))
    name, sentence = Message("Masks of a padded batch"), attention_reading(trace, kind, chosen.layer)
    above = caption(inputs, name, f"masks-batch-{kind}", note, sentence, about=about_batch())
    return Panels(above, panels, cell=22, words=WORDS), frame_of(table), lacking


def _with_pinned(table: dict[str, list[Any]], pinned: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Each pinned text below the one in its place: beside each other they would be wider than the page."""
    text = list(table)[-1]
    named = pinned | {text: [Message("{name}, pinned", name=name) for name in pinned[text]]}
    rows = zip_longest(*(zip(*columns.values(), strict=True) for columns in (table, named)))
    every = [row for pair in rows for row in pair if row is not None]
    return dict(zip(table, map(list, zip(*every, strict=True)), strict=True))


def _has(trace: Trace, kind: AttentionKind, chosen: Selection) -> bool:
    """True if the pinned model has this layer, and this head where heads have masks of their own."""
    paths = trace.attention_paths(kind)
    heads = len(trace.visible(paths[chosen.layer])) if chosen.layer < len(paths) else 0
    return heads == 1 or chosen.head < heads


def _padding_panel(batch: Batch, stack: int, trace: Trace, before: PinnedBatch | None) -> Panel:
    real = batch.real[stack]
    framed = None if before is None else numbers(unlike(real, before.batch.real[stack]))
    examples, length = real.shape
    name = Message("padding, {side}", side=side_title(trace, "source" if stack == 0 else "target"))
    note = joined(" = ", Message("[batch, 1, 1, key]"), f"[{examples}, 1, 1, {length}]")
    texts = Axis("", [f"{number + 1}" for number in range(examples)], "")
    return Panel(name, texts, _place_axis(Message("key"), length), numbers(real), changed=framed, note=note)


def _rule_panels(mask: Mask, queries: int, keys: int) -> list[Panel]:
    """The rules over positions, which are the same for every text."""
    rules = []
    if mask.causal:
        rules.append((Message("causal"), Mask(causal=True)))
    if mask.window is not None:
        rules.append((Message("window {n}", n=mask.window), Mask(window=mask.window)))
    rows, columns = _place_axis("", queries), _place_axis(Message("key"), keys)
    note = joined(" = ", Message("[1, 1, query, key]"), f"[1, 1, {queries}, {keys}]")
    cells = ((name, rule.visible(queries, keys, torch.device("cpu"))[0, 0]) for name, rule in rules)
    return [Panel(name, rows, columns, numbers(visible), note=note) for name, visible in cells]


def _place_axis(title: str, count: int) -> Axis:
    return Axis(title, [f"{place}" for place in range(min(count, DRAWN))], "")


def _text_axis(title: str, texts: Sequence[Tokens], example: int, side: str, length: int) -> Axis:
    """A text of the batch, with its padding; its places are the tokens of the page's text, the first."""
    labels = texts[example].labels
    places = [-1] * length
    for here, there in enumerate(align(texts[0].labels, labels).places):
        if there >= 0:
            places[there] = here
    return Axis(title, [*labels, *["<pad>"] * (length - len(labels))][:DRAWN], side, places[:DRAWN])


def _moves(model: TextModel, batch: Batch) -> list[list[float]]:
    """The largest change of a logit between each text in the batch and alone: with padding masked, seen, and where
    texts are read in one direction without a causal mask too.
    """
    network = model.network
    unmasked, alone = without_padding_masks(network), batch.alone(network)
    largest_changes = [batch.changes_of(network, alone).tolist(), batch.changes_of(network, alone, unmasked).tolist()]
    if model.kind == "decoder-only":  # padding on the right is the future, which the causal mask hides
        alone = batch.alone(network, without_causal_mask(network))
        largest_changes.append(batch.changes_of(network, alone, [*unmasked, *without_causal_mask(network)]).tolist())
    return largest_changes


def _batch_table(batch: Batch, rows: Sequence[Sequence[Tokens]], moves: list[list[float]]) -> dict[str, list[Any]]:
    """A row for each text of the batch: how much of it is padding, and what padding moves."""
    columns: dict[str, list[Any]] = {
        Message("padding tokens"): [
            sum(int((~real[index]).sum()) for real in batch.real) for index in range(len(rows[0]))
        ],
        Message("text"): ["".join(each.labels[:40]).replace("▁", " ").strip() for each in rows[0]],
    }
    names = [
        Message("|Δlogit|, padding masked"),
        Message("|Δlogit|, padding seen"),
        Message("|Δlogit|, nor a causal mask"),
    ]
    return {**dict(zip(names, moves, strict=False)), **columns}  # a narrow window shows the first ones
