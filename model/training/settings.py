"""Settings of a training, the progress of a run, and the report of a step."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from model.message import InputError
from model.network.attention import MultiHeadAttention
from model.network.config import NETWORK_OPTIONS, TransformerConfig
from model.network.layers import EmbeddingSum, FeedForward, Residual
from model.network.transformer import Network
from model.options import option, options_of, present_names

Schedule = Literal["cosine", "inverse-sqrt", "constant"]
Precision = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of a training; the defaults suit some ten thousand sentence pairs.

    Raises:
        ValueError: a setting is out of its range.
    """

    epochs: int = option(30, "Epochs", "how often every example is seen", low=1, high=10_000)
    steps: int | None = option(None, "Steps", "stop after so many steps, instead of epochs", low=1)
    batch_tokens: int = option(2000, "Tokens of a batch", "tokens of a batch on each side, padding included", low=1)
    accumulation: int = option(1, "Batches of a step", "batches whose gradients make one step", low=1)
    rate: float = option(1e-3, "Learning rate", "peak learning rate", low=0)
    warmup: int = option(800, "Warm-up", "steps in which the rate rises to its peak", low=0)
    schedule: Schedule = option("cosine", "Schedule", "how the rate falls after that")
    label_smoothing: float = option(
        0.1, "Label smoothing", "share of the target probability spread over all tokens", low=0, high=1
    )
    weight_decay: float = option(0.05, "Weight decay", "of AdamW", low=0)
    clip: float = option(1.0, "Clip gradients at", "largest gradient norm; inf: no clipping", above=0, high=math.inf)
    bpe_dropout: float = option(
        0.1,
        "Words cut anew",
        "share of merged source tokens cut in two, so that words are seen in several ways",
        low=0,
        high=1,
        fixed=True,
        former="undo_merges",
    )
    average: float = option(
        0.998,
        "Average of weights",
        "decay of the running average of the weights, which is what is kept",
        low=0,
        high=1,
        fixed=True,
    )
    average_last: int = option(
        0,
        "Average of the last",
        "keep the mean of the weights at so many last validations instead; 0: the running average",
        low=0,
        fixed=True,
    )
    validate_every: int | None = option(
        None, "Validate every", "steps between validations, instead of one after each epoch", low=1
    )
    patience: int | None = option(
        None, "Patience", "stop after so many validations without a new best one", low=1, fixed=True
    )
    precision: Precision = option("float32", "Precision", "of the forward and backward pass; weights stay float32")
    compile: bool = option(
        False, "Compile", "compile the network with torch.compile: slow to start, then faster", fixed=True
    )
    seed: int = option(
        1, "Seed", "of the initial weights, the order of the data and dropout", low=-(2**63), high=2**64 - 1
    )

    def __post_init__(self) -> None:
        for name, known in TRAINING_OPTIONS.items():
            known.require(getattr(self, name))


TRAINING_OPTIONS = options_of(TrainingSettings)
OWN = (
    "batch_tokens",
    "accumulation",
    "label_smoothing",
    "weight_decay",
    "clip",
    "bpe_dropout",
    "average",
    "average_last",
)


def settings_of_run(record: Mapping[str, Any], settings: TrainingSettings) -> TrainingSettings:
    """These settings with those of an earlier run in their place that say what is learnt, by its training record: not
    how long and how fast. What a record names wrongly is left out.
    """
    recorded = record.get("settings")
    values = present_names(recorded, TRAINING_OPTIONS) if isinstance(recorded, Mapping) else {}
    for name in OWN:
        value = values.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            try:
                settings = dataclasses.replace(settings, **{name: type(getattr(settings, name))(value)})
            except (ValueError, OverflowError):
                continue
    return settings


@dataclass(frozen=True)
class BatchSizes:
    """Tokens of a batch, padding included. watched: while some steps are taken to be watched, at most `full`. full:
    while a run goes on to its end.

    Raises:
        ValueError: they are out of their range.
    """

    watched: int
    full: int

    def __post_init__(self) -> None:
        if not 1 <= self.watched <= self.full:
            raise InputError(
                "batches to watch ({watched} tokens) must have between 1 and {full} tokens",
                watched=self.watched,
                full=self.full,
            )


@dataclass(frozen=True)
class StepReport:
    """Report of one training step.

    loss: nats per predicted token, with label smoothing. tokens: number of inputs, padding included.
    gradient_norm: before clipping; gradient_norms: of each layer, embedding and output.
    validation: nats per predicted token, None without a validation at this step; accuracy: share of these tokens to
    which the model gives the largest probability; exact: share of texts in which it does so everywhere; smoothed:
    `validation` with the label smoothing that `loss` has, None without any.
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
    smoothed: float | None = None

    @property
    def tokens_per_second(self) -> float:
        """Tokens, padding included, per second of the step."""
        return self.tokens / self.seconds


@dataclass
class Progress:
    """Progress of a run, kept in its state file. Losses are in nats per predicted token.

    validations: step and loss of each. losses: step of each validation, and the mean training loss of the steps since
    the one before. since: number of steps and sum of losses since the last.
    """

    step: int = 0
    best_validation: float = math.inf
    best_step: int = 0
    validations: list[tuple[int, float]] = field(default_factory=list)
    losses: list[tuple[int, float]] = field(default_factory=list)
    since: tuple[int, float] = (0, 0.0)

    def trained(self, step: int, loss: float) -> None:
        """Add the training loss of a step."""
        self.step, self.since = step, (self.since[0] + 1, self.since[1] + loss)

    def note(self, validation: float) -> None:
        """Add the loss of a validation after the latest step."""
        steps, total = self.since
        if steps:
            self.losses.append((self.step, total / steps))
        self.since = (0, 0.0)
        self.validations.append((self.step, validation))
        if validation < self.best_validation:
            self.best_validation, self.best_step = validation, self.step

    @property
    def since_best(self) -> int:
        """Number of validations since the best one."""
        return sum(step > self.best_step for step, _ in self.validations)


DROPOUTS = ("dropout", "attention_dropout", "activation_dropout")  # of TransformerConfig
RUN_OPTIONS = {**TRAINING_OPTIONS, **{name: NETWORK_OPTIONS[name] for name in DROPOUTS}}
CHANGEABLE = tuple(name for name, known in RUN_OPTIONS.items() if not known.fixed)


@dataclass(frozen=True, kw_only=True)
class RunSettings(TrainingSettings):
    """All settings of a run that is watched: those of its training, and the dropout rates of its network."""

    dropout: float
    attention_dropout: float
    activation_dropout: float

    def __post_init__(self) -> None:
        for name, known in RUN_OPTIONS.items():
            known.require(getattr(self, name))

    @classmethod
    def of(cls, settings: TrainingSettings, config: TransformerConfig) -> RunSettings:
        """These settings, with the dropout rates of a config where they have none themselves."""
        return cls(**{name: getattr(config, name) for name in DROPOUTS} | dataclasses.asdict(settings))

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> RunSettings:
        """Settings as JSON has them; older files have the dropout rates apart, and other names."""
        if "rates" in record:
            record = {**record["settings"], **record["rates"]}
        return cls(**present_names(record, TRAINING_OPTIONS))

    def with_changes(self, changes: Mapping[str, Any]) -> RunSettings:
        """Copy with other values.

        Raises:
            ValueError: something cannot be changed in a run, or is out of its range.
        """
        for name in changes:
            if name not in CHANGEABLE:
                raise InputError(
                    "{name} cannot be changed in a run; these can: {value}", name=name, value=", ".join(CHANGEABLE)
                )
        return dataclasses.replace(self, **changes)

    def differences(self, other: RunSettings) -> dict[str, tuple[Any, Any]]:
        """Values that differ, by name: here, and in `other`."""
        here, there = dataclasses.asdict(self), dataclasses.asdict(other)
        return {name: (here[name], there[name]) for name in here if here[name] != there[name]}


def set_dropout(network: Network, settings: RunSettings) -> None:
    """Set a network's dropout rates."""
    network.config = config = dataclasses.replace(
        network.config, **{name: getattr(settings, name) for name in DROPOUTS}
    )
    for module in network.modules():
        if isinstance(module, Residual | EmbeddingSum):
            module.dropout = config.dropout
        elif isinstance(module, MultiHeadAttention):
            module.dropout = config.attention_dropout
        elif isinstance(module, FeedForward):
            module.dropout = config.activation_dropout
