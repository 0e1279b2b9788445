"""Where a change of masks moved weights and predictions, in all attentions and at every position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from model.analysis.comparison import Comparison, divergence, prediction_changes, weight_changes
from model.capture.trace import AttentionKind, Trace
from model.text.tokenizer import Tokenizer
from viz.components.view import Answer
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Chart, Series
from viz.figures.panels import Panels
from viz.i18n.catalogue import _
from viz.i18n.format import attention_name, side_name, significant, token_sign
from viz.pages.masks.figures import largest, words
from viz.pages.masks.text import about_predictions, about_tops, about_where
from viz.render.view import FigureView, view
from viz.state.session import Selection
from viz.ui.plots import PINNED, array, head_panel, heading

TOPS = 5  # predicted tokens
NOW, BEFORE = "#0072b2", "#8a8f98"


def where_panels(
    trace: Trace,
    before: Trace,
    kinds: Sequence[AttentionKind],
    kind: AttentionKind,
    chosen: Selection,
    comparison: Comparison | None,
    key: str,
    on_cell: Answer,
) -> FigureView:
    """For every head of every attention, how far its weights moved, or are from the pinned ones; a click chooses it.

    comparison: where differences from the pin are wanted.
    """
    if comparison:
        changes = [comparison.head_changes(each) for each in kinds]
        sentence = _("½ Σ|w − w′| by layer and head, w′ pinned; click one")
    else:
        changes = [np.asarray(weight_changes(trace, before, each).cpu()) for each in kinds]
        sentence = _("½ Σ|w − w′| by layer and head; click one")
    scale = Scale(0.0, largest(*changes))
    panels = []
    for each, change in zip(kinds, changes, strict=True):
        known = change[np.isfinite(change)]  # a pinned model may have fewer layers
        note = _("mean {mean}").format(mean=significant(float(known.mean()))) if len(known) else _("none pinned")
        framed = [chosen.layer, chosen.head] if each == kind else None
        panel = head_panel(attention_name(each), change, scale, framed, note=note, pinned=comparison is not None)
        panels.append(panel)
    about = about_where(comparison is not None)
    above = heading(trace, _("Where weights moved"), "masks-heads", sentence=sentence, about=about)
    cells = (_("layer"), _("head"), _("value"), _("masked"))
    return view(key, Panels(above, panels, slot=110, cell=24, cells=cells, words=words()), cell=on_cell)


def predicted_tokens(trace: Trace) -> list[str]:
    """The tokens at whose positions the model predicts."""
    return trace.target_tokens or trace.source_tokens


def predicted_axis(trace: Trace) -> Axis:
    side = "target" if trace.target_tokens else "source"
    return Axis(side_name(trace, side), predicted_tokens(trace), side)


def pinned_changes(trace: Trace, comparison: Comparison | None) -> Tensor | None:
    """The divergence of the predictions from the pinned ones, where there are such."""
    other = comparison.counterpart("output.logits") if comparison else None
    return None if other is None else divergence(trace["output.logits"], other)


def predictions_chart(
    trace: Trace, before: Trace, pinned: Tensor | None, place: int, key: str, on_place: Answer
) -> FigureView:
    """The divergence of the predictions at every position; a click chooses the position whose tokens are shown."""
    now, x_axis = array(prediction_changes(trace, before)), predicted_axis(trace)
    places = np.arange(len(now))
    series = [Series("KL(p′ ‖ p)", places, now, NOW, "bars")]
    if pinned is not None:
        series.append(Series(_("against the pinned"), places, array(pinned), PINNED, "line", True))
    most = int(now.argmax())
    token = token_sign(predicted_tokens(trace)[most])
    note = _("largest: {value} nats at {token}").format(value=significant(float(now[most])), token=token)
    above = heading(trace, _("Predictions moved"), "masks-predictions", note, about=about_predictions())
    return view(key, Chart(above, series, x_axis, Axis(_("KL, nats"), low=0), chosen=place, tall=130), place=on_place)


def tops_chart(
    trace: Trace, before: Trace, comparison: Comparison | None, tokenizer: Tokenizer, place: int, key: str
) -> FigureView:
    """The most probable tokens at a position, before and now, and how probable they were in the pinned trace."""
    first, now = (each["output.logits"][place].float().softmax(dim=-1) for each in (before, trace))
    best = list(dict.fromkeys([*first.topk(TOPS).indices.tolist(), *now.topk(TOPS).indices.tolist()]))
    places = np.arange(len(best))
    series = [
        Series(_("before"), places, array(first[best]), BEFORE, "bars"),
        Series(_("now"), places, array(now[best]), NOW, "bars"),
    ]
    other = comparison.counterpart("output.logits") if comparison else None
    if other is not None:
        pinned = other[place].float().softmax(dim=-1)[best]
        series.append(Series(_("pinned"), places, array(pinned), PINNED, "dots"))
    name = _("Predicted at {token}").format(token=token_sign(predicted_tokens(trace)[place]))
    names = [token_sign(tokenizer.label(token)) for token in best]
    leader = f"{names[int(first[best].argmax())]} → {names[int(now[best].argmax())]}"
    alt = f"{name}: {leader}"
    above = heading(trace, name, "masks-tokens", sentence=leader, alt=alt, about=about_tops(trace))
    x_axis, y_axis = Axis(_("token"), names, ""), Axis(_("probability"), low=0, high=1)
    return view(key, Chart(above, series, x_axis, y_axis, tall=112))
