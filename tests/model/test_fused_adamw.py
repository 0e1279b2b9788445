"""Our step of AdamW against torch's own, which is neither fused nor ours."""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from model.fused_adamw import FusedAdamW

OPTIONS = {"betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.05}


def weights() -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(size)) for size in ((3, 5), (5,), (2, 2))]


def step(optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter], number: int, without: int = -1) -> None:
    draw = torch.Generator().manual_seed(number)
    for index, each in enumerate(parameters):
        each.grad = None if index == without else torch.randn(each.shape, generator=draw)
    for group in optimizer.param_groups:
        group["lr"] = 0.01 / (1 + number)
    optimizer.step()


def test_it_takes_the_same_steps_and_keeps_the_same_state():
    ours, theirs = weights(), weights()
    own, other = FusedAdamW(ours, 0.1, **OPTIONS), torch.optim.AdamW(theirs, 0.1, fused=False, **OPTIONS)
    for number in range(6):
        without = 1 if number in (0, 3) else -1  # a weight that gets its state later, and one that has no gradient
        step(own, ours, number, without)
        step(other, theirs, number, without)
        assert_close(ours, theirs, rtol=0, atol=1e-6)
    for mine, torchs in zip(own.state_dict()["state"].values(), other.state_dict()["state"].values(), strict=True):
        assert_close(mine, torchs, rtol=1e-5, atol=1e-6)
    assert [int(own.state[each]["step"]) for each in ours] == [6, 4, 6]


def test_a_loaded_state_is_gone_on_with():
    ours, theirs = weights(), weights()
    own, other = FusedAdamW(ours, 0.1, **OPTIONS), FusedAdamW(theirs, 0.1, **OPTIONS)
    for number in range(3):
        step(own, ours, number)
    with torch.no_grad():
        for mine, copied in zip(ours, theirs, strict=True):
            copied.copy_(mine)
    other.load_state_dict(copy.deepcopy(own.state_dict()))
    for number in range(3, 6):
        step(own, ours, number)
        step(other, theirs, number)
    assert all(torch.equal(mine, copied) for mine, copied in zip(ours, theirs, strict=True))


def test_every_step_counts_as_a_change_of_the_weights():
    ours = weights()
    own = FusedAdamW(ours, 0.1, **OPTIONS)
    for number in range(3):
        before = [each._version for each in ours]
        step(own, ours, number, without=2)
        assert [each._version > version for each, version in zip(ours, before, strict=True)] == [True, True, False]


def test_a_scaler_may_leave_a_step_out():
    ours = weights()
    own, scaler = FusedAdamW(ours, 0.1, **OPTIONS), torch.amp.GradScaler("cpu")
    for number, huge in enumerate((False, False, True, False)):
        before = [each.detach().clone() for each in ours]
        scaler.scale(sum((each * (float("inf") if huge else 1.0)).sum() for each in ours)).backward()
        scaler.step(own)
        scaler.update()
        own.zero_grad()
        assert all(torch.equal(now, then) for now, then in zip(ours, before, strict=True)) == huge, number
    assert {int(each["step"]) for each in own.state.values()} == {3}


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_weights_of_several_types_are_torchs_to_sort_out(kind):
    ours = [*weights(), nn.Parameter(torch.ones(3, dtype=kind))]
    own = FusedAdamW(ours, 0.1, **OPTIONS)
    for _ in range(3):
        for each in ours:
            each.grad = torch.ones_like(each)
        own.step()
    assert all(each.isfinite().all() for each in ours)
    assert ours[-1].dtype == kind
    assert float(ours[-1][0].detach()) < 0.75
