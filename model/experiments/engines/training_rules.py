"""Rules of trainings side by side: what their numbers say of the arms, beside the spread of the seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal

from model.experiments.engines.ab_training import (
    UNLEARNT,
    Side,
    ends,
    growths,
    shares_of_fall,
)
from model.experiments.rule import (
    Condition,
    Margin,
    Order,
    Quantity,
    Rule,
    above,
    clearly_above,
    clearly_below,
    compared,
    every,
    greater,
    less,
    some,
)
from model.message import Message, say

CLEAR = Margin(share=0.1)  # of the larger loss: by less, losses are alike
HOLDS = 0.5  # of the answers at the lengths trained on: with fewer right of longer texts, codes do not carry over
FACTOR = Margin(factor=2.0)  # between gradients: less is about the same
NEEDED = 0.5  # of the fall of the loss: where less is left without a thing, that is needed
ALMOST_NOTHING = 0.25  # of the fall of the loss that residuals give
AS_MUCH = 0.9  # of it, and more
SHARE = Margin(by=0.01)  # of tokens predicted rightly, or of a perplexity: less is no difference

WithoutResiduals = Literal["almost nothing", "clearly less", "clearly more", "as much", "open"]

ARMS: dict[str, str] = {
    "post": say("post-norm"),
    "post cold": say("post-norm, no warm-up"),
    "pre": say("pre-norm"),
    "pre cold": say("pre-norm, no warm-up"),
    "wrong": say("wrong pre-norm"),
    "on": say("with residuals"),
    "off": say("without residuals"),
    "untied": say("not tied"),
    "output": say("output tied to the decoder's embedding"),
    "all": say("all three tied"),
    "split": say("narrow heads"),
    "as many": say("narrow heads, as many parameters"),
    "full": say("wide heads"),
    "sinusoidal": say("sinusoidal"),
    "learned": say("learned"),
    "rotary": say("rotary"),
    "alibi": "ALiBi",
    "none": say("no positions"),
    "sharp": say("no smoothing"),
    "smooth": say("label smoothing 0.1"),
    "whole": say("all of it"),
    "no warm-up": say("no warm-up"),
    "no Xavier": say("no Xavier"),
    "no clipping": say("no clipping"),
    "no Adam": say("no Adam"),
}


def arm_name(arm: str) -> str:
    """Name of an arm, with its layers where the arms differ in them."""
    bare, _at, depth = arm.partition("@")
    if not depth:
        return ARMS.get(bare, bare)
    layers, _space, cold = depth.partition(" ")
    return say("{arm}, {layers} layers", arm=ARMS[f"{bare} {cold}".strip()], layers=int(layers))


def loss(side: Side, arm: str, name: str = "") -> Quantity:
    """Final loss of an arm."""
    return Quantity(say("loss at the end, {arm}", arm=name or arm_name(arm)), tuple(ends(side.of(arm))), "nats")


def losses_of(side: Side, one: str, other: str) -> Order:
    """Final loss of one arm beside that of the other."""
    return compared(loss(side, one), loss(side, other), CLEAR)


def slope(side: Side, arm: str, stack: str) -> Quantity:
    """Gradient of a stack's first layer over that of its last one, at the first step."""
    name = say("gradient of the first layer over that of the last, {arm}", arm=arm_name(arm))
    return Quantity(name, tuple(growths(side, arm, stack)))


def beats_chance(side: Side, arm: str, name: str = "") -> Condition:
    """An arm has clearly learnt more than the frequency of each token. Open where one seed diverged."""
    return clearly_below(loss(side, arm, name), UNLEARNT * side.chance)


def learning_share(side: Side, arm: str, whole: str, name: str = "") -> Quantity:
    """Share of what another arm learns that an arm does, by the falls of their losses."""
    text = say("share that is learnt, {arm}", arm=name or arm_name(arm))
    return Quantity(text, tuple(shares_of_fall(side, arm, whole)))


def needed(side: Side, without: str, whole: str) -> Condition:
    """Need of what an arm leaves out: less than `NEEDED` is left of what the whole learns. Open where the whole has
    learnt nothing.
    """
    known = beats_chance(side, whole)
    if not known.met:
        return replace(known, text=clearly_below(Quantity("", ()), NEEDED).text, met=None)
    return clearly_below(learning_share(side, without, whole), NEEDED)


def open_learning_words(arm: str) -> Message:
    """Sentence: the seeds do not decide whether an arm, by its name, has learnt anything."""
    return say("the seeds do not decide whether more is learnt than how frequent each token is: {arm}", arm=arm)


def cold_text(arm: str) -> str:
    """Condition that an arm needs warm-up, said of every depth."""
    return clearly_below(Quantity(say("share that is learnt, {arm}", arm=arm_name(f"{arm} cold")), ()), NEEDED).text


def contrast(one: Sequence[Condition], other: Sequence[Condition], texts: Sequence[str]) -> Rule:
    """Rule of "one does, the other does not", of conditions at each depth. texts: of both, said of all depths."""
    first, second = texts
    somewhere = some(one, say("in one case at least: {condition}", condition=first))
    nowhere = replace(~some(other, second), text=say("in no case: {condition}", condition=second))
    return Rule([somewhere, nowhere], wants=[every(one, say("that is so in every case"))])


def without_residuals(side: Side) -> tuple[Rule, WithoutResiduals]:
    """Rule of what is learnt without residuals, by the fall of the loss with them, and a word for it."""
    share, bare, whole = learning_share(side, "off", "on"), loss(side, "off"), loss(side, "on")
    order, little, as_much = (
        compared(bare, whole, CLEAR),
        clearly_below(share, ALMOST_NOTHING),
        above(share.values, AS_MUCH),
    )
    worse = greater(bare, whole, CLEAR)
    if order != "higher":
        worse = replace(worse, met=False if order == "lower" or as_much else None)
    rule = Rule([little | worse, ~less(bare, whole, CLEAR).surely], wants=[little], given=[beats_chance(side, "on")])
    if little.met:
        return rule, "almost nothing"
    if order == "higher":
        return rule, "open" if little.met is None else "clearly less"
    return rule, "clearly more" if order == "lower" else "as much" if as_much else "open"


def differences(side: Side, read: Callable[[Side, str], list[float]], name: str, relative: bool) -> Quantity | None:
    """Number of the newest validation with label smoothing less that without, for each seed, or as a share of it; None:
    nothing has been validated, or a seed diverged before that.
    """
    sharp, smooth = read(side, "sharp"), read(side, "smooth")
    if not sharp or len(sharp) != len(smooth):
        return None
    return Quantity(name, tuple((b - a) / (a if relative else 1.0) for a, b in zip(sharp, smooth, strict=True)))


def answered(side: Side, arm: str) -> list[tuple[float, float]]:
    """Mean share of right answers up to the longest length trained on and beyond it, for each seed that has both."""
    pairs = []
    for seed in dict.fromkeys(each.seed for each in side.tests if each.arm == arm):
        tests = [each for each in side.tests if (each.arm, each.seed) == (arm, seed)]
        inside = [each.exact for each in tests if each.length <= side.trained]
        beyond = [each.exact for each in tests if each.length > side.trained]
        if inside and beyond and not any(map(math.isnan, (*inside, *beyond))):
            pairs.append((fmean(inside), fmean(beyond)))
    return pairs


def knows(answers: Sequence[tuple[float, float]], arm: str) -> Condition:
    """An arm answers at the lengths trained on, by its `answered`."""
    name = say("right up to the longest trained on, {arm}", arm=arm_name(arm))
    return clearly_above(Quantity(name, tuple(within for within, _beyond in answers)), HOLDS)


def carries_over(answers: Sequence[tuple[float, float]], arm: str) -> Condition:
    """Longer texts are answered about as well; open where the task has not been learnt."""
    name = say("right beyond it, in shares of the former, {arm}", arm=arm_name(arm))
    shares = [beyond / within for within, beyond in answers] if knows(answers, arm).met else []
    return clearly_above(Quantity(name, tuple(shares)), HOLDS)
