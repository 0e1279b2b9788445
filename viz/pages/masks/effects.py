"""Where a change of masks moved weights and predictions, in all attentions and at every position."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from model.analysis.comparison import Comparison, divergence, prediction_changes, weight_changes
from model.capture.trace import AttentionKind, Trace
from model.text.tokenizer import Tokenizer
from viz.components.old_plots import Panel, chart, panels
from viz.components.plots import Mount, Series
from viz.i18n.catalogue import _
from viz.i18n.format import attention_name, side_name, significant, token_sign
from viz.pages.masks.figures import largest, words
from viz.state.session import Selection
from viz.ui.parts import stamp
from viz.ui.plots import PINNED

TOPS = 5  # predicted tokens
NOW, BEFORE = "#0072b2", "#8a8f98"


def pack_where(
    trace: Trace,
    before: Trace,
    kinds: Sequence[AttentionKind],
    kind: AttentionKind,
    chosen: Selection,
    comparison: Comparison | None,
    key: str,
    on_cell: Callable[[], None],
) -> Mount:
    """For every head of every attention, how far its weights moved, or are from the pinned ones; a click chooses it.

    comparison: where differences from the pin are wanted.
    """
    if comparison:
        changes = [comparison.head_changes(each) for each in kinds]
    else:
        changes = [np.asarray(weight_changes(trace, before, each).cpu()) for each in kinds]
    top = largest(*changes)
    shown = []
    for each, change in zip(kinds, changes, strict=True):
        layers, heads = change.shape
        known = change[np.isfinite(change)]  # a pinned model may have fewer layers
        described = {
            "name": attention_name(each),
            "note": _("mean {mean}").format(mean=significant(float(known.mean()))) if len(known) else _("none pinned"),
            "line": 0,
            "choose": True,
            "framed": [chosen.layer, chosen.head] if each == kind else None,
            "joined": " · ",
            "scale": {"low": 0.0, "high": top},
            "pinned": comparison is not None,
            "rows": {"title": "", "labels": [f"L{layer + 1}" for layer in range(layers)], "side": ""},
            "columns": {"title": _("head"), "labels": [f"{head + 1}" for head in range(heads)], "side": ""},
        }
        shown.append(Panel(np.ones_like(change, dtype=bool), described, change))
    name = _("Where weights moved")
    header = {
        "name": name,
        "sentence": _("½ Σ|w − w′| by layer and head, w′ pinned; click one")
        if comparison
        else _("½ Σ|w − w′| by layer and head; click one"),
        "slot": 110,
        "cell": 24,
        "alt": f"{name}: " + ", ".join(f"{panel.described['name']} {panel.described['note']}" for panel in shown),
        "file": "masks-heads",
        "stamp": stamp(trace),
        "words": words(),
    }
    return panels(shown, header, key, on_cell)


def pinned_changes(trace: Trace, comparison: Comparison | None) -> Tensor | None:
    """The divergence of the predictions from the pinned ones, where there are such."""
    other = comparison.counterpart("output.logits") if comparison else None
    return None if other is None else divergence(trace["output.logits"], other)


def pack_predictions(
    trace: Trace, before: Trace, pinned: Tensor | None, place: int, key: str, on_place: Callable[[], None]
) -> Mount:
    """The divergence of the predictions at every position; a click chooses the position whose tokens are shown."""
    labels = trace.target_tokens or trace.source_tokens
    side = "target" if trace.target_tokens else "source"
    places = np.arange(len(labels))
    now = np.asarray(prediction_changes(trace, before).cpu())
    series = [Series("KL(p′ ‖ p)", places, now, NOW, "bars")]
    if pinned is not None:
        series.append(Series(_("against the pinned"), places, np.asarray(pinned.cpu()), PINNED, "line", True))
    name = _("Predictions moved")
    note = _("largest: {value} nats at {token}").format(
        value=significant(float(now.max())), token=token_sign(labels[int(now.argmax())])
    )
    header = {
        "x": {"title": side_name(trace, side), "labels": labels, "side": side},
        "y": {"title": _("KL, nats"), "low": 0},
        "chosen": place,
        "tall": 130,
        "name": name,
        "sentence": "",
        "note": note,
        "alt": f"{name}. {note}",
        "file": "masks-predictions",
        "stamp": stamp(trace),
        "words": {"download": _("Download"), "csv": [_("series"), _("token"), _("KL, nats")]},
    }
    return chart(series, header, key, on_place)


def pack_tops(
    trace: Trace, before: Trace, comparison: Comparison | None, tokenizer: Tokenizer, place: int, key: str
) -> Mount:
    """The most probable tokens at a position, before and now, and how probable they were in the pinned trace."""
    labels = trace.target_tokens or trace.source_tokens
    first, now = (each["output.logits"][place].float().softmax(dim=-1) for each in (before, trace))
    best = list(dict.fromkeys([*first.topk(TOPS).indices.tolist(), *now.topk(TOPS).indices.tolist()]))
    places = np.arange(len(best))
    series = [
        Series(_("before"), places, np.asarray(first[best].cpu()), BEFORE, "bars"),
        Series(_("now"), places, np.asarray(now[best].cpu()), NOW, "bars"),
    ]
    other = comparison.counterpart("output.logits") if comparison else None
    if other is not None:
        pinned = other[place].float().softmax(dim=-1)[best]
        series.append(Series(_("pinned"), places, np.asarray(pinned.cpu()), PINNED, "dots"))
    name = _("Predicted at {token}").format(token=token_sign(labels[place]))
    names = [token_sign(tokenizer.label(token)) for token in best]
    leader = f"{names[int(first[best].argmax())]} → {names[int(now[best].argmax())]}"
    header = {
        "x": {"title": _("token"), "labels": names, "side": ""},
        "y": {"title": _("probability"), "low": 0, "high": 1},
        "tall": 112,
        "name": name,
        "sentence": leader,
        "alt": f"{name}: {leader}",
        "file": "masks-tokens",
        "stamp": stamp(trace),
        "words": {"download": _("Download"), "csv": [_("series"), _("token"), _("probability")]},
    }
    return chart(series, header, key)
