"""AdamW in one kernel, for networks whose tensors are so small that finding them takes as long as the arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn


class FusedAdamW(torch.optim.AdamW):
    """torch's fused AdamW (Loshchilov and Hutter, 2019): the same numbers, the same state.

    A step hands the tensors straight to torch's kernel, where torch's own first sorts them by device and type and takes
    the options apart. Only float16's scaled gradients, and tensors of several kinds, go that way.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], rate: float, **options: Any) -> None:
        super().__init__(parameters, lr=rate, fused=True, **options)
        self._alike = len({(each.device, each.dtype) for each in parameters}) == 1

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        (group,) = self.param_groups
        given = [each for each in group["params"] if each.grad is not None]
        states = [self.state[each] for each in given]
        scaled = hasattr(self, "found_inf")  # by a GradScaler, which may want the step left out
        torch.autograd.graph.increment_version(given)  # the kernel does not count what it writes
        if closure or scaled or not self._alike or not all(states):  # a first step makes the states
            return super().step(closure)
        counts = [state["step"] for state in states]
        torch._foreach_add_(counts, 1)
        torch._fused_adamw_(
            given,
            [each.grad for each in given],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            counts,
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )
        return None
