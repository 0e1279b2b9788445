"""AdamW for weights that stand in a row: one call of one kernel."""

from __future__ import annotations

from typing import Any

import torch

from model.gradients import Gradients
from model.rows import Row

MOMENTS = ("exp_avg", "exp_avg_sq")


class FusedAdamW(torch.optim.AdamW):
    """torch's fused AdamW (Loshchilov and Hutter, 2019): the same numbers, the same state.

    All weights have made the same number of steps, and one without a gradient is treated as if it were 0.
    """

    def __init__(self, gradients: Gradients, rate: float, **options: Any) -> None:
        super().__init__(gradients.parameters, lr=rate, fused=True, **options)
        self._gradients = gradients
        self._moments: dict[str, Row] = {}  # made by the first step
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
        self._moments = {name: Row(self._gradients.parameters) for name in MOMENTS}
        columns = {"step": self._steps.unbind()} | {name: row.parts for name, row in self._moments.items()}
        for index, parameter in enumerate(self._gradients.parameters):
            self.state[parameter] = {name: column[index] for name, column in columns.items()}
