"""The GRU against torch's own, with the same weights."""

from __future__ import annotations

import torch

from model.experiments.baselines.gru import GRU


def with_weights_of(theirs: torch.nn.GRU) -> GRU:
    ours = GRU(theirs.input_size, theirs.hidden_size).double()
    with torch.no_grad():
        for name, linear in (("ih", ours.cell.input), ("hh", ours.cell.state)):
            linear.weight.copy_(getattr(theirs, f"weight_{name}_l0"))
            linear.bias.copy_(getattr(theirs, f"bias_{name}_l0"))
    return ours


def test_states_and_gradients_are_those_of_torch() -> None:
    theirs = torch.nn.GRU(3, 5, batch_first=True).double()
    ours, x = with_weights_of(theirs), torch.randn(2, 7, 3, dtype=torch.float64)
    begin = torch.randn(2, 5, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x)[0])
    mine, expected = x.clone().requires_grad_(), x.clone().requires_grad_()
    ours(mine, begin).square().sum().backward()
    theirs(expected, begin[None])[0].square().sum().backward()
    torch.testing.assert_close(mine.grad, expected.grad)
    torch.testing.assert_close(ours.cell.state.weight.grad, theirs.weight_hh_l0.grad)


def test_steps_come_one_by_one() -> None:
    layer, x = GRU(3, 5), torch.randn(2, 4, 3)
    steps = layer.steps(x)
    torch.testing.assert_close(next(steps), layer(x[:, :1])[:, 0])
    assert len(list(steps)) == 3
