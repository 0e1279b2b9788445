"""AdamW for weights that stand in a row, and averages of the weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from model.network.transformer import Network
from model.training.flat_parameters import FlatParameters
from model.training.gradients import Gradients

MOMENTS = ("exp_avg", "exp_avg_sq")


class FlatAdamW:
    """torch's fused AdamW (Loshchilov and Hutter, 2019) on weights in a row, which it takes for one weight.

    All weights have made the same number of steps, and a weight without a gradient has the gradient 0. The kernel is
    called without an optimizer of torch around it: the first one in a process imports torch's compiler, which takes
    seconds and 70 MB.
    """

    def __init__(
        self,
        gradients: Gradients,
        rate: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        self._gradients, self._row = gradients, nn.Parameter(gradients.weights.whole)
        self._row.grad = gradients.row.whole
        options = {"lr": rate, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        self.param_groups: list[dict[str, Any]] = [{"params": [self._row], **options}]
        self.state: defaultdict[Tensor, dict[str, Tensor]] = defaultdict(dict)

    @torch.no_grad()
    def step(self) -> None:
        """Update all weights from their gradients."""
        (group,), weights = self.param_groups, self._row
        state = self.state[weights]
        if not state:
            state["step"] = weights.new_zeros((), dtype=torch.float32)
            state |= {name: torch.zeros_like(weights, requires_grad=False) for name in MOMENTS}
        state["step"] += 1
        torch._fused_adamw_(
            [weights],
            [self._gradients.row.whole],
            [state["exp_avg"]],
            [state["exp_avg_sq"]],
            [],
            [state["step"]],
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )
        torch.autograd.graph.increment_version(self._gradients.parameters)  # torch counts changes of the row only

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients to zero in either case: they stay in their row."""
        self._gradients.clear()

    def moments(self) -> dict[int, dict[str, Tensor]]:
        """Moments by the index of a parameter, as in torch's AdamW: "step" (), "exp_avg" and "exp_avg_sq" in the
        parameter's shape. They are views; empty before the first step.
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
        """Go on with copies of moments in the form of `moments`; those of a weight that is missing become zeros."""
        self.state.clear()
        if not moments:
            return
        step = max(float(weight["step"]) for weight in moments.values())
        row = {"step": self._row.new_tensor(step, dtype=torch.float32)}
        for name in MOMENTS:
            row[name] = torch.zeros_like(self._row)
            parts = self._parts(row[name])
            for index, weight in moments.items():
                parts[index].copy_(weight[name])
        self.state[self._row] = row

    def _parts(self, row: Tensor) -> list[Tensor]:
        """Views of a row like that of the weights, one in the shape of each weight."""
        return [part[0] for part in self._gradients.row.parts_of(row[None])]


# Averages of the weights over training, and a block in which a network has them.

Weights = dict[str, Tensor]


class RunningAverage:
    """Exponential moving average of the weights, updated after every step (Polyak averaging)."""

    def __init__(self, network: Network, decay: float, trained: FlatParameters) -> None:
        """trained: the row of which the weights of `network` are parts."""
        self.network, self.decay, self._trained = network, decay, trained
        self._row = FlatParameters(trained.parts)
        self._row.whole.copy_(trained.whole)
        names = (name for name, _ in network.named_parameters())
        self.weights: Weights = dict(zip(names, self._row.parts, strict=True))

    @torch.no_grad()
    def after_step(self, step: int) -> None:
        """Take the weights after step number `step` into the average."""
        decay = min(self.decay, step / (step + 9))  # a short memory at first
        self._row.whole.lerp_(self._trained.whole, 1 - decay)

    def before_validation(self) -> None:
        """Do nothing: every step was counted."""

    def tensors(self) -> Weights:
        """State for an exact resume, by "average." and the name of each weight; empty with a decay of 0."""
        return {f"average.{name}": tensor for name, tensor in self.weights.items()} if self.decay else {}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on with a state of `tensors`, or with the network's weights, loaded before, where it lacks them."""
        parameters = dict(self.network.named_parameters())
        for name, tensor in self.weights.items():
            tensor.copy_(tensors.get(f"average.{name}", parameters[name].detach()))


class LastAverage:
    """Mean of the weights at the last `count` validations (Vaswani et al., 2017, section 6.1)."""

    def __init__(self, network: Network, count: int) -> None:
        self.network, self.count = network, count
        self.snapshots: list[Weights] = []

    @property
    def weights(self) -> Weights:
        """Mean by name; the weights themselves before the first validation."""
        if not self.snapshots:
            return {name: tensor.detach() for name, tensor in self.network.named_parameters()}
        return {
            name: torch.stack([weights[name] for weights in self.snapshots]).mean(dim=0) for name in self.snapshots[0]
        }

    def after_step(self, step: int) -> None:
        """Do nothing: only the weights at validations count."""

    def before_validation(self) -> None:
        """Take the weights as they are now into the mean."""
        now = {name: tensor.detach().clone() for name, tensor in self.network.named_parameters()}
        self.snapshots = [*self.snapshots, now][-self.count :]

    def tensors(self) -> Weights:
        """State for an exact resume, by "average.", the number of the validation and the name of each weight."""
        snapshots = enumerate(self.snapshots)
        return {f"average.{index}.{name}": tensor for index, weights in snapshots for name, tensor in weights.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on with a state of `tensors`."""
        device = next(self.network.parameters()).device
        by_index: dict[str, Weights] = {}
        for name, tensor in tensors.items():
            if name.startswith("average."):
                _, index, path = name.split(".", 2)
                by_index.setdefault(index, {})[path] = tensor.to(device)
        self.snapshots = [by_index[index] for index in sorted(by_index, key=int)]


Averager = RunningAverage | LastAverage


@contextmanager
def averaged_weights(network: Network, average: Weights) -> Iterator[Network]:
    """Context in which a network has averaged weights and evaluates; afterwards it is as before."""
    was_training = network.training
    trained = {name: tensor.detach().clone() for name, tensor in network.named_parameters()}
    load_weights(network, average)
    try:
        yield network.eval()
    finally:
        load_weights(network, trained)
        network.train(was_training)


@torch.no_grad()
def load_weights(network: Network, tensors: Mapping[str, Tensor], prefix: str = "") -> None:
    """Copy weights into a network. tensors: in the shape of each weight, by `prefix` and its name."""
    for name, parameter in network.named_parameters():
        parameter.copy_(tensors[prefix + name])
