"""Effect of a change of masks: where it moved weights and predictions, in all attentions and at every position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.comparison import divergence, weight_changes
from model.capture.trace import AttentionKind, Trace
from model.message import Message
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Chart, Series
from viz.figures.colours import EXPECTED, FIRST, PINNED
from viz.figures.panels import Panels
from viz.i18n.format import significant, significant_alike, token_sign
from viz.i18n.messages import joined
from viz.i18n.names import attention_title, side_title
from viz.pages.masks.figures import WORDS, largest
from viz.pages.masks.text import about_predictions, about_tops, about_where
from viz.state.inputs import Inputs, Selection
from viz.ui.plots import array, caption, head_panel, mean_notes, word

TOPS = 5  # predicted tokens
NONE = 1e-6  # nats: less is rounding
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
    for each, change, mean in zip(kinds, changes, mean_notes(changes), strict=True):
        note = mean or Message("none pinned")  # a pinned model may have fewer layers
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


@dataclass(frozen=True)
class Reference:
    """Logits that those of now are compared with: before the change or, `pinned`, of the pinned trace; None where the
    pinned model has none.
    """

    logits: Tensor | None
    pinned: bool

    @classmethod
    def of(cls, inputs: Inputs, before: Trace, difference: bool) -> Reference:
        """One at a time. difference: from the pinned, where there is one."""
        if difference and inputs.comparison is not None:
            return cls(inputs.before("output.logits"), True)
        return cls(before["output.logits"], False)

    def moved(self, trace: Trace) -> NDArray[np.float32]:
        """Divergence of the predictions at every position; NaN at tokens that the pinned text lacks."""
        now = trace["output.logits"]
        return np.full(len(now), np.nan, np.float32) if self.logits is None else array(divergence(now, self.logits))

    def place(self, trace: Trace) -> int:
        """Position whose prediction moved most."""
        moved = self.moved(trace)
        return int(np.nanargmax(moved)) if np.isfinite(moved).any() else 0


def effect(inputs: Inputs, reference: Reference) -> str:
    """The prediction that moved most, in words; "" where there is nothing to compare with."""
    trace, place = inputs.trace, reference.place(inputs.trace)
    largest_move = float(reference.moved(trace)[place])
    if reference.logits is None or not np.isfinite(largest_move):
        return ""
    if largest_move < NONE:
        return Message("No prediction moves")
    then, now = (each[place].float().softmax(dim=-1) for each in (reference.logits, trace["output.logits"]))
    leader, next_leader = int(then.argmax()), int(now.argmax())
    first, second = (word(inputs.model.target_tokenizer.label(each)) for each in (leader, next_leader))
    before, after = significant_alike(float(then[leader]), float(now[leader]))
    words = {"token": word(predicted_tokens(trace)[place]), "next": second, "before": before, "now": after}
    if inputs.model.kind == "encoder-only":
        if first == second:
            return Message("In the place of {token}: {next}, {before} → {now}", **words)
        return Message(
            "In the place of {token}: {next}, no longer {other}, p({other}) {before} → {now}", other=first, **words
        )
    if first == second:
        return Message("After {token} comes {next}: {before} → {now}", **words)
    return Message("After {token} comes {next}, no longer {other}: p({other}) {before} → {now}", other=first, **words)


def predictions_chart(inputs: Inputs, reference: Reference, place: int) -> Chart:
    """The divergence of the predictions at every position; a click chooses the position whose tokens are shown."""
    trace, moved = inputs.trace, reference.moved(inputs.trace)
    name, colour = (Message("against the pinned"), PINNED) if reference.pinned else ("KL(p′ ‖ p)", NOW)
    series = [Series(name, np.arange(len(moved)), moved, colour, "bars")]
    most = reference.place(trace)
    token = token_sign(predicted_tokens(trace)[most])
    note = Message("largest: {value} nats at {token}", value=significant(float(moved[most])), token=token)
    above = caption(
        inputs, Message("Predictions moved"), "masks-predictions", note, about=about_predictions(reference.pinned)
    )
    y = Axis(Message("KL, nats"), low=0)
    return Chart(above, series, predicted_axis(trace), y, chosen=place, tall=130)


def tops_chart(inputs: Inputs, reference: Reference, place: int) -> Chart:
    """The most probable tokens at a position, before, or pinned, and now."""
    trace = inputs.trace
    now = trace["output.logits"][place].float().softmax(dim=-1)
    known = reference.logits is not None and bool(reference.logits[place].isfinite().all())
    first = reference.logits[place].float().softmax(dim=-1) if reference.logits is not None and known else now
    best = list(dict.fromkeys([*first.topk(TOPS).indices.tolist(), *now.topk(TOPS).indices.tolist()]))
    places = np.arange(len(best))
    name, colour = (Message("pinned"), PINNED) if reference.pinned else (Message("before"), BEFORE)
    series = [Series(Message("now"), places, array(now[best]), NOW, "bars")]
    if known:
        series.insert(0, Series(name, places, array(first[best]), colour, "bars"))
    name = Message("Predicted at {token}", token=token_sign(predicted_tokens(trace)[place]))
    names = [token_sign(inputs.model.target_tokenizer.label(token)) for token in best]
    leader = " → ".join(dict.fromkeys(names[int(each[best].argmax())] for each in (first, now)))
    alt = joined(": ", name, leader)
    above = caption(inputs, name, "masks-tokens", alt=alt, about=about_tops(trace, reference.pinned), finding=leader)
    x_axis, y_axis = Axis(Message("token"), names, ""), Axis(Message("probability"), low=0, high=1)
    return Chart(above, series, x_axis, y_axis, tall=112)
