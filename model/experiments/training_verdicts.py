"""Verdicts on trainings side by side: what their numbers say of the arms, beside the spread of the seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from model.experiments.rule import Order, Verdict, above, order
from model.experiments.side_by_side import (
    Side,
    ends,
    growths,
    learnt,
    perplexities,
    shares_of_fall,
    shares_of_right,
)
from model.message import Message, say

CLEAR = 0.1  # of the larger loss: by less, losses are alike
HOLDS = 0.5  # of the answers at the lengths trained on: with fewer right of longer texts, codes do not carry over
FACTOR = 2.0  # between gradients: less is about the same
NEEDED = 0.5  # of the fall of the loss: where less is left without a thing, that is needed
ALMOST_NOTHING = 0.25  # of the fall of the loss that residuals give
AS_MUCH = 0.9  # of it, and more
SHARE = 0.01  # of tokens predicted rightly, or of a perplexity: less is no difference

# "some": at some of the depths alone; "some at least": the seeds do not decide of the others; None: they do not decide
Holds = bool | Literal["some", "some at least"] | None
WithoutResiduals = Literal["undecided", "unlearnt", "almost nothing", "clearly less", "clearly more", "as much", "open"]


def losses_of(side: Side, one: str, other: str) -> Order:
    """Final loss of one arm beside that of the other."""
    these, those = ends(side.of(one)), ends(side.of(other))
    larger = max((mean for mean in (fmean(these), fmean(those)) if math.isfinite(mean)), default=0.0)
    return order(these, those, CLEAR * larger)


def slopes_of(side: Side, one: str, other: str, stack: str) -> Order | None:
    """Gradient of a stack's first layer over that of its last one, of one arm beside the other: "lower" where it is
    clearly lower, and by the factor `FACTOR`. None: there is one layer, or float32 has lost the gradients.
    """
    first, second = ([math.log(ratio) for ratio in growths(side, arm, stack)] for arm in (one, other))
    return order(first, second, math.log(FACTOR)) if first and second else None


def needs(side: Side, without: str, whole: str) -> bool | None:
    """Whether what an arm leaves out is needed: less than `NEEDED` is left of what the whole learns. None: the seeds do
    not decide, or the whole has learnt nothing.
    """
    if not learnt(side, whole):
        return None
    enough = above(shares_of_fall(side, without, whole), NEEDED)
    return None if enough is None else not enough


def whether_learnt(arm: str) -> Message:
    """That the seeds do not decide whether an arm, by its name, has learnt anything."""
    return say("the seeds do not decide whether more is learnt than how frequent each token is: {arm}", arm=arm)


def at_depths(found: Sequence[bool | None]) -> Holds:
    """What was found at each depth, in one word."""
    if True in found:
        return "some" if False in found else "some at least" if None in found else True
    return None if None in found else False


def contrast(one: Holds, other: Holds) -> Verdict:
    """Verdict on "one does, the other does not"."""
    if one is False or other in (True, "some", "some at least"):
        return Verdict.WRONG
    if one in (None, "some at least") or other is None:
        return Verdict.OPEN
    return Verdict.ONLY_IF if one == "some" else Verdict.HOLDS


def both(first: Verdict, second: Verdict) -> Verdict:
    """Verdict on a sentence of two halves."""
    if first is second:
        return first
    return Verdict.OPEN if Verdict.OPEN in (first, second) else Verdict.ONLY_IF


def of_halves(first: bool | None, second: bool | None) -> Verdict:
    """Verdict on a sentence of two halves, of each of which it is known whether it holds."""
    words = {True: Verdict.HOLDS, False: Verdict.WRONG, None: Verdict.OPEN}
    return both(words[first], words[second])


def without_residuals(side: Side) -> WithoutResiduals:
    """What is learnt without residuals, by the fall of the loss with them."""
    if not (known := learnt(side, "on")):
        return "undecided" if known is None else "unlearnt"
    shares, found = shares_of_fall(side, "off", "on"), losses_of(side, "off", "on")
    more = above(shares, ALMOST_NOTHING)
    if more is False:
        return "almost nothing"
    if found == "higher":
        return "open" if more is None else "clearly less"
    return "clearly more" if found == "lower" else "as much" if above(shares, AS_MUCH) else "open"


def smoothed_perplexity(side: Side) -> Order | None:
    """Perplexity with label smoothing beside that without; None: nothing has been validated."""
    sharp, smooth = perplexities(side, "sharp"), perplexities(side, "smooth")
    if not sharp or len(sharp) != len(smooth):  # a seed diverged before it was validated
        return None
    return beside_nothing([after / before - 1 for before, after in zip(sharp, smooth, strict=True)])


def smoothed_accuracy(side: Side) -> Order | None:
    """Share of right tokens with label smoothing beside that without; None: nothing has been validated."""
    sharp, smooth = shares_of_right(side, "sharp"), shares_of_right(side, "smooth")
    if not sharp or len(sharp) != len(smooth):
        return None
    return beside_nothing([after - before for before, after in zip(sharp, smooth, strict=True)])


def beside_nothing(differences: Sequence[float]) -> Order:
    """Differences of two arms with the same seeds beside none."""
    return order(differences, [0.0] * len(differences), SHARE)


def answered(side: Side, arm: str) -> list[tuple[float, float]]:
    """Mean share of right answers up to the longest length trained on and beyond it, for each seed that has both."""
    found = []
    for seed in dict.fromkeys(each.seed for each in side.tests if each.arm == arm):
        tests = [each for each in side.tests if (each.arm, each.seed) == (arm, seed)]
        inside = [each.exact for each in tests if each.length <= side.trained]
        beyond = [each.exact for each in tests if each.length > side.trained]
        if inside and beyond and not any(map(math.isnan, (*inside, *beyond))):
            found.append((fmean(inside), fmean(beyond)))
    return found


def knows(answers: Sequence[tuple[float, float]]) -> bool | None:
    """Whether an arm answers at the lengths trained on, by its `answered`."""
    return above([within for within, _beyond in answers], HOLDS)


def carries_over(answers: Sequence[tuple[float, float]]) -> bool | None:
    """Whether longer texts are answered about as well; None: the seeds do not decide, or it has not learnt the task."""
    return above([beyond / within for within, beyond in answers], HOLDS) if knows(answers) else None
