"""Averages of the weights over training, and how they are put into a model for a while."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from model.network.transformer import Network
from model.rows import Row

Weights = dict[str, Tensor]


class RunningAverage:
    """An exponential moving average of the weights, taken after every step (Polyak averaging)."""

    def __init__(self, model: Network, decay: float, trained: Row) -> None:
        """trained: the row that the weights of `model` are parts of."""
        self.model, self.decay, self._trained = model, decay, trained
        self._row = Row(trained.parts)
        self._row.whole.copy_(trained.whole)
        names = (name for name, _ in model.named_parameters())
        self.weights: Weights = dict(zip(names, self._row.parts, strict=True))

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        decay = min(self.decay, step / (step + 9))  # a short memory at first
        self._row.whole.lerp_(self._trained.whole, 1 - decay)

    def before_validation(self) -> None:
        """Nothing: every step was counted."""

    def tensors(self) -> Weights:
        """What has to be saved for an exact resume: nothing with a decay of 0, where the average is the weights."""
        return {f"average.{name}": tensor for name, tensor in self.weights.items()} if self.decay else {}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """After the weights themselves."""
        parameters = dict(self.model.named_parameters())
        for name, tensor in self.weights.items():
            tensor.copy_(tensors.get(f"average.{name}", parameters[name].detach()))


class LastAverage:
    """The mean of the weights at the last `count` validations (Vaswani et al., 2017, section 6.1)."""

    def __init__(self, model: Network, count: int) -> None:
        self.model, self.count = model, count
        self.kept: list[Weights] = []

    @property
    def weights(self) -> Weights:
        if not self.kept:
            return {name: tensor.detach() for name, tensor in self.model.named_parameters()}
        return {name: torch.stack([each[name] for each in self.kept]).mean(dim=0) for name in self.kept[0]}

    def after_step(self, step: int) -> None:
        """Nothing: what counts are the weights at the validations."""

    def before_validation(self) -> None:
        now = {name: tensor.detach().clone() for name, tensor in self.model.named_parameters()}
        self.kept = [*self.kept, now][-self.count :]

    def tensors(self) -> Weights:
        """What has to be saved for an exact resume."""
        kept = enumerate(self.kept)
        return {f"average.{index}.{name}": tensor for index, each in kept for name, tensor in each.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        device = next(self.model.parameters()).device
        kept: dict[str, Weights] = {}
        for name, tensor in tensors.items():
            if name.startswith("average."):
                _, index, path = name.split(".", 2)
                kept.setdefault(index, {})[path] = tensor.to(device)
        self.kept = [kept[index] for index in sorted(kept, key=int)]


Averager = RunningAverage | LastAverage


class AveragedWeights:
    """Swaps averaged weights into a model on entry and the trained ones back on exit."""

    def __init__(self, model: Network, average: Weights) -> None:
        self.model, self.average = model, average

    def __enter__(self) -> Network:
        self.was_training = self.model.training
        self.trained = {name: tensor.detach().clone() for name, tensor in self.model.named_parameters()}
        self._load(self.average)
        return self.model.eval()

    def __exit__(self, *error: object) -> None:
        self._load(self.trained)
        self.model.train(self.was_training)

    @torch.no_grad()
    def _load(self, weights: Weights) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.copy_(weights[name])
