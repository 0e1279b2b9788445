"""What each head is good for on this text, in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from model.analysis.head_importance import Effect, Place
from model.capture.trace import Trace
from viz.i18n.catalogue import _
from viz.i18n.format import attention_name, significant, token_code

FREE = 0.01  # nats, or of a bare encoder the share of its states: a head that costs less can be spared


@dataclass(frozen=True)
class Weighed:
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
        """Whether no actual token is known: then the predictions are compared with themselves."""
        return self.predicts and math.isnan(self.loss)

    def cost(self, place: Place, effects: Mapping[Place, Effect] | None = None) -> float:
        """What the loss of this head costs; NaN where that is not known."""
        found = (self.effects if effects is None else effects).get(place)
        return math.nan if found is None else found.moved if self.by_divergence else found.loss

    def shown(self, place: Place) -> float:
        """The same, or its difference from the pinned trace's."""
        if not self.differing:
            return self.cost(place)
        return self.cost(place) - self.cost(place, self.pinned or {})

    @property
    def ranked(self) -> list[Place]:
        """The heads that are still there, the one that matters most first."""
        return sorted((place for place in self.effects if place not in self.removed), key=self.cost, reverse=True)

    @property
    def quantity(self) -> str:
        """What a head's number is."""
        if not self.predicts:
            return "‖x − x′‖ / ‖x‖"
        return "KL(p ‖ p′)" if self.by_divergence else _("Δ loss")

    @property
    def unit(self) -> str:
        return _("nats") if self.predicts else ""

    def said(self, value: float) -> str:
        """A cost with its unit, and with a sign where it may have either."""
        signed = self.predicts and not self.by_divergence
        text = significant(value)
        return f"{'+' if signed and value > 0 else ''}{text} {self.unit}".strip()


def head_name(place: Place, alone: bool) -> str:
    """Counted from 1, as on the thumbnails; alone: the model has one kind of attention."""
    name = f"{place[1] + 1}.{place[2] + 1}"
    return name if alone else f"{attention_name(place[0])} {name}"


def verdict(weighed: Weighed, labels: Sequence[str]) -> str:
    """How many heads can be spared, and which matters most. labels: of the tokens at the predictions' positions."""
    ranked, alone = weighed.ranked, len({kind for kind, _layer, _head in weighed.effects}) == 1
    if not ranked:
        return _("Every head is removed: restore some first.")
    free = sum(weighed.cost(place) < FREE for place in ranked)
    first = weighed.effects[ranked[0]]
    if not weighed.predicts:
        sentence = _(
            "Removed one at a time, **{free} of {all} heads** move the last states by less than {bound}. "
            "**{head}** matters most: {cost}, most of all at {token}."
        )
    elif weighed.by_divergence:
        sentence = _(
            "No next token is known, so predictions are compared: removed one at a time, **{free} of {all} heads** "
            "move them by less than {bound}. **{head}** matters most: KL {cost} at {token}."
        )
    else:
        sentence = _(
            "The mean loss of this text is {loss} nats. Removed one at a time, **{free} of {all} heads** raise it by "
            "less than {bound}, {lower} of these even lower it. **{head}** matters most: {cost}; most changed is the "
            "prediction at {token}, KL {moved}."
        )
    return sentence.format(
        loss=significant(weighed.loss),
        free=free,
        all=len(ranked),
        lower=sum(weighed.cost(place) < 0 for place in ranked),
        bound=f"{FREE:g} {weighed.unit}".strip(),
        head=f"{_('head') if alone else ''} {head_name(ranked[0], alone)}".strip(),
        cost=weighed.said(weighed.cost(ranked[0])),
        token=token_code(labels[first.position]),
        moved=significant(first.moved),
    )


def together(weighed: Weighed, chosen: Place, other: Place, both: Effect) -> str:
    """What is lost with a head and the one most like it, beside what is lost with each alone."""
    each = [weighed.cost(place) for place in (chosen, other)]
    cost = both.moved if weighed.by_divergence else both.loss
    sentence = _("Most alike: **{other}**. Without it {second}, without both {both}; one by one they add up to {sum}.")
    sentence = sentence.format(
        other=head_name(other, True),
        second=weighed.said(each[1]),
        both=weighed.said(cost),
        sum=weighed.said(sum(each)),
    )  # fmt: skip
    if cost > sum(each) + FREE:
        return f"{sentence} " + _("Each makes up for the other.")
    return sentence


def of_chosen(weighed: Weighed, chosen: Place, labels: Sequence[str]) -> str:
    """What the chosen head is worth."""
    effect, ranked = weighed.effects[chosen], weighed.ranked
    name = _("Layer {layer}, head {head}").format(layer=chosen[1] + 1, head=chosen[2] + 1)
    if chosen not in ranked:
        return _("**{head}** is removed: its weighted values are 0 before Wᴼ, on every page.").format(head=name)
    sentence = _("**{head}**, number {rank} of {all}: without it {cost}; most changed at {token}, {moved}.")
    return sentence.format(
        head=name,
        rank=ranked.index(chosen) + 1,
        all=len(ranked),
        cost=weighed.said(weighed.cost(chosen)),
        token=token_code(labels[effect.position]),
        moved=f"KL {significant(effect.moved)}" if weighed.predicts else significant(effect.moved),
    )
