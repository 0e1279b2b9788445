"""AdamW for weights that stand in a row: one call of one kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from model.network.transformer import Network
from model.training.flat_parameters import FlatParameters
from model.training.gradients import Gradients

MOMENTS = ("exp_avg", "exp_avg_sq")


class FusedAdamW(torch.optim.AdamW):
    """torch's fused AdamW (Loshchilov and Hutter, 2019): the same numbers, the same state.

    All weights have made the same number of steps, and one without a gradient is treated as if it were 0.
    """

    def __init__(self, gradients: Gradients, rate: float, **options: Any) -> None:
        super().__init__(gradients.parameters, lr=rate, fused=True, **options)
        self._gradients = gradients
        self._moments: dict[str, FlatParameters] = {}  # made by the first step
        self._steps = torch.zeros(len(gradients.parameters), dtype=torch.float32, device=gradients.row.whole.device)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        (group,) = self.param_groups
        if not self.state:
            self._begin()
        found_inf = getattr(self, "found_inf", None)  # a GradScaler's: whether to leave the step out
        self._steps += 1
        first, second = (row.whole for row in self._moments.values())
        torch._fused_adamw_(
            [self._gradients.weights.whole],
            [self._gradients.row.whole],
            [first],
            [second],
            [],
            [self._steps[0]],
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
            grad_scale=getattr(self, "grad_scale", None),
            found_inf=found_inf,
        )
        torch.autograd.graph.increment_version(self._gradients.parameters)  # the kernel does not count what it writes
        if found_inf is not None:
            self._steps -= found_inf

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Zeros in either case: the gradients stay in their row."""
        self._gradients.clear()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        loaded = [self.state.get(each) for each in self._gradients.parameters]
        self.state.clear()
        if any(loaded):
            self._begin()
            for parameter, given in zip(self._gradients.parameters, loaded, strict=True):
                for name, tensor in (given or {}).items():
                    self.state[parameter][name].copy_(tensor)
            self._steps.fill_(self._steps.max())  # a file may lack the state of a weight

    @torch.no_grad()
    def _begin(self) -> None:
        """The state of before the first step, in torch's form."""
        self._steps = torch.zeros_like(self._steps)  # the ones before may be those that are loaded
        self._moments = {name: FlatParameters(self._gradients.parameters) for name in MOMENTS}
        columns = {"step": self._steps.unbind()} | {name: row.parts for name, row in self._moments.items()}
        for index, parameter in enumerate(self._gradients.parameters):
            self.state[parameter] = {name: column[index] for name, column in columns.items()}


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


class AveragedWeights:
    """Swaps averaged weights into a model on entry and the trained ones back on exit."""

    def __init__(self, network: Network, average: Weights) -> None:
        self.network, self.average = network, average

    def __enter__(self) -> Network:
        self.was_training = self.network.training
        self.trained = {name: tensor.detach().clone() for name, tensor in self.network.named_parameters()}
        self._load(self.average)
        return self.network.eval()

    def __exit__(self, *error: object) -> None:
        self._load(self.trained)
        self.network.train(self.was_training)

    @torch.no_grad()
    def _load(self, weights: Weights) -> None:
        for name, parameter in self.network.named_parameters():
            parameter.copy_(weights[name])
