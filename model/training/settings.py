"""How to train, where a run stands, and what one step did."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from model.network.attention import MultiHeadAttention
from model.network.config import TransformerConfig
from model.network.layers import EmbeddingSum, FeedForward, Residual
from model.network.transformer import Network

Schedule = Literal["cosine", "inverse-sqrt", "constant"]
Precision = Literal["float32", "bfloat16", "float16"]
SETTING_CHOICES: dict[str, tuple[str, ...]] = {"schedule": get_args(Schedule), "precision": get_args(Precision)}


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How to train; the defaults suit some ten thousand sentence pairs."""

    epochs: int = 30
    steps: int | None = None  # instead of so many epochs; None: as the epochs say
    batch_tokens: int = 2000  # per side, padding included
    accumulation: int = 1  # batches whose gradients make one step
    rate: float = 1e-3  # the peak
    warmup: int = 800  # steps of linear rise before the rate falls
    schedule: Schedule = "cosine"
    label_smoothing: float = 0.1
    weight_decay: float = 0.05
    clip: float = 1.0  # largest gradient norm; inf: no clipping
    undo_merges: float = 0.1  # share of merged source tokens cut in two, see data.undo_merges
    average: float = 0.998  # decay of the running average of the weights; that average is what is kept
    average_last: int = 0  # instead: the mean of the weights at the last so many validations
    validate_every: int | None = None  # steps; None: at the end of each epoch; after the last step anyway
    patience: int | None = None  # validations without a new best one before training stops; None: never
    precision: Precision = "float32"
    compile: bool = False
    seed: int = 1

    def __post_init__(self) -> None:
        for name, low, high in (
            ("epochs", 1, 10_000),
            ("steps", 1, math.inf),
            ("batch_tokens", 1, math.inf),
            ("accumulation", 1, math.inf),
            ("rate", 0, math.inf),
            ("warmup", 0, math.inf),
            ("label_smoothing", 0, 1),
            ("weight_decay", 0, math.inf),
            ("clip", 0, math.inf),
            ("undo_merges", 0, 1),
            ("average", 0, 1),
            ("average_last", 0, math.inf),
            ("validate_every", 1, math.inf),
            ("patience", 1, math.inf),
            ("seed", -(2**63), 2**64 - 1),  # what torch.manual_seed takes
        ):
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise ValueError(f"{name} ({value}) must be between {low} and {high}")
        if not self.clip:
            raise ValueError(f"clip ({self.clip}) must be greater than 0: with 0 nothing is learnt; inf does not clip")
        for name, options in SETTING_CHOICES.items():
            if getattr(self, name) not in options:
                raise ValueError(f"{name} ({getattr(self, name)!r}) must be one of {', '.join(options)}")


@dataclass(frozen=True)
class StepReport:
    """What one step did.

    loss: nats per predicted token, with label smoothing. tokens: computed, padding included.
    gradient_norm: before clipping; gradient_norms: the same for each layer, embedding and output.
    validation: nats per predicted token, on the steps that validate; accuracy: the share of these tokens that the model
    holds for the most probable; exact: of texts, in which it does so everywhere.
    """

    step: int
    epoch: int
    loss: float
    rate: float
    gradient_norm: float
    gradient_norms: dict[str, float]
    parameter_norm: float
    tokens: int
    seconds: float
    validation: float | None = None
    accuracy: float | None = None
    exact: float | None = None

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


@dataclass
class Progress:
    """Where a run stands: kept in its state file."""

    step: int = 0
    best_validation: float = math.inf
    best_step: int = 0
    validations: list[tuple[int, float]] = field(default_factory=list)

    def note(self, validation: float) -> None:
        self.validations.append((self.step, validation))
        if validation < self.best_validation:
            self.best_validation, self.best_step = validation, self.step

    @property
    def since_best(self) -> int:
        """Validations since the best one."""
        return sum(step > self.best_step for step, _ in self.validations)


RATES = ("dropout", "attention_dropout", "activation_dropout")  # of TransformerConfig
CHANGEABLE = (
    *("epochs", "steps", "batch_tokens", "accumulation", "rate", "warmup", "schedule", "label_smoothing"),
    *("weight_decay", "clip", "validate_every", "precision", "seed"),
)


@dataclass(frozen=True)
class RunSettings:
    """settings: of the training. rates: the network's dropouts by name."""

    settings: TrainingSettings
    rates: Mapping[str, float]

    @classmethod
    def of(cls, settings: TrainingSettings, config: TransformerConfig) -> RunSettings:
        return cls(settings, {name: getattr(config, name) for name in RATES})

    def with_changes(self, changes: Mapping[str, Any], config: TransformerConfig) -> RunSettings:
        """The same with other settings or rates; config: of the network that drops out.

        Raises:
            ValueError: something cannot be changed in a run, or is out of its range.
        """
        for name in changes:
            if name not in (*CHANGEABLE, *RATES):
                raise ValueError(f"{name} cannot be changed in a run; these can: {', '.join((*CHANGEABLE, *RATES))}")
        rates = dict(self.rates) | {name: value for name, value in changes.items() if name in RATES}
        with_rates(config, rates)  # raises if one is out of its range
        settings = {name: value for name, value in changes.items() if name in CHANGEABLE}
        return RunSettings(dataclasses.replace(self.settings, **settings), rates)

    def value(self, name: str) -> Any:
        """Of a setting or a rate."""
        return self.rates[name] if name in self.rates else getattr(self.settings, name)

    def differences(self, other: RunSettings) -> dict[str, tuple[Any, Any]]:
        """What differs, by name: here, then there."""
        mine, others = (dataclasses.asdict(each.settings) | dict(each.rates) for each in (self, other))
        return {name: (mine[name], others[name]) for name in mine if mine[name] != others[name]}


def with_rates(config: TransformerConfig, rates: Mapping[str, Any]) -> TransformerConfig:
    """The same network with other dropouts.

    Raises:
        ValueError: one is out of its range.
    """
    return dataclasses.replace(config, **rates)


def drop_out(network: Network, rates: Mapping[str, float]) -> None:
    """From now on, let a network drop out at these rates."""
    network.config = config = with_rates(network.config, rates)
    for module in network.modules():
        if isinstance(module, Residual | EmbeddingSum):
            module.dropout = config.dropout
        elif isinstance(module, MultiHeadAttention):
            module.dropout = config.attention_dropout
        elif isinstance(module, FeedForward):
            module.dropout = config.activation_dropout
