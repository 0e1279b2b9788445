"""Verdicts on trainings side by side: what their numbers say of the arms, with every seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from model.experiments.side_by_side import (
    Side,
    clearly_below,
    ends,
    growths,
    learnt,
    perplexities,
    share_of_fall,
    shares_of_right,
)

HOLDS = 0.5  # of the answers at the lengths trained on: with fewer right of longer texts, codes do not carry over
FACTOR = 2.0  # between gradients: less is about the same
ALMOST_NOTHING = 0.25  # of the fall of the loss that residuals give
AS_MUCH = 0.9  # of it, and more
SHARE = 0.01  # of tokens predicted rightly, or of a perplexity: less is no difference

Order = Literal["lower", "higher", "same"]
WithoutResiduals = Literal["unlearnt", "almost nothing", "clearly less", "clearly more", "less", "as much"]


def order(these: Sequence[float], those: Sequence[float]) -> Order:
    """Whether these losses are clearly lower than those, clearly higher, or neither."""
    if clearly_below(these, those):
        return "lower"
    return "higher" if clearly_below(those, these) else "same"


def losses_of(side: Side, one: str, other: str) -> Order:
    """Final loss of one arm beside that of the other."""
    return order(ends(side.of(one)), ends(side.of(other)))


def slopes_of(side: Side, one: str, other: str) -> Order | None:
    """Gradient of the first layer over that of the last one, of one arm beside the other: "lower" where all seeds have
    it `FACTOR` times smaller. None: there is one layer, or a gradient is 0.
    """
    first, second = growths(side, one), growths(side, other)
    if not first or not second:
        return None
    if FACTOR * max(first) < min(second):
        return "lower"
    return "higher" if FACTOR * max(second) < min(first) else "same"


def helped(side: Side, arm: str) -> bool:
    """Whether warm-up makes the loss of an arm clearly lower."""
    return losses_of(side, arm, f"{arm} cold") == "lower"


def without_residuals(side: Side) -> WithoutResiduals:
    """What is learnt without residuals, by the fall of the loss with them."""
    if not learnt(side, "on"):
        return "unlearnt"
    share, found = share_of_fall(side, "off", "on"), losses_of(side, "off", "on")
    if share < ALMOST_NOTHING:
        return "almost nothing"
    if found != "same":
        return "clearly less" if found == "higher" else "clearly more"
    return "less" if share < AS_MUCH else "as much"


def smoothed_perplexity(side: Side) -> Order | None:
    """Perplexity with label smoothing beside that without; None: nothing has been validated."""
    sharp, smooth = perplexities(side, "sharp"), perplexities(side, "smooth")
    if len(sharp) != len(smooth):  # a seed diverged before it was validated
        return None
    return agreed([after / before - 1 for before, after in zip(sharp, smooth, strict=True)])


def smoothed_accuracy(side: Side) -> Order | None:
    """Share of right tokens with label smoothing beside that without; None: nothing has been validated."""
    sharp, smooth = shares_of_right(side, "sharp"), shares_of_right(side, "smooth")
    if len(sharp) != len(smooth):
        return None
    return agreed([after - before for before, after in zip(sharp, smooth, strict=True)])


def agreed(differences: Sequence[float]) -> Order | None:
    """Sign of the mean difference, where it is above `SHARE` and every seed has the same sign; None without any."""
    if not differences:
        return None
    if abs(fmean(differences)) <= SHARE or min(differences) <= 0 <= max(differences):
        return "same"
    return "higher" if differences[0] > 0 else "lower"


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


def carries_over(within: float, beyond: float) -> bool | None:
    """Whether longer texts are answered about as well; None: not even those of the trained lengths are."""
    return beyond >= HOLDS * within if within >= HOLDS else None
