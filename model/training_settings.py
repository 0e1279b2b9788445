"""How to train, where a run stands, and what one step did."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How to train; the defaults suit some ten thousand sentence pairs."""

    epochs: int = 30
    batch_tokens: int = 2000  # per side, padding included
    rate: float = 1e-3  # the peak
    warmup: int = 800  # steps of linear rise before the cosine falls to 0
    label_smoothing: float = 0.1
    weight_decay: float = 0.05
    clip: float = 1.0  # largest gradient norm
    undo_merges: float = 0.1  # share of merged source tokens cut in two, see data.undo_merges
    average: float = 0.998  # decay of the running average of the weights; that average is what is kept
    seed: int = 1

    def __post_init__(self) -> None:
        for name, low, high in (
            ("epochs", 1, math.inf),
            ("batch_tokens", 1, math.inf),
            ("rate", 0, math.inf),
            ("warmup", 0, math.inf),
            ("label_smoothing", 0, 1),
            ("weight_decay", 0, math.inf),
            ("clip", 0, math.inf),
            ("undo_merges", 0, 1),
            ("average", 0, 1),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise ValueError(f"{name} ({value}) must be between {low} and {high}")


@dataclass(frozen=True)
class StepReport:
    """What one step did. `validation`: nats per target token (with </s>), on the steps that end an epoch."""

    step: int
    epoch: int
    loss: float
    rate: float
    gradient_norm: float
    tokens: int
    seconds: float
    validation: float | None = None


@dataclass
class Progress:
    """Where a run stands: kept in its state file."""

    step: int = 0
    best_validation: float = math.inf
    best_step: int = 0
    validations: list[tuple[int, float]] = field(default_factory=list)


def learning_rate(step: int, total: int, settings: TrainingSettings) -> float:
    """Linear warm-up to the peak rate, then a cosine down to 0. `step` counts from 1."""
    if step <= settings.warmup:
        return settings.rate * step / settings.warmup
    done = (step - settings.warmup) / max(1, total - settings.warmup)
    return settings.rate * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
