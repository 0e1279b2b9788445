"""Learning rate at each step: warm-up, then a schedule."""

from __future__ import annotations

import math
from collections.abc import Callable

from model.training.settings import TrainingSettings


def learning_rate(step: int, total: int, settings: TrainingSettings) -> float:
    """Learning rate at a step, counted from 1: linear warm-up to the peak rate, then the settings' schedule."""
    if step <= settings.warmup:
        return settings.rate * step / settings.warmup
    return settings.rate * SCHEDULES[settings.schedule](step, total, settings.warmup)


def _cosine(step: int, total: int, warmup: int) -> float:
    """Half a cosine from 1 to 0 at the last step (Loshchilov and Hutter, 2017, equation 5)."""
    done = (step - warmup) / max(1, total - warmup)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def _inverse_square_root(step: int, total: int, warmup: int) -> float:
    """√(warmup / step): the paper's schedule (section 5.3, equation 3) with its peak as the rate."""
    return math.sqrt(max(1, warmup) / step)


def _constant(step: int, total: int, warmup: int) -> float:
    return 1.0


SCHEDULES: dict[str, Callable[[int, int, int], float]] = {
    "cosine": _cosine,
    "inverse-sqrt": _inverse_square_root,
    "constant": _constant,
}
