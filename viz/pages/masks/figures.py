"""Figures of the current input: the mask, and what it makes of one head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.comparison import Comparison, output_changes, weight_changes
from model.capture.interventions import ChangedMask
from model.capture.trace import AttentionKind, Trace
from model.message import Message
from viz.figures.axis import Axis, Scale
from viz.figures.colours import ATTENTION
from viz.figures.panels import Panel, Panels
from viz.i18n.catalogue import _
from viz.i18n.format import sides, significant, significant_alike, token_code, tokens
from viz.i18n.messages import joined, labelled
from viz.i18n.names import attention_reading
from viz.pages.masks.text import about_flow, about_mask
from viz.state.inputs import Inputs, Selection
from viz.ui.parts import frame_of
from viz.ui.plots import caption, scored_name, word

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

DRAWN = 128  # tokens of a side that are drawn; a note says so of longer texts


WORDS = {"visible": Message("visible"), "changed": Message("changed")}  # of the cells of a mask


def numbers(tensor: Tensor) -> NDArray[Any]:
    """The part of a matrix that is drawn."""
    drawn = tensor[:DRAWN, :DRAWN]
    return np.asarray((drawn if drawn.dtype == torch.bool else drawn.float()).cpu())


def axes(trace: Trace, kind: AttentionKind) -> tuple[Axis, Axis]:
    """Rows and columns of a map."""
    rows, columns = sides(trace, kind)
    queries = Axis(Message("query (from)"), tokens(trace, rows)[:DRAWN], rows)
    return queries, Axis(Message("key (to)"), tokens(trace, columns)[:DRAWN], columns)


def own_visible(trace: Trace, path: str) -> Tensor:
    """Cells that the network's own mask lets the queries of this trace see: (head, query, key)."""
    mask = trace.mask(path)
    return trace.visible(path, mask.original if isinstance(mask, ChangedMask) else mask)


def of_head(visible: Tensor, head: int) -> Tensor:
    return visible[head if len(visible) > 1 else 0]


def cut_note(trace: Trace, kind: AttentionKind) -> str:
    longest = max(len(tokens(trace, side)) for side in sides(trace, kind))
    return Message("the first {count} of {all} tokens are drawn", count=DRAWN, all=longest) if longest > DRAWN else ""


def mask_shape(heads: int) -> Message:
    """Names of a mask's dimensions. heads: 1 where all heads of the layer have the same mask."""
    return Message("[batch, {heads}, query, key]", heads="1" if heads == 1 else Message("head"))


def mask_panels(inputs: Inputs, kind: AttentionKind, chosen: Selection, difference: bool, effect: str = "") -> Panels:
    """The mask in force, whose cells can be clicked; framed is what is not the network's, or not the pinned one's.

    difference: from the pinned mask, where there is one. effect: of what is framed on the predictions, in words.
    """
    trace = inputs.trace
    path = trace.attention_paths(kind)[chosen.layer]
    visible, own = (of_head(each, chosen.head) for each in (trace.visible(path), own_visible(trace, path)))
    pinned = inputs.before(f"{path}.visible") if difference else None
    if pinned is not None:
        own = visible.where(pinned.isnan(), pinned == 1)
    (rows, columns), heads = visible.shape, len(trace.visible(path))
    framed = "" if pinned is None else Message("framed: unlike the pinned")
    note = joined(" · ", f"= [1, {heads}, {rows}, {columns}]", framed)
    row = chosen.query if chosen.query < min(rows, DRAWN) else -1
    changed = visible != own
    panel = Panel(
        mask_shape(heads),
        *axes(trace, kind),
        numbers(visible),
        changed=numbers(changed),
        note=note,
        chosen=row,
        choose=True,
    )
    task = bool(inputs.model.training.get("task"))
    name, sentence = Message("Mask"), attention_reading(trace, kind, chosen.layer, task)
    alt = Message(
        "{name}, {sentence}: {hidden} of {all} cells are hidden, {changed} of them or others were changed.",
        name=name,
        sentence=sentence,
        hidden=int((~visible).sum()),
        all=visible.numel(),
        changed=int(changed.sum()),
    )
    hidden = Message("{hidden} of {all} cells are hidden", hidden=int((~visible).sum()), all=visible.numel())
    of_pin = Message("pinned → now") if effect and pinned is not None else ""
    below = joined(" · ", hidden, of_pin) if effect else sentence
    note, about = cut_note(trace, kind), about_mask(trace, path)
    finding = effect or (Message("Nothing is hidden") if bool(visible.all()) else hidden)
    above = caption(inputs, name, f"mask-{kind}", note, below, alt, about, finding)
    return Panels(above, [panel], large=True, words=WORDS)


def flow_panels(inputs: Inputs, before: Trace, kind: AttentionKind, chosen: Selection, difference: bool) -> Panels:
    """Score, mask, softmax and output of one head: now, and above it before the change; or, difference, now minus the
    pinned trace.
    """
    trace = inputs.trace
    path = trace.attention_paths(kind)[chosen.layer]
    comparison = inputs.comparison if difference else None
    alone = trace is before or comparison is not None
    lines = [(Message("now"), trace)] if alone else [(Message("before"), before), (Message("now"), trace)]
    scored = trace.maps_of(path)[-3]  # scaled, or biased where positions add to it
    called = scored_name(trace.module(path), scored)
    names = {scored: called, "masked": Message("+ mask"), "weights": "softmax", "heads": Message("output")}
    stages = {name: [numbers(each[f"{path}.{name}"][chosen.head]) for _line, each in lines] for name in names}
    tops = {name: largest(*(stages[name] + (stages[scored] if name == "masked" else []))) for name in names}
    queries, keys = axes(trace, kind)
    panels = []
    for number, (line, each) in enumerate(lines):
        visible = of_head(each.visible(path), chosen.head)
        changed = visible != of_head(before.visible(path), chosen.head)
        for name, title in names.items():
            scale = Scale(0.0, 1.0, colour=ATTENTION) if name == "weights" else Scale(-tops[name], tops[name])
            values, title = stages[name][number], labelled(line, title) if len(lines) > 1 else title
            if comparison is not None:
                values, scale, title = _difference(comparison, f"{path}.{name}", chosen.head, values, title)
            columns = Axis(Message("channel"), [""] * values.shape[1], "") if name == "heads" else keys
            hatched = np.ones(values.shape, bool) if name in (scored, "heads") else numbers(visible)
            marked = numbers(changed) if not alone and each is trace and name in ("masked", "weights") else None
            summed = name == "weights"
            panels.append(
                Panel(title, queries, columns, hatched, values, changed=marked, scale=scale, line=number, summed=summed)
            )
    name = Message("Layer {layer}, head {head}", layer=chosen.layer + 1, head=chosen.head + 1)
    file = f"masked-{kind}-layer{chosen.layer + 1}-head{chosen.head + 1}"
    note = "" if alone else effect_note(trace, before, kind, chosen)
    sentence = Message("score → mask → softmax → output")
    finding = "" if comparison else looked_at(lines, kind, path, chosen)
    above = caption(inputs, name, file, note, sentence, about=about_flow(trace, path), finding=finding)
    return Panels(above, panels, large=True, slot=220, words=WORDS)


def looked_at(lines: Sequence[tuple[str, Trace]], kind: AttentionKind, path: str, chosen: Selection) -> str:
    """The key that the chosen query looks at most, and its weight, before and now; "" where it may look at none."""
    trace = lines[-1][1]
    queries, keys = (tokens(trace, side) for side in sides(trace, kind))
    if chosen.query >= len(queries):
        return ""
    rows = [each[f"{path}.weights"][chosen.head, chosen.query].float() for _line, each in lines]
    most = int(rows[-1].argmax())
    if not float(rows[-1][most]) > 0:
        return ""
    weight = " → ".join(dict.fromkeys(significant_alike(*(float(row[most]) for row in rows))))
    return Message(
        "{query} looks at {key}: {weight}", query=word(queries[chosen.query]), key=word(keys[most]), weight=weight
    )


def _difference(
    comparison: Comparison, name: str, head: int, values: NDArray[Any], title: str
) -> tuple[NDArray[Any], Scale, str]:
    """Now minus pinned; NaN all over where the pinned model has no such quantity."""
    moved = comparison.difference(name)
    if moved is None:
        return (
            np.full_like(values, np.nan),
            Scale(-1.0, 1.0, difference=True),
            joined(": ", title, Message("none pinned")),
        )
    against = numbers(moved[head])
    top = largest(against)
    return against, Scale(-top, top, difference=True), joined(" − ", title, Message("pinned"))


def largest(*arrays: NDArray[Any]) -> float:
    """The largest finite size of a number, at least a little."""
    sizes = [float(np.abs(each[np.isfinite(each)]).max(initial=0)) for each in arrays]
    return max(*sizes, 1e-9) if sizes else 1e-9


def effect_note(trace: Trace, before: Trace, kind: AttentionKind, chosen: Selection) -> str:
    """Distance of the chosen head's weights and the attention's outputs from those before the change."""
    distance = float(weight_changes(trace, before, kind)[chosen.layer, chosen.head])
    output = float(output_changes(trace, before, kind)[chosen.layer].max())
    return Message(
        "weights moved: {distance} · largest ‖Δoutput‖ of the layer: {output}",
        distance=significant(distance),
        output=significant(output),
    )


def alarms(trace: Trace, kind: AttentionKind, chosen: Selection) -> list[str]:
    """Sentences on queries of this head that have nothing to look at, and on weight that it gives to the future."""
    path = trace.attention_paths(kind)[chosen.layer]
    visible, own = of_head(trace.visible(path), chosen.head), of_head(own_visible(trace, path), chosen.head)
    queries, keys = (tokens(trace, side) for side in sides(trace, kind))
    weights, heads = (trace[f"{path}.{name}"][chosen.head].float() for name in ("weights", "heads"))
    sentences = []
    empty = (~visible.any(dim=-1)).nonzero().flatten().tolist()
    if empty:
        text = _(
            "Nothing to look at: {queries}. Softmax alone makes {alone} NaN of that; the model's: largest weight "
            "{weight}, largest output of the head {output}, NaN {nan}."
        )
        sentences.append(
            text.format(
                queries=", ".join(token_code(queries[query]) for query in empty[:6]) + ("…" if len(empty) > 6 else ""),
                alone=int(trace[f"{path}.masked"][chosen.head, empty].softmax(dim=-1).isnan().sum()),
                weight=significant(float(weights[empty].abs().max())),
                output=significant(float(heads[empty].abs().max())),
                nan=int(weights.isnan().sum() + heads.isnan().sum()),
            )
        )
    leaks = visible & ~own & torch.ones_like(visible).triu(1)
    if kind == "decoder" and bool(leaks.any()):
        query, key = divmod(int(weights.where(leaks, -1).argmax()), len(keys))
        text = _(
            "A leak from the future: {query} gives {weight} to {key}, which comes later (layer {layer}, head {head})."
        )
        sentences.append(
            text.format(
                query=token_code(queries[query]),
                key=token_code(keys[key]),
                weight=significant(float(weights[query, key])),
                layer=chosen.layer + 1,
                head=chosen.head + 1,
            )
        )
    return sentences


def cells_table(inputs: Inputs, before: Trace, kind: AttentionKind, chosen: Selection) -> pd.DataFrame:
    """Every cell of the chosen head: its scores, masked or not, and its weights, now, before the change and pinned."""
    trace = inputs.trace
    path = trace.attention_paths(kind)[chosen.layer]
    rows, columns = (tokens(trace, side) for side in sides(trace, kind))
    flat = {
        name: np.asarray(each[f"{path}.{part}"][chosen.head].float().flatten().cpu())
        for name, each, part in (
            (Message("score"), trace, "scores"),
            (Message("weight"), trace, "weights"),
            (Message("weight before"), before, "weights"),
        )
    }
    pinned = inputs.before(f"{path}.weights")
    if pinned is not None:
        name = Message("{name}, pinned", name=Message("weight"))
        flat[name] = np.asarray(pinned[chosen.head].float().flatten().cpu())
    masked = {
        Message("masked"): np.asarray(~of_head(trace.visible(path), chosen.head).flatten().cpu()),
        Message("masked before"): np.asarray(~of_head(before.visible(path), chosen.head).flatten().cpu()),
    }
    tokens_of: dict[str, Any] = {
        Message("query"): np.repeat(rows, len(columns)),
        Message("key"): np.tile(columns, len(rows)),
    }
    return frame_of(tokens_of | masked | flat)
