"""What may change while a run lasts: settings of the training, and how much the network drops out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.network.attention import MultiHeadAttention
from model.network.config import TransformerConfig
from model.network.layers import EmbeddingSum, FeedForward, Residual
from model.network.transformer import Network
from model.training_settings import TrainingSettings

RATES = ("dropout", "attention_dropout", "activation_dropout")  # of TransformerConfig
CHANGEABLE = (
    *("epochs", "steps", "batch_tokens", "accumulation", "rate", "warmup", "schedule", "label_smoothing"),
    *("weight_decay", "clip", "validate_every", "precision", "seed"),
)


@dataclass(frozen=True)
class Choices:
    """settings: of the training. rates: the network's dropouts by name."""

    settings: TrainingSettings
    rates: Mapping[str, float]

    @classmethod
    def of(cls, settings: TrainingSettings, config: TransformerConfig) -> Choices:
        return cls(settings, {name: getattr(config, name) for name in RATES})

    def with_changes(self, changes: Mapping[str, Any], config: TransformerConfig) -> Choices:
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
        return Choices(dataclasses.replace(self.settings, **settings), rates)

    def value(self, name: str) -> Any:
        """Of a setting or a rate."""
        return self.rates[name] if name in self.rates else getattr(self.settings, name)

    def differences(self, other: Choices) -> dict[str, tuple[Any, Any]]:
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
