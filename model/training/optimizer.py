"""AdamW for weights that stand in a row, and averages of the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from model.network.transformer import Network
from model.training.flat_parameters import FlatParameters
from model.training.gradients import Gradients

MOMENTS = ("exp_avg", "exp_avg_sq")


class FlatAdamW(torch.optim.AdamW):
    """torch's fused AdamW (Loshchilov and Hutter, 2019) on weights that stand in a row: to it the row is one weight.

    All weights have made the same number of steps, and one without a gradient is treated as if it were 0.
    """

    def __init__(self, gradients: Gradients, rate: float, **options: Any) -> None:
        self._gradients, self._row = gradients, nn.Parameter(gradients.weights.whole)
        self._row.grad = gradients.row.whole
        super().__init__([self._row], lr=rate, fused=True, **options)

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        super().step()
        torch.autograd.graph.increment_version(self._gradients.parameters)  # torch counts what it writes to the row

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Zeros in either case: the gradients stay in their row."""
        self._gradients.clear()

    def moments(self) -> dict[int, dict[str, Tensor]]:
        """By the number of each weight its "step", "exp_avg" and "exp_avg_sq", as torch has them where the weights are
        apart: the moments themselves. None before the first step.
        """
        if not self.state:
            return {}
        row = self.state[self._row]
        steps = row["step"].repeat(len(self._gradients.parameters)).unbind()
        first, second = (self._parts(row[name]) for name in MOMENTS)
        return {
            index: {"step": step, "exp_avg": mean, "exp_avg_sq": square}
            for index, (step, mean, square) in enumerate(zip(steps, first, second, strict=True))
        }

    @torch.no_grad()
    def load_moments(self, moments: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Go on with what `moments` gave, of which copies are kept; a weight that is missing begins with zeros."""
        self.state.clear()
        if not moments:
            return
        step = max(float(each["step"]) for each in moments.values())
        row = {"step": self._row.new_tensor(step, dtype=torch.float32)}
        for name in MOMENTS:
            row[name] = torch.zeros_like(self._row)
            parts = self._parts(row[name])
            for index, each in moments.items():
                parts[index].copy_(each[name])
        self.state[self._row] = row

    def _parts(self, row: Tensor) -> list[Tensor]:
        """What of a row like that of the weights belongs to each of them."""
        return [part[0] for part in self._gradients.row.parts_of(row[None])]


# Averages of the weights over training, and how they are put into a model for a while.

Weights = dict[str, Tensor]


class RunningAverage:
    """An exponential moving average of the weights, taken after every step (Polyak averaging)."""

    def __init__(self, network: Network, decay: float, trained: FlatParameters) -> None:
        """trained: the row that the weights of `model` are parts of."""
        self.network, self.decay, self._trained = network, decay, trained
        self._row = FlatParameters(trained.parts)
        self._row.whole.copy_(trained.whole)
        names = (name for name, _ in network.named_parameters())
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
        parameters = dict(self.network.named_parameters())
        for name, tensor in self.weights.items():
            tensor.copy_(tensors.get(f"average.{name}", parameters[name].detach()))


class LastAverage:
    """The mean of the weights at the last `count` validations (Vaswani et al., 2017, section 6.1)."""

    def __init__(self, network: Network, count: int) -> None:
        self.network, self.count = network, count
        self.kept: list[Weights] = []

    @property
    def weights(self) -> Weights:
        if not self.kept:
            return {name: tensor.detach() for name, tensor in self.network.named_parameters()}
        return {name: torch.stack([each[name] for each in self.kept]).mean(dim=0) for name in self.kept[0]}

    def after_step(self, step: int) -> None:
        """Nothing: what counts are the weights at the validations."""

    def before_validation(self) -> None:
        now = {name: tensor.detach().clone() for name, tensor in self.network.named_parameters()}
        self.kept = [*self.kept, now][-self.count :]

    def tensors(self) -> Weights:
        """What has to be saved for an exact resume."""
        kept = enumerate(self.kept)
        return {f"average.{index}.{name}": tensor for index, each in kept for name, tensor in each.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        device = next(self.network.parameters()).device
        kept: dict[str, Weights] = {}
        for name, tensor in tensors.items():
            if name.startswith("average."):
                _, index, path = name.split(".", 2)
                kept.setdefault(index, {})[path] = tensor.to(device)
        self.kept = [kept[index] for index in sorted(kept, key=int)]


Averager = RunningAverage | LastAverage


@contextmanager
def averaged_weights(network: Network, average: Weights) -> Iterator[Network]:
    """A block in which the network holds averaged weights and evaluates; after it, it is as it was before."""
    was_training = network.training
    trained = {name: tensor.detach().clone() for name, tensor in network.named_parameters()}
    _load(network, average)
    try:
        yield network.eval()
    finally:
        _load(network, trained)
        network.train(was_training)


@torch.no_grad()
def _load(network: Network, weights: Weights) -> None:
    for name, parameter in network.named_parameters():
        parameter.copy_(weights[name])
