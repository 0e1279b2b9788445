"""Gated recurrent unit: a state that each input changes in part (Cho et al., 2014, section 2.3)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn


class GRUCell(nn.Module):
    """One step: r = σ(W_r x + U_r h), z = σ(W_z x + U_z h), h′ = (1 − z) tanh(W x + r ⊙ (U h)) + z h, with biases.

    r resets what the new value reads of the old state, z keeps a part of it. As in `torch.nn.GRU`, r is applied behind
    U, where the paper has U (r ⊙ h). Both matrices hold the rows of r, of z and of the new value, in this order.
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.input = nn.Linear(inputs, 3 * width)
        self.state = nn.Linear(width, 3 * width)

    def forward(
        self, projected: Float[Tensor, "batch gates"], state: Float[Tensor, "batch width"]
    ) -> Float[Tensor, "batch width"]:
        """Next state. projected: `input` of x, which can be computed for all positions at once."""
        gates, new = projected.split([2 * self.width, self.width], dim=-1)
        gates_of_state, new_of_state = self.state(state).split([2 * self.width, self.width], dim=-1)
        reset, keep = (gates + gates_of_state).sigmoid().chunk(2, dim=-1)
        new = (new + reset * new_of_state).tanh()
        return (1 - keep) * new + keep * state


class GRU(nn.Module):
    """Recurrent layer: the cell at one position after the other."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.cell = GRUCell(inputs, width)

    def steps(
        self, x: Float[Tensor, "batch length inputs"], state: Float[Tensor, "batch width"] | None = None
    ) -> Iterator[Float[Tensor, "batch width"]]:
        """State after each position; each waits for the one before. state: before the first; None: zeros."""
        state = x.new_zeros(len(x), self.cell.width) if state is None else state
        for projected in self.cell.input(x).unbind(dim=1):
            state = self.cell(projected, state)
            yield state

    def forward(
        self, x: Float[Tensor, "batch length inputs"], state: Float[Tensor, "batch width"] | None = None
    ) -> Float[Tensor, "batch length width"]:
        return torch.stack(list(self.steps(x, state)), dim=1)
