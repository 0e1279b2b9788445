"""What the page of masks draws of the current input: the mask, and what it makes of one head."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.comparison import Comparison, output_changes, weight_changes
from model.capture.interventions import ChangedMask
from model.capture.trace import AttentionKind, Trace
from viz.components.view import Answer
from viz.figures.axis import Axis, Scale
from viz.figures.panels import Panel, Panels
from viz.i18n.catalogue import _
from viz.i18n.format import attention_sentence, sides, significant, token_code, tokens
from viz.pages.masks.text import about_flow, about_mask
from viz.render.view import FigureView, view
from viz.state.session import Selection
from viz.ui.plots import heading, scored_name

DRAWN = 128  # tokens of a side that are drawn; a note says so of longer texts


def words() -> dict[str, str]:
    """What a cell of a mask is."""
    return {"visible": _("visible"), "changed": _("changed")}


def numbers(tensor: Tensor) -> NDArray[Any]:
    """Of a matrix as much as is drawn."""
    drawn = tensor[:DRAWN, :DRAWN]
    return np.asarray((drawn if drawn.dtype == torch.bool else drawn.float()).cpu())


def axes(trace: Trace, kind: AttentionKind) -> tuple[Axis, Axis]:
    """Rows and columns of a map."""
    rows, columns = sides(trace, kind)
    queries = Axis(_("query (from)"), tokens(trace, rows)[:DRAWN], rows)
    return queries, Axis(_("key (to)"), tokens(trace, columns)[:DRAWN], columns)


def own_visible(trace: Trace, path: str) -> Tensor:
    """Where the network's own mask lets the queries of this trace look: (head, query, key)."""
    mask = trace.mask(path)
    return trace.visible(path, mask.original if isinstance(mask, ChangedMask) else mask)


def of_head(visible: Tensor, head: int) -> Tensor:
    return visible[head if len(visible) > 1 else 0]


def cut_note(trace: Trace, kind: AttentionKind) -> str:
    longest = max(len(tokens(trace, side)) for side in sides(trace, kind))
    return _("the first {count} of {all} tokens are drawn").format(count=DRAWN, all=longest) if longest > DRAWN else ""


def mask_panels(
    trace: Trace,
    kind: AttentionKind,
    chosen: Selection,
    comparison: Comparison | None,
    key: str,
    on_cell: Answer,
) -> FigureView:
    """The mask in force, whose cells can be clicked; framed is what is not the network's, or not the pinned one's."""
    path = trace.attention_paths(kind)[chosen.layer]
    visible, own = (of_head(each, chosen.head) for each in (trace.visible(path), own_visible(trace, path)))
    pinned = comparison.counterpart(f"{path}.visible") if comparison else None
    if pinned is not None:
        own = visible.where(pinned.isnan(), pinned == 1)
    (rows, columns), heads = visible.shape, len(trace.visible(path))
    shape = f"[batch, {'1' if heads == 1 else 'head'}, query, key]"
    note = f"= [1, {heads}, {rows}, {columns}]" + (f" · {_('framed: unlike the pinned')}" if pinned is not None else "")
    row = chosen.query if chosen.query < min(rows, DRAWN) else -1
    changed = visible != own
    panel = Panel(
        shape, *axes(trace, kind), numbers(visible), changed=numbers(changed), note=note, chosen=row, choose=True
    )
    name, sentence = _("Mask"), attention_sentence(trace, kind, chosen.layer)
    alt = _("{name}, {sentence}: {hidden} of {all} cells are hidden, {changed} of them or others were changed.").format(
        name=name, sentence=sentence, hidden=int((~visible).sum()), all=visible.numel(), changed=int(changed.sum())
    )
    above = heading(trace, name, f"mask-{kind}", cut_note(trace, kind), sentence, alt, about_mask(trace, path))
    return view(key, Panels(above, [panel], cell=28, words=words()), cell=on_cell)


def flow_panels(
    trace: Trace, before: Trace, kind: AttentionKind, chosen: Selection, comparison: Comparison | None, key: str
) -> FigureView:
    """Score, mask, softmax and output of one head: now, before the change, and against the pinned trace if wanted."""
    path = trace.attention_paths(kind)[chosen.layer]
    lines = [(_("now"), trace)] if trace is before else [(_("before"), before), (_("now"), trace)]
    scored = trace.maps_of(path)[-3]  # scaled, or biased where positions add to it
    called = scored_name(trace.module(path), scored)
    names = {scored: called, "masked": _("+ mask"), "weights": "softmax", "heads": _("output")}
    stages = {name: [numbers(each[f"{path}.{name}"][chosen.head]) for _line, each in lines] for name in names}
    tops = {name: largest(*(stages[name] + (stages[scored] if name == "masked" else []))) for name in names}
    queries, keys = axes(trace, kind)
    panels = []
    for number, (line, each) in enumerate(lines):
        visible = of_head(each.visible(path), chosen.head)
        changed = visible != of_head(before.visible(path), chosen.head)
        for name, title in names.items():
            scale = Scale(0.0, 1.0) if name == "weights" else Scale(-tops[name], tops[name])
            values, title = stages[name][number], f"{line}: {title}" if len(lines) > 1 else title
            if comparison and each is trace:
                values, scale, title = _difference(comparison, f"{path}.{name}", chosen.head, values, title)
            columns = Axis(_("channel"), [""] * values.shape[1], "") if name == "heads" else keys
            hatched = np.ones(values.shape, bool) if name in (scored, "heads") else numbers(visible)
            marked = numbers(changed) if each is not before and name in ("masked", "weights") else None
            summed = name == "weights"
            panels.append(
                Panel(title, queries, columns, hatched, values, changed=marked, scale=scale, line=number, summed=summed)
            )
    name = _("Layer {layer}, head {head}").format(layer=chosen.layer + 1, head=chosen.head + 1)
    file = f"masked-{kind}-layer{chosen.layer + 1}-head{chosen.head + 1}"
    note = effect_note(trace, before, kind, chosen) if trace is not before else ""
    above = heading(trace, name, file, note, _("score → mask → softmax → output"), about=about_flow(trace, path))
    return view(key, Panels(above, panels, words=words()))


def _difference(
    comparison: Comparison, name: str, head: int, values: NDArray[Any], title: str
) -> tuple[NDArray[Any], Scale, str]:
    """Now minus pinned; NaN all over where the pinned model has no such quantity."""
    found = comparison.difference(name)
    if found is None:
        return np.full_like(values, np.nan), Scale(-1.0, 1.0, difference=True), f"{title}: {_('none pinned')}"
    against = numbers(found[head])
    top = largest(against)
    return against, Scale(-top, top, difference=True), f"{title} − {_('pinned')}"


def largest(*arrays: NDArray[Any]) -> float:
    """The largest finite size of a number, at least a little."""
    found = [float(np.abs(each[np.isfinite(each)]).max(initial=0)) for each in arrays]
    return max(*found, 1e-9) if found else 1e-9


def effect_note(trace: Trace, before: Trace, kind: AttentionKind, chosen: Selection) -> str:
    """How far the chosen head's weights and the attention's outputs are from those before the change."""
    distance = float(weight_changes(trace, before, kind)[chosen.layer, chosen.head])
    output = float(output_changes(trace, before, kind)[chosen.layer].max())
    return _("weights moved: {distance} · largest ‖Δoutput‖ of the layer: {output}").format(
        distance=significant(distance), output=significant(output)
    )


def alarms(trace: Trace, kind: AttentionKind, chosen: Selection) -> list[str]:
    """Sentences on queries of this head that have nothing to look at, and on weight that it gives to the future."""
    path = trace.attention_paths(kind)[chosen.layer]
    visible, own = of_head(trace.visible(path), chosen.head), of_head(own_visible(trace, path), chosen.head)
    queries, keys = (tokens(trace, side) for side in sides(trace, kind))
    weights, heads = (trace[f"{path}.{name}"][chosen.head].float() for name in ("weights", "heads"))
    found = []
    empty = (~visible.any(dim=-1)).nonzero().flatten().tolist()
    if empty:
        text = _(
            "Nothing to look at: {queries}. Softmax alone makes {alone} NaN of that; the model's: largest weight "
            "{weight}, largest output of the head {output}, NaN {nan}."
        )
        found.append(
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
        found.append(
            text.format(
                query=token_code(queries[query]),
                key=token_code(keys[key]),
                weight=significant(float(weights[query, key])),
                layer=chosen.layer + 1,
                head=chosen.head + 1,
            )
        )
    return found


def cells_table(
    trace: Trace, before: Trace, kind: AttentionKind, chosen: Selection, comparison: Comparison | None
) -> pd.DataFrame:
    """Every cell of the chosen head: its scores, masked or not, and its weights, now, before the change and pinned."""
    path = trace.attention_paths(kind)[chosen.layer]
    rows, columns = (tokens(trace, side) for side in sides(trace, kind))
    flat = {
        name: np.asarray(each[f"{path}.{part}"][chosen.head].float().flatten().cpu())
        for name, each, part in (
            (_("score"), trace, "scores"),
            (_("weight"), trace, "weights"),
            (_("weight before"), before, "weights"),
        )
    }
    pinned = comparison.counterpart(f"{path}.weights") if comparison else None
    if pinned is not None:
        flat[_("{name}, pinned").format(name=_("weight"))] = np.asarray(pinned[chosen.head].float().flatten().cpu())
    masked = {
        _("masked"): np.asarray(~of_head(trace.visible(path), chosen.head).flatten().cpu()),
        _("masked before"): np.asarray(~of_head(before.visible(path), chosen.head).flatten().cpu()),
    }
    tokens_of = {_("query"): np.repeat(rows, len(columns)), _("key"): np.tile(columns, len(rows))}
    return pd.DataFrame(tokens_of | masked | flat)
