"""Numbers that trainings side by side are judged by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from model.experiments.courses import Course, Side

CLEAR = 0.9  # a loss below this times another is clearly lower, if that holds with every seed
UNLEARNT = 0.9  # of the loss of frequencies alone: what stays above has learnt next to nothing


def ends(courses: Sequence[Course]) -> list[float]:
    """Their losses at the end; without bound where one diverged."""
    return [math.inf if math.isnan(course.final) else course.final for course in courses]


def clearly_below(these: Sequence[float], those: Sequence[float]) -> bool:
    return max(these) < min(those) and fmean(these) < CLEAR * fmean(those)


def growth(side: Side, arm: str, gradients: str = "first") -> float:
    """By how much a gradient at the input end of the last stack exceeds that at its output end, over all seeds."""
    ratios = []
    for course in side.of(arm):
        norms = last_stack(getattr(course, gradients))
        if len(norms) > 1 and norms[-1] > 0:
            ratios.append(norms[0] / norms[-1])
    return fmean(ratios) if ratios else math.nan


def last_stack(norms: Mapping[str, float]) -> list[float]:
    """The gradient norms of the layers next to the output, from the input on."""
    stack = "decoder" if any(name.startswith("decoder.layers.") for name in norms) else "encoder"
    return [norm for name, norm in norms.items() if name.startswith(f"{stack}.layers.")]


def learnt(side: Side, arm: str) -> bool:
    """More than how frequent each token is; not where a seed diverged."""
    return fmean(ends(side.of(arm))) < UNLEARNT * side.chance


def share_of_fall(side: Side, arm: str, other: str) -> float:
    """How far the loss has fallen below that of frequencies alone, as a share of how far the other arm's has."""
    fallen, whole = (side.chance - fmean(ends(side.of(each))) for each in (arm, other))
    return max(0.0, fallen / whole)


def perplexity(side: Side, arm: str) -> float:
    """exp of the newest loss without smoothing on what was kept for validation, over all seeds."""
    losses = [each.validations[-1][1] for each in side.of(arm) if each.validations]
    return math.exp(min(fmean(losses), 700)) if losses else math.nan


def rightly(side: Side, arm: str) -> float:
    """The share of tokens kept for validation that are predicted rightly, over all seeds."""
    shares = [each.validations[-1][2] for each in side.of(arm) if each.validations]
    return fmean(shares) if shares else math.nan
