"""Effect of a change of masks: where it moved weights and predictions, in all attentions and at every position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from model.analysis.comparison import divergence, prediction_changes, weight_changes
from model.capture.trace import AttentionKind, Trace
from model.message import Message
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Chart, Series
from viz.figures.colours import EXPECTED, FIRST, PINNED
from viz.figures.panels import Panels
from viz.i18n.format import significant, token_sign
from viz.i18n.messages import joined
from viz.i18n.names import attention_title, side_title
from viz.pages.masks.figures import WORDS, largest
from viz.pages.masks.text import about_predictions, about_tops, about_where
from viz.state.inputs import Inputs, Selection
from viz.ui.plots import array, caption, head_panel

TOPS = 5  # predicted tokens
NOW, BEFORE = FIRST, EXPECTED


def where_panels(
    inputs: Inputs,
    before: Trace,
    kinds: Sequence[AttentionKind],
    kind: AttentionKind,
    chosen: Selection,
    difference: bool,
) -> Panels:
    """For every head of every attention, how far its weights moved, or are from the pinned ones; a click chooses it.

    difference: from the pinned ones, where there are such.
    """
    comparison = inputs.comparison if difference else None
    if comparison:
        changes = [comparison.head_changes(each) for each in kinds]
        sentence = Message("½ Σ|w − w′| by layer and head, w′ pinned; press one")
    else:
        changes = [np.asarray(weight_changes(inputs.trace, before, each).cpu()) for each in kinds]
        sentence = Message("½ Σ|w − w′| by layer and head; press one")
    scale = Scale(0.0, largest(*changes))
    panels = []
    for each, change in zip(kinds, changes, strict=True):
        known = change[np.isfinite(change)]  # a pinned model may have fewer layers
        note = Message("mean {mean}", mean=significant(float(known.mean()))) if len(known) else Message("none pinned")
        framed = [chosen.layer, chosen.head] if each == kind else None
        panel = head_panel(attention_title(each), change, scale, framed, note=note, pinned=comparison is not None)
        panels.append(panel)
    about = about_where(comparison is not None)
    above = caption(inputs, Message("Where weights moved"), "masks-heads", sentence=sentence, about=about)
    cells = (Message("layer"), Message("head"), Message("value"), Message("masked"))
    return Panels(above, panels, slot=110, cell=24, cells=cells, words=WORDS)


def predicted_tokens(trace: Trace) -> list[str]:
    """The tokens at whose positions the model predicts."""
    return trace.target_tokens or trace.source_tokens


def predicted_axis(trace: Trace) -> Axis:
    side = "target" if trace.target_tokens else "source"
    return Axis(side_title(trace, side), predicted_tokens(trace), side)


def predictions_chart(inputs: Inputs, before: Trace, place: int) -> Chart:
    """The divergence of the predictions at every position; a click chooses the position whose tokens are shown."""
    trace, pinned = inputs.trace, inputs.before("output.logits")
    moved = array(prediction_changes(trace, before))
    places = np.arange(len(moved))
    series = [Series("KL(p′ ‖ p)", places, moved, NOW, "bars")]
    if pinned is not None:
        against = array(divergence(trace["output.logits"], pinned))
        series.append(Series(Message("against the pinned"), places, against, PINNED, "line", True))
    most = int(moved.argmax())
    token = token_sign(predicted_tokens(trace)[most])
    note = Message("largest: {value} nats at {token}", value=significant(float(moved[most])), token=token)
    above = caption(inputs, Message("Predictions moved"), "masks-predictions", note, about=about_predictions())
    y = Axis(Message("KL, nats"), low=0)
    return Chart(above, series, predicted_axis(trace), y, chosen=place, tall=130)


def tops_chart(inputs: Inputs, before: Trace, place: int) -> Chart:
    """The most probable tokens at a position, before and now, and how probable they were in the pinned trace."""
    trace = inputs.trace
    first, now = (each["output.logits"][place].float().softmax(dim=-1) for each in (before, trace))
    best = list(dict.fromkeys([*first.topk(TOPS).indices.tolist(), *now.topk(TOPS).indices.tolist()]))
    places = np.arange(len(best))
    series = [
        Series(Message("before"), places, array(first[best]), BEFORE, "bars"),
        Series(Message("now"), places, array(now[best]), NOW, "bars"),
    ]
    other = inputs.before("output.logits")
    if other is not None:
        pinned = other[place].float().softmax(dim=-1)[best]
        series.append(Series(Message("pinned"), places, array(pinned), PINNED, "dots"))
    name = Message("Predicted at {token}", token=token_sign(predicted_tokens(trace)[place]))
    names = [token_sign(inputs.model.target_tokenizer.label(token)) for token in best]
    leader = f"{names[int(first[best].argmax())]} → {names[int(now[best].argmax())]}"
    alt = joined(": ", name, leader)
    above = caption(inputs, name, "masks-tokens", sentence=leader, alt=alt, about=about_tops(trace))
    x_axis, y_axis = Axis(Message("token"), names, ""), Axis(Message("probability"), low=0, high=1)
    return Chart(above, series, x_axis, y_axis, tall=112)
