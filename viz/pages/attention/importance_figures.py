"""Importance of each head on this text, as figures: by layer, in order, and beside heads like it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from model.analysis.head_importance import Effect, Place, Removals
from model.analysis.head_metrics import Likeness, likeness
from model.capture.trace import AttentionKind, Trace
from model.message import Message
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Chart, Series
from viz.figures.colours import LOSS, PINNED
from viz.figures.figure import About, Caption
from viz.figures.panels import Panel, Panels
from viz.i18n.catalogue import _
from viz.i18n.format import significant, token_code
from viz.i18n.messages import in_language, joined, labelled
from viz.i18n.names import attention_title
from viz.ui.parts import frame_of
from viz.ui.plots import head_panel, mean_notes, stamp


def effects_panels(weighed: HeadImportance, kinds: Sequence[AttentionKind], chosen: Place) -> Panels:
    """A cell for each head of these kinds; framed in colour: removed already."""
    tables = [_table(weighed.effects, kind, weighed.cost_or_change) for kind in kinds]
    top = max(float(np.nanmax(np.abs(table), initial=0.0)) for table in tables) or 1e-9
    low = -top if weighed.differing or any(np.nanmin(table, initial=0.0) < 0 for table in tables) else 0.0
    scale = Scale(low, top, difference=weighed.differing)
    panels = []
    for kind, table, note in zip(kinds, tables, mean_notes(tables), strict=True):
        gone = _table(weighed.effects, kind, lambda place: float(place in weighed.removed)) > 0
        framed = chosen[1:] if kind == chosen[0] else None
        panels.append(head_panel(attention_title(kind), table, scale, framed, note=note, changed=gone))
    sentence = joined(" · ", weighed.quantity, Message("layer × head; press one to see it large"))
    sentence = joined(" ", "Δ", sentence) if weighed.differing else sentence
    name, about = Message("Without each head"), about_effects(weighed, weighed.differing)
    return _head_panels(
        Caption(name, "attention-importance", stamp(weighed.trace), sentence=sentence, about=about), panels
    )


def ranking_chart(weighed: HeadImportance, chosen: Place) -> Chart:
    """The heads by what their loss costs; of the pinned trace, where it was measured there, beside."""
    ranked = weighed.ranked
    names, places = [head_name(place, weighed.alone) for place in ranked], np.arange(len(ranked))
    series = [Series(weighed.quantity, places, np.array([weighed.cost(place) for place in ranked]), LOSS, "bars")]
    if weighed.pinned:
        other = np.array([weighed.cost(place, weighed.pinned) for place in ranked])
        series.append(Series(Message("pinned"), places, other, PINNED, "dots"))
    costs = [joined(" ", name, weighed.amount(weighed.cost(place))) for name, place in zip(names, ranked, strict=True)]
    name, sentence = Message("In order"), Message("from the head that matters most")
    alt = labelled(name, joined(", ", *costs[:8]))
    file, about = "attention-importance-order", about_effects(weighed)
    above = Caption(name, file, stamp(weighed.trace), sentence=sentence, alt=alt, about=about)
    x_axis, y_axis = Axis(Message("head"), names, "", prose=True), Axis(joined(", ", weighed.quantity, weighed.unit))
    framed = ranked.index(chosen) if chosen in ranked else -1
    return Chart(above, series, x_axis, y_axis, chosen=framed, tall=120)


def alike_panels(weighed: HeadImportance, alike: Likeness, chosen: Place) -> Panels:
    """Every head of the chosen one's kind beside it: where it looks, and what it gives."""
    maps = np.asarray(1 - alike.maps, np.float32)
    pairs: list[tuple[str, str, NDArray[np.float32], float]] = [
        (Message("looks alike"), Message("1 − Jensen–Shannon distance"), maps, 0.0)
    ]
    if alike.outputs is not None and not bool(alike.outputs.isnan().all()):
        pairs.append((Message("gives alike"), "cos(oWᴼ, o′Wᴼ)", np.asarray(alike.outputs, np.float32), -1.0))
    panels = [
        head_panel(title, table, Scale(low, 1.0), chosen[1:], note=note, visible=~np.isnan(table))
        for title, note, table, low in pairs
    ]
    name, sentences = Message("Heads like {head}", head=head_name(chosen, True)), [attention_title(chosen[0])]
    count = len(weighed.trace.tokens_of(weighed.trace.attention_paths(chosen[0])[0]))
    if alike.queries < count:
        sentences.append(Message("at {some} of {all} queries", some=alike.queries, all=count))
    sentence = joined(" · ", *sentences)
    return _head_panels(
        Caption(name, "attention-alike", stamp(weighed.trace), sentence=sentence, about=about_alike()), panels
    )


def _head_panels(above: Caption, panels: Sequence[Panel]) -> Panels:
    words = {
        "masked": Message("not known"),
        "visible": Message("known"),
        "changed": Message("removed"),
        "missing": Message("not measured in the pinned trace"),
    }
    titles = (Message("layer"), Message("head"), Message("value"), Message("not known"))
    return Panels(above, panels, slot=150, cell=24, cells=titles, words=words)


def importance_table(weighed: HeadImportance, labels: Sequence[str]) -> pd.DataFrame:
    """A row a head. labels: of the tokens at the predictions' positions."""
    places, effects = list(weighed.effects), list(weighed.effects.values())
    moved = Message("largest KL, nats") if weighed.predicts else Message("largest of one token")
    table: dict[str, Any] = {
        Message("Attention"): [attention_title(place[0]) for place in places],
        Message("layer"): [place[1] + 1 for place in places],
        Message("head"): [place[2] + 1 for place in places],
        Message("Δ loss") if weighed.by_divergence else weighed.quantity: [effect.loss for effect in effects],
        moved: [effect.moved for effect in effects],
        Message("at token"): [labels[effect.position] for effect in effects],
        Message("removed"): [place in weighed.removed for place in places],
    }
    if weighed.pinned:
        table[Message("pinned")] = [weighed.cost(place, weighed.pinned) for place in places]
    return frame_of(table)


def _table(
    effects: Mapping[Place, Effect], kind: AttentionKind, value: Callable[[Place], float]
) -> NDArray[np.float32]:
    own = [place for place in effects if place[0] == kind]
    layers, heads = (1 + max(each) for each in zip(*(place[1:] for place in own), strict=True))
    table = np.full((layers, heads), np.nan, np.float32)
    for place in own:
        table[place[1:]] = value(place)
    return table


def about_effects(weighed: HeadImportance, differing: bool = False) -> About:
    """Explanation of the effect of removing each head."""
    if not weighed.predicts:
        sentence = Message("Each head is removed in turn: how far that moves the last states of this text, as a share.")
        formula = r"I_h = \frac{\lVert x - x_{\xi_h = 0} \rVert}{\lVert x \rVert}"
    elif weighed.by_divergence:
        sentence = Message(
            "Each head is removed in turn: how far that moves the prediction of this text that it moves most."
        )
        formula = r"I_h = \max_t\, \mathrm{KL}(p_t \,\Vert\, p_{t,\,\xi_h = 0})"
    else:
        sentence = Message("Each head is removed in turn: by how much that raises the mean loss of this text.")
        formula = r"I_h = \mathcal{L}(\xi_h = 0) - \mathcal{L}"
    removed = r"\mathrm{MHA}(x) = \sum_h \xi_h\, o_h W^O_h"
    return About(
        sentence,
        [removed, formula, *([r"\Delta I_h = I_h - I'_h"] if differing else [])],
        [Removals],
        meaning=Message("A head that costs nothing alone may still be needed where another one like it is gone."),
    )


def about_alike() -> About:
    sentence = Message(
        "Every head beside the chosen one: whether both look at the same tokens, and whether they add the same."
    )
    formulas = [
        r"1 - \tfrac1n \sum_i \sqrt{\mathrm{JS}(w_i, w'_i)}, \quad "
        r"\mathrm{JS}(p, q) = H\!\left(\tfrac{p+q}{2}\right) - \tfrac{H(p) + H(q)}{2}",
        r"\cos(o W^O_h,\, o' W^O_{h'})",
    ]
    return About(
        sentence,
        formulas,
        [likeness],
        meaning=Message("Heads that look alike need not give alike: they may read other channels there."),
    )


# Sentences on the importance of each head on this text.

FREE = 0.01  # nats, or of a bare encoder the share of its states: a head that costs less can be spared


@dataclass(frozen=True)
class HeadImportance:
    """effects: what the loss of each head costs, `pinned`: in the pinned trace, none where it was not measured there.

    loss: with all heads. predicts: whether the model does. removed: heads that are so already. differing: differences
    from the pinned trace are shown. unlike: the pinned model's heads were measured in another quantity.
    """

    trace: Trace
    effects: Mapping[Place, Effect]
    loss: float
    predicts: bool
    removed: Sequence[Place] = ()
    pinned: Mapping[Place, Effect] | None = None
    differing: bool = False
    unlike: bool = False

    @property
    def by_divergence(self) -> bool:
        """True if no actual token is known: then the predictions are compared with themselves."""
        return self.predicts and math.isnan(self.loss)

    @property
    def alone(self) -> bool:
        """True if all heads are of one kind of attention: then names need not say which."""
        return len({kind for kind, _layer, _head in self.effects}) == 1

    def cost(self, place: Place, effects: Mapping[Place, Effect] | None = None) -> float:
        """Cost of removing this head; NaN where it is unknown."""
        effect = (self.effects if effects is None else effects).get(place)
        return math.nan if effect is None else effect.moved if self.by_divergence else effect.loss

    def cost_or_change(self, place: Place) -> float:
        """Cost of removing this head, or its difference from the pinned trace's."""
        if not self.differing:
            return self.cost(place)
        return self.cost(place) - self.cost(place, self.pinned or {})

    @property
    def ranked(self) -> list[Place]:
        """The heads that are still there, the one that matters most first."""
        return sorted((place for place in self.effects if place not in self.removed), key=self.cost, reverse=True)

    @property
    def quantity(self) -> str:
        """Name of a head's number."""
        if not self.predicts:
            return "‖x − x′‖ / ‖x‖"
        return "KL(p ‖ p′)" if self.by_divergence else Message("Δ loss")

    @property
    def unit(self) -> str:
        return Message("nats") if self.predicts else ""

    def amount(self, value: float) -> str:
        """A cost with its unit, and with a sign where it may have either."""
        signed = self.predicts and not self.by_divergence
        text = significant(value)
        return joined(" ", f"{'+' if signed and value > 0 else ''}{text}", self.unit)


def head_name(place: Place, alone: bool) -> str:
    """Counted from 1, as on the thumbnails; alone: the model has one kind of attention."""
    name = f"{place[1] + 1}.{place[2] + 1}"
    return name if alone else joined(" ", attention_title(place[0]), name)


def verdict(weighed: HeadImportance, labels: Sequence[str]) -> str:
    """Sentence: how many heads can be spared, and which matters most. labels: of the tokens at the predictions'
    positions.
    """
    ranked, alone = weighed.ranked, weighed.alone
    if not ranked:
        return _("Every head is removed: restore some first.")
    free = sum(weighed.cost(place) < FREE for place in ranked)
    first = weighed.effects[ranked[0]]
    if not weighed.predicts:
        sentence = _(
            "Heads whose removal moves the last states by less than {bound}: **{free} of {all}**. "
            "**{head}** matters most: {cost}, most of all at {token}."
        )
    elif weighed.by_divergence:
        sentence = _(
            "No next token is known, so predictions are compared. Heads whose removal moves them by less than {bound}: "
            "**{free} of {all}**. **{head}** matters most: KL {cost} at {token}."
        )
    else:
        sentence = _(
            "The mean loss of this text is {loss} nats. Heads whose removal raises it by less than {bound}: "
            "**{free} of {all}**, of which {lower} even lower it. **{head}** matters most: {cost}; most changed is the "
            "prediction at {token}, KL {moved}."
        )
    return sentence.format(
        loss=significant(weighed.loss),
        free=free,
        all=len(ranked),
        lower=sum(weighed.cost(place) < 0 for place in ranked),
        bound=f"{significant(FREE)} {in_language(weighed.unit)}".strip(),
        head=f"{_('head') if alone else ''} {in_language(head_name(ranked[0], alone))}".strip(),
        cost=_amount(weighed, weighed.cost(ranked[0])),
        token=token_code(labels[first.position]),
        moved=significant(first.moved),
    )


def _amount(weighed: HeadImportance, value: float) -> str:
    return in_language(weighed.amount(value))


def together(weighed: HeadImportance, chosen: Place, other: Place, both: Effect) -> str:
    """Sentence: the loss without a head and the one most like it, beside the losses without each alone."""
    each = [weighed.cost(place) for place in (chosen, other)]
    cost = both.moved if weighed.by_divergence else both.loss
    sentence = _("Most alike: **{other}**. Without it {second}, without both {both}; one by one they add up to {sum}.")
    sentence = sentence.format(
        other=head_name(other, True),
        second=_amount(weighed, each[1]),
        both=_amount(weighed, cost),
        sum=_amount(weighed, sum(each)),
    )  # fmt: skip
    if cost > sum(each) + FREE:
        return f"{sentence} " + _("Each makes up for the other.")
    return sentence


def of_chosen(weighed: HeadImportance, chosen: Place, labels: Sequence[str]) -> str:
    """Sentence on the chosen head's effect."""
    effect, ranked = weighed.effects[chosen], weighed.ranked
    name = _("Layer {layer}, head {head}").format(layer=chosen[1] + 1, head=chosen[2] + 1)
    if chosen not in ranked:
        return _("**{head}** is removed: its weighted values are 0 before Wᴼ, on every page.").format(head=name)
    sentence = _("**{head}**, number {rank} of {all}: without it {cost}; most changed at {token}, {moved}.")
    return sentence.format(
        head=name,
        rank=ranked.index(chosen) + 1,
        all=len(ranked),
        cost=_amount(weighed, weighed.cost(chosen)),
        token=token_code(labels[effect.position]),
        moved=f"KL {significant(effect.moved)}" if weighed.predicts else significant(effect.moved),
    )
