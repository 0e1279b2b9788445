"""AdamW on a row of weights against torch's on weights apart, which is not fused either."""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from model.training.gradients import Gradients
from model.training.optimizer import FlatAdamW

OPTIONS = {"betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.05}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 7))


def made(model: nn.Module) -> tuple[Gradients, FlatAdamW]:
    gradients = Gradients(model)
    return gradients, FlatAdamW(gradients, 0.1, **OPTIONS)


def step(optimizer: torch.optim.Optimizer, model: nn.Module, number: int) -> None:
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(number))
    model(x).square().sum().backward()
    for group in optimizer.param_groups:
        group["lr"] = 0.01 / (1 + number)
    optimizer.step()


def test_it_takes_the_same_steps_and_keeps_the_same_state():
    ours, theirs = network(), network()
    (gradients, own), other = made(ours), torch.optim.AdamW(theirs.parameters(), 0.1, fused=False, **OPTIONS)
    for number in range(6):
        gradients.clear()
        other.zero_grad()
        step(own, ours, number)
        step(other, theirs, number)
        assert_close(list(ours.parameters()), list(theirs.parameters()), rtol=0, atol=1e-6)
    mine, torchs = own.moments(), other.state_dict()["state"]
    assert_close(mine, torchs, rtol=1e-5, atol=1e-6)
    assert {int(each["step"]) for each in mine.values()} == {6}


def test_a_state_of_torchs_is_gone_on_with():
    ours, theirs = network(), network()
    other = torch.optim.AdamW(theirs.parameters(), 0.1, fused=False, **OPTIONS)
    for number in range(3):
        other.zero_grad()
        step(other, theirs, number)
    ours.load_state_dict(theirs.state_dict())
    gradients, own = made(ours)
    step(own, ours, 9)  # of another run
    with torch.no_grad():
        for mine, torchs in zip(ours.parameters(), theirs.parameters(), strict=True):
            mine.copy_(torchs)
    given = copy.deepcopy(other.state_dict()["state"])
    own.load_moments(given)
    for number in range(3, 6):
        gradients.clear()
        other.zero_grad()
        step(own, ours, number)
        step(other, theirs, number)
    assert_close(list(ours.parameters()), list(theirs.parameters()), rtol=0, atol=1e-6)
    assert {int(each["step"]) for each in given.values()} == {3}  # it is a copy that goes on


def test_an_empty_state_is_that_of_before_the_first_step():
    ours, theirs = network(), network()
    (gradients, own), (others, other) = made(ours), made(theirs)
    empty = copy.deepcopy(own.moments())
    start = [each.detach().clone() for each in ours.parameters()]
    for number in range(2):
        step(own, ours, number)
    own.load_moments(empty)
    with torch.no_grad():
        for each, then in zip(ours.parameters(), start, strict=True):
            each.copy_(then)
    assert not own.moments()
    gradients.clear()
    others.clear()
    step(own, ours, 5)
    step(other, theirs, 5)
    assert all(torch.equal(mine, torchs) for mine, torchs in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_its_own_state_is_gone_on_with():
    ours, theirs = network(), network()
    (gradients, own), (others, other) = made(ours), made(theirs)
    for number in range(4):
        if number == 2:
            own.load_moments(own.moments())
        gradients.clear()
        others.clear()
        step(own, ours, number)
        step(other, theirs, number)
    assert all(torch.equal(*both) for both in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_a_state_that_lacks_a_weight_counts_on():
    model = network()
    _, own = made(model)
    for number in range(3):
        step(own, model, number)
    given = copy.deepcopy(own.moments())
    del given[0]
    own.load_moments(given)
    assert [int(each["step"]) for each in own.moments().values()] == [3, 3, 3, 3]
    assert not own.moments()[0]["exp_avg"].any()


def test_gradients_that_are_forgotten_the_usual_way_are_still_learned_from():
    model = network()
    _, own = made(model)
    own.zero_grad()
    before = [each.detach().clone() for each in model.parameters()]
    step(own, model, 1)
    assert not any(torch.equal(*both) for both in zip(model.parameters(), before, strict=True))


def test_a_network_that_was_moved_is_not_trained_on():
    model = network()
    gradients, _ = made(model)
    model.double().float()
    with pytest.raises(RuntimeError, match="was moved or given to another trainer: make a new trainer"):
        gradients.clear()


def test_every_step_counts_as_a_change_of_the_weights():
    model = network()
    _, own = made(model)
    for number in range(3):
        before = [each._version for each in model.parameters()]
        step(own, model, number)
        assert all(each._version > version for each, version in zip(model.parameters(), before, strict=True))


def test_a_scaler_may_leave_a_step_out():
    model = network()
    (gradients, own), scaler = made(model), torch.amp.GradScaler("cpu")
    for number, huge in enumerate((False, False, True, False)):
        before = [each.detach().clone() for each in model.parameters()]
        gradients.clear()
        scaler.scale(model(torch.ones(2, 5)).sum() * (float("inf") if huge else 1.0)).backward()
        scaler.step(own)
        scaler.update()
        assert all(torch.equal(*both) for both in zip(model.parameters(), before, strict=True)) == huge, number
    assert {int(each["step"]) for each in own.moments().values()} == {3}
