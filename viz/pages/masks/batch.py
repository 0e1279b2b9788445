"""The current text and its parts as one padded batch: its masks, and what padding does without them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd
import torch

from model.analysis.comparison import align
from model.analysis.masking import Batch, without_causal_mask, without_padding_masks
from model.capture.trace import AttentionKind, Trace
from model.inference.text_model import TextModel
from model.network.masks import Mask
from model.text.tokenizer import Tokens
from viz.components.old_plots import Panel, panels
from viz.components.plots import Mount
from viz.i18n.catalogue import _
from viz.i18n.format import attention_sentence, side_name, sides
from viz.pages.masks.figures import DRAWN, numbers, of_head, words
from viz.pages.masks.pinned import text_of, unlike
from viz.state.pin import cached_for_pin
from viz.ui.parts import stamp

if TYPE_CHECKING:
    from viz.state.pin import Pin
    from viz.state.session import Selection, Session

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


def batch_of(model: TextModel, text: str, source: Tokens, target: Tokens | None) -> tuple[Batch, list[list[Tokens]]]:
    """The current text and its parts as one batch, with the targets that the model writes for the parts."""
    rows = [[source, *(model.source_tokens(part) for part in parts_of(text)[1:])]]
    paddings = [model.source_tokenizer.filler]
    if target is not None:
        tokenizer = model.target_tokenizer
        made = model.generate_batch(parts_of(text)[1:])
        rows.append([target, *(tokenizer.written(each.ids) for each in made)])
        paddings.append(tokenizer.filler)
    return Batch.of([[each.ids for each in stack] for stack in rows], paddings, model.device), rows


def batch_sentence(model: TextModel) -> str:
    """Where the texts of the batch come from."""
    if model.kind == "encoder-decoder":
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


def pinned_batch(session: Session) -> tuple[PinnedBatch | None, str]:
    """The same batch of what is pinned; or a sentence why there is none."""
    pin = session.pin
    if pin is None or session.shown is None:
        return None, ""
    texts, lacking = text_of(pin, session.model.kind)
    if lacking:
        return None, lacking
    return cached_for_pin(pin, "batch", (), lambda: _batch_of_pin(pin, *texts)), ""


def _batch_of_pin(pin: Pin, source: Tokens, target: Tokens | None = None) -> PinnedBatch:
    batch, rows = batch_of(pin.model, pin.text, source, target)
    trace = batch.trace(pin.model.network, pin.trace.changes)
    return PinnedBatch(batch, rows, trace, _moves(pin.model, batch))


def pack_batch(
    model: TextModel, session: Session, text: str, kind: AttentionKind, chosen: Selection, key: str
) -> tuple[Mount, pd.DataFrame, str]:
    """The masks of a padded batch, framed where the pinned batch's are others; how far padding moves each text's
    outputs with and without them; and a sentence where there is no pinned batch to compare with.
    """
    batch, rows = batch_of(model, text, session.source, session.target)
    with_changes = batch.trace(model.network, session.what_if.changes)
    path = with_changes.attention_paths(kind)[chosen.layer]
    examples = len(rows[0])
    named = sides(session.trace, kind)
    row_side, column_side = (0 if side == "source" else -1 for side in named)
    before, lacking = pinned_batch(session)
    shown = [_padding_panel(batch, rows, stack, session.trace, before) for stack in range(len(rows))]
    shown += _rule_panels(with_changes.mask(path), batch.ids[row_side].shape[1], batch.ids[column_side].shape[1])
    shape = with_changes.mask(path).visible(batch.ids[row_side].shape[1], batch.ids[column_side].shape[1], model.device)
    for example in range(examples):
        visible = of_head(with_changes.example(example).visible(path), chosen.head)
        labels = [_padded(rows[side][example].labels, batch.ids[side].shape[1]) for side in (row_side, column_side)]
        places = [_places_here(rows[side], example, batch.ids[side].shape[1]) for side in (row_side, column_side)]
        described = {
            "name": _("text {number}").format(number=example + 1),
            "note": f"[{example}, 0, :, :]",
            "line": 1,
            "rows": {"title": _("query"), "labels": labels[0][:DRAWN], "side": named[0], "places": places[0]},
            "columns": {"title": _("key"), "labels": labels[1][:DRAWN], "side": named[1], "places": places[1]},
        }
        framed = None
        if before is not None and example < len(before.rows[0]) and _has(before.trace, kind, chosen):
            other = of_head(before.trace.example(example).visible(path), chosen.head)
            framed = numbers(unlike(visible, other))
        shown.append(Panel(numbers(visible), described, changed=framed))
    name = _("Masks of a padded batch")
    note = f"[batch, {'1' if shape.shape[1] == 1 else 'head'}, query, key] = {list(shape.shape)}"
    if before is not None:
        note += f" · {_('framed: unlike the pinned, place by place')}"
    header = {
        "name": name, "sentence": attention_sentence(session.trace, kind, chosen.layer),
        "note": note, "alt": f"{name}: {note}",
        "file": f"masks-batch-{kind}", "stamp": stamp(session.trace), "words": words(), "cell": 22,
    }  # fmt: skip
    table = _batch_table(batch, rows, _moves(model, batch))
    if before is not None:
        table = _beside(table, _batch_table(before.batch, before.rows, before.moves))
    return panels(shown, header, key), table, lacking


def _beside(table: pd.DataFrame, pinned: pd.DataFrame) -> pd.DataFrame:
    """Each pinned text below the one in its place: beside each other they would be wider than the page."""
    text = table.columns[0]
    named = pinned.assign(**{text: [_("{name}, pinned").format(name=name) for name in pinned[text]]})
    return pd.concat([table, named]).sort_index(kind="stable").reset_index(drop=True)


def _has(trace: Trace, kind: AttentionKind, chosen: Selection) -> bool:
    """Whether the pinned model has this layer, and this head where heads have masks of their own."""
    paths = trace.attention_paths(kind)
    heads = len(trace.visible(paths[chosen.layer])) if chosen.layer < len(paths) else 0
    return heads == 1 or chosen.head < heads


def _padding_panel(
    batch: Batch, rows: Sequence[Sequence[Tokens]], stack: int, trace: Trace, before: PinnedBatch | None
) -> Panel:
    real = batch.real[stack]
    framed = None if before is None else numbers(unlike(real, before.batch.real[stack]))
    examples, length = real.shape
    side = side_name(trace, "source" if stack == 0 else "target")
    described = {
        "name": _("padding, {side}").format(side=side),
        "note": f"[batch, 1, 1, key] = [{examples}, 1, 1, {length}]",
        "line": 0,
        "rows": {"title": "", "labels": [f"{number + 1}" for number in range(examples)], "side": ""},
        "columns": {"title": _("key"), "labels": _places(length), "side": ""},
    }
    return Panel(numbers(real), described, changed=framed)


def _rule_panels(mask: Mask, queries: int, keys: int) -> list[Panel]:
    """The rules over positions, which are the same for every text."""
    rules = []
    if mask.causal:
        rules.append((_("causal"), Mask(causal=True)))
    if mask.window is not None:
        rules.append((_("window {n}").format(n=mask.window), Mask(window=mask.window)))
    shown = []
    for name, rule in rules:
        described = {
            "name": name,
            "note": f"[1, 1, query, key] = [1, 1, {queries}, {keys}]",
            "line": 0,
            "rows": {"title": "", "labels": _places(queries), "side": ""},
            "columns": {"title": _("key"), "labels": _places(keys), "side": ""},
        }
        shown.append(Panel(numbers(rule.visible(queries, keys, torch.device("cpu"))[0, 0]), described))
    return shown


def _places(count: int) -> list[str]:
    return [f"{place}" for place in range(min(count, DRAWN))]


def _padded(labels: Sequence[str], length: int) -> list[str]:
    return [*labels, *["<pad>"] * (length - len(labels))]


def _places_here(texts: Sequence[Tokens], example: int, length: int) -> list[int]:
    """Which token of the page's text, the first, each place of another text of the batch is; -1 where it is none."""
    found = [-1] * length
    for here, there in enumerate(align(texts[0].labels, texts[example].labels).places):
        if there >= 0:
            found[there] = here
    return found


def _moves(model: TextModel, batch: Batch) -> list[list[float]]:
    """The largest change of a logit between each text in the batch and alone: with padding masked, seen, and where
    texts are read in one direction without a causal mask too.
    """
    network = model.network
    unmasked, alone = without_padding_masks(network), batch.alone(network)
    found = [batch.changes_of(network, alone).tolist(), batch.changes_of(network, alone, unmasked).tolist()]
    if model.kind == "decoder-only":  # padding on the right is the future, which the causal mask hides
        alone = batch.alone(network, without_causal_mask(network))
        found.append(batch.changes_of(network, alone, [*unmasked, *without_causal_mask(network)]).tolist())
    return found


def _batch_table(batch: Batch, rows: Sequence[Sequence[Tokens]], moves: list[list[float]]) -> pd.DataFrame:
    """A row for each text of the batch: how much of it is padding, and what padding moves."""
    columns = {
        _("text"): ["".join(each.labels[:40]).replace("▁", " ").strip() for each in rows[0]],
        _("padding tokens"): [sum(int((~real[index]).sum()) for real in batch.real) for index in range(len(rows[0]))],
    }
    names = [_("|Δlogit|, padding masked"), _("|Δlogit|, padding seen"), _("|Δlogit|, nor a causal mask")]
    return pd.DataFrame(columns | dict(zip(names, moves, strict=False)))
