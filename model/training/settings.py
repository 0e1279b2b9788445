"""Settings of a training, the progress of a run, and the report of a step."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from model.message import InputError
from model.network.attention import MultiHeadAttention
from model.network.config import TransformerConfig
from model.network.layers import EmbeddingSum, FeedForward, Residual
from model.network.transformer import Network

Schedule = Literal["cosine", "inverse-sqrt", "constant"]
Precision = Literal["float32", "bfloat16", "float16"]
SETTING_CHOICES: dict[str, tuple[str, ...]] = {"schedule": get_args(Schedule), "precision": get_args(Precision)}


def _setting(default: Any, text: str, low: int | None = None, high: int | float = math.inf) -> Any:
    """A field, its help text, and the range of its numbers, ends included; without `low` it is no number."""
    return field(default=default, metadata={"help": text, "range": (low, high)})


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of a training; the defaults suit some ten thousand sentence pairs.

    Raises:
        ValueError: a setting is out of its range.
    """

    epochs: int = _setting(30, "how often every example is seen", 1, 10_000)
    steps: int | None = _setting(None, "stop after so many steps, instead of epochs", 1)
    batch_tokens: int = _setting(2000, "tokens of a batch on each side, padding included", 1)
    accumulation: int = _setting(1, "batches whose gradients make one step", 1)
    rate: float = _setting(1e-3, "peak learning rate", 0)
    warmup: int = _setting(800, "steps in which the rate rises to its peak", 0)
    schedule: Schedule = _setting("cosine", "how the rate falls after that")  # noqa: RUF009
    label_smoothing: float = _setting(0.1, "share of the target probability spread over all tokens", 0, 1)
    weight_decay: float = _setting(0.05, "of AdamW", 0)
    clip: float = _setting(1.0, "largest gradient norm; inf: no clipping", 0)
    undo_merges: float = _setting(
        0.1, "share of merged source tokens cut in two, so that words are seen in several ways", 0, 1
    )
    average: float = _setting(0.998, "decay of the running average of the weights, which is what is kept", 0, 1)
    average_last: int = _setting(
        0, "keep the mean of the weights at so many last validations instead; 0: the running average", 0
    )
    validate_every: int | None = _setting(None, "steps between validations, instead of one after each epoch", 1)
    patience: int | None = _setting(None, "stop after so many validations without a new best one", 1)
    precision: Precision = _setting("float32", "of the forward and backward pass; weights stay float32")  # noqa: RUF009
    compile: bool = _setting(False, "compile the network with torch.compile: slow to start, then faster")
    seed: int = _setting(1, "of the initial weights, the order of the data and dropout", -(2**63), 2**64 - 1)

    def __post_init__(self) -> None:
        for setting in dataclasses.fields(self):
            name, value = setting.name, getattr(self, setting.name)
            low, high = setting.metadata["range"]
            if low is not None and value is not None and not low <= value <= high:
                raise InputError(
                    "{name} ({value}) must be between {low} and {high}", name=name, value=value, low=low, high=high
                )
        if not self.clip:
            raise InputError(
                "clip ({clip}) must be greater than 0: with 0 nothing is learnt; inf does not clip", clip=self.clip
            )
        for name, options in SETTING_CHOICES.items():
            if getattr(self, name) not in options:
                raise InputError(
                    "{name} ({value!r}) must be one of {options}",
                    name=name,
                    value=getattr(self, name),
                    options=", ".join(options),
                )


OWN = (
    "batch_tokens",
    "accumulation",
    "label_smoothing",
    "weight_decay",
    "clip",
    "undo_merges",
    "average",
    "average_last",
)


def settings_of_run(record: Mapping[str, Any], settings: TrainingSettings) -> TrainingSettings:
    """These settings with those of an earlier run in their place that say what is learnt, by its training record: not
    how long and how fast. What a record names wrongly is left out.
    """
    told = record.get("settings")
    for name in OWN:
        value = told.get(name) if isinstance(told, Mapping) else None
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


RATES = ("dropout", "attention_dropout", "activation_dropout")  # of TransformerConfig
CHANGEABLE = (
    *("epochs", "steps", "batch_tokens", "accumulation", "rate", "warmup", "schedule", "label_smoothing"),
    *("weight_decay", "clip", "validate_every", "precision", "seed"),
)


@dataclass(frozen=True)
class RunSettings:
    """All that can be changed while a run lasts: settings of the training, and dropout rates of the network by name."""

    settings: TrainingSettings
    rates: Mapping[str, float]

    @classmethod
    def of(cls, settings: TrainingSettings, config: TransformerConfig) -> RunSettings:
        """Settings of a run that begins with a network of this config."""
        return cls(settings, {name: getattr(config, name) for name in RATES})

    def with_changes(self, changes: Mapping[str, Any], config: TransformerConfig) -> RunSettings:
        """Copy with other settings or rates. config: of the network, which checks the rates.

        Raises:
            ValueError: something cannot be changed in a run, or is out of its range.
        """
        for name in changes:
            if name not in (*CHANGEABLE, *RATES):
                raise InputError(
                    "{name} cannot be changed in a run; these can: {value}",
                    name=name,
                    value=", ".join((*CHANGEABLE, *RATES)),
                )
        rates = dict(self.rates) | {name: value for name, value in changes.items() if name in RATES}
        dataclasses.replace(config, **rates)  # raises if one is out of its range
        settings = {name: value for name, value in changes.items() if name in CHANGEABLE}
        return RunSettings(dataclasses.replace(self.settings, **settings), rates)

    def value(self, name: str) -> Any:
        """Value of a setting or a rate."""
        return self.rates[name] if name in self.rates else getattr(self.settings, name)

    def differences(self, other: RunSettings) -> dict[str, tuple[Any, Any]]:
        """Values that differ, by name: here, and in `other`."""
        here, there = (dataclasses.asdict(run.settings) | dict(run.rates) for run in (self, other))
        return {name: (here[name], there[name]) for name in here if here[name] != there[name]}


def drop_out(network: Network, rates: Mapping[str, Any]) -> None:
    """Set a network's dropout rates, by the names of its config.

    Raises:
        ValueError: a rate is out of its range.
    """
    network.config = config = dataclasses.replace(network.config, **rates)
    for module in network.modules():
        if isinstance(module, Residual | EmbeddingSum):
            module.dropout = config.dropout
        elif isinstance(module, MultiHeadAttention):
            module.dropout = config.attention_dropout
        elif isinstance(module, FeedForward):
            module.dropout = config.activation_dropout
