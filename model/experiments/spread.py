"""Numbers of several seeds: what is clear beside their spread, and what they leave open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Literal

from model.experiments.experiment import SEEDS, say
from model.message import Message

SPREADS = 2.0  # times the spread of the seeds: a distance below it may be chance

Order = Literal["lower", "higher", "alike", "open"]


def few(seeds: int) -> list[Message]:
    """That nothing is clear with so few seeds; nothing with enough."""
    if seeds >= SEEDS:
        return []
    return [say("with fewer than {count} seeds nothing is called clear: their spread is not known", count=SEEDS)]


def spread(values: Sequence[float]) -> float:
    """Standard deviation over the seeds; 0 where all are equal, infinite ones too, infinite where only some are."""
    if len(set(values)) == 1:
        return 0.0
    return stdev(values) if all(map(math.isfinite, values)) else math.inf


def order(these: Sequence[float], those: Sequence[float], least: float = 0.0) -> Order:
    """Numbers beside others, a number for each seed.

    "lower" or "higher": their means differ by more than `least` and by more than `SPREADS` times the spread of the
    difference, √(s₁² + s₂²). "alike": they do not differ by more than `least`, wherever in that range they are. "open":
    neither can be said, or there are fewer than `SEEDS` seeds.
    """
    if min(len(these), len(those)) < SEEDS:
        return "open"
    noise = SPREADS * math.hypot(spread(these), spread(those))
    first, second = fmean(these), fmean(those)
    gap = 0.0 if first == second else second - first
    if math.isnan(gap) or math.isinf(noise):
        return "open"
    if abs(gap) > max(noise, least):
        return "lower" if gap > 0 else "higher"
    return "alike" if abs(gap) + noise <= least else "open"


def above(values: Sequence[float], limit: float) -> bool | None:
    """Whether a number lies above a limit by more than `SPREADS` times its spread over the seeds, or False: below it by
    as much; None: neither can be said, or there are fewer than `SEEDS` seeds.
    """
    if len(values) < SEEDS or not all(map(math.isfinite, values)):
        return None
    noise, mean = SPREADS * spread(values), fmean(values)
    return True if mean - noise > limit else False if mean + noise < limit else None
