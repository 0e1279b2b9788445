"""AdamW on a row of weights against torch's on weights apart, which is not fused either."""

import copy
import subprocess
import sys
from collections.abc import Iterable

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from model.training.gradients import Gradients
from model.training.optimizer import FlatAdamW

OPTIONS = {"betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.05}


class Trained:
    """A small network, always the same at first, and its optimizer."""

    def __init__(self, flat: bool = True) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 7))
        if flat:
            self.gradients = Gradients(self.model)
            self.optimizer, self.clear = FlatAdamW(self.gradients, 0.1, **OPTIONS), self.gradients.clear
        else:
            self.optimizer = torch.optim.AdamW(self.model.parameters(), 0.1, fused=False, **OPTIONS)
            self.clear = self.optimizer.zero_grad

    def step(self, numbers: Iterable[int]) -> None:
        """Each number has a batch and a rate of its own."""
        for number in numbers:
            self.clear()
            x = torch.randn(4, 5, generator=torch.Generator().manual_seed(number))
            self.model(x).square().sum().backward()
            for group in self.optimizer.param_groups:
                group["lr"] = 0.01 / (1 + number)
            self.optimizer.step()

    @property
    def weights(self) -> list[torch.Tensor]:
        return [each.detach().clone() for each in self.model.parameters()]

    @torch.no_grad()
    def put(self, weights: list[torch.Tensor]) -> None:
        for each, then in zip(self.model.parameters(), weights, strict=True):
            each.copy_(then)


def equal(ones: list[torch.Tensor], others: list[torch.Tensor]) -> list[bool]:
    return [torch.equal(*both) for both in zip(ones, others, strict=True)]


def steps_counted(state: dict) -> list[int]:
    return [int(each["step"]) for each in state.values()]


def test_it_takes_the_same_steps_and_keeps_the_same_state():
    ours, theirs = Trained(), Trained(flat=False)
    for number in range(6):
        for each in (ours, theirs):
            each.step([number])
        assert_close(ours.weights, theirs.weights, rtol=0, atol=1e-6)
    state = ours.optimizer.moments()
    assert_close(state, theirs.optimizer.state_dict()["state"], rtol=1e-5, atol=1e-6)
    assert steps_counted(state) == [6] * 4


def test_a_state_of_torchs_is_gone_on_with():
    ours, theirs = Trained(), Trained(flat=False)
    theirs.step(range(3))
    ours.step([9])  # of another run
    ours.put(theirs.weights)
    state = copy.deepcopy(theirs.optimizer.state_dict()["state"])
    ours.optimizer.load_moments(state)
    for each in (ours, theirs):
        each.step(range(3, 6))
    assert_close(ours.weights, theirs.weights, rtol=0, atol=1e-6)
    assert steps_counted(state) == [3] * 4  # it is a copy that goes on


@pytest.mark.parametrize("done", [0, 2])
def test_its_own_state_is_gone_on_with_also_that_of_before_the_first_step(done):
    ours, theirs = Trained(), Trained()
    for each in (ours, theirs):
        each.step(range(done))
    ours.optimizer.load_moments(ours.optimizer.moments())
    state, weights = copy.deepcopy(ours.optimizer.moments()), ours.weights
    ours.step([7, 8])  # of another course
    ours.optimizer.load_moments(state)
    ours.put(weights)
    assert steps_counted(ours.optimizer.moments()) == [done] * 4 * bool(done)
    for each in (ours, theirs):
        each.step(range(3, 5))
    assert all(equal(ours.weights, theirs.weights))


def test_a_state_that_lacks_a_weight_counts_on():
    own = Trained()
    own.step(range(3))
    state = copy.deepcopy(own.optimizer.moments())
    del state[0]
    own.optimizer.load_moments(state)
    assert steps_counted(own.optimizer.moments()) == [3] * 4
    assert not own.optimizer.moments()[0]["exp_avg"].any()


def test_gradients_that_are_forgotten_the_usual_way_are_still_learned_from():
    own = Trained()
    own.clear, before = own.optimizer.zero_grad, own.weights
    own.step([1])
    assert not any(equal(own.weights, before))


def test_a_network_that_was_moved_is_not_trained_on():
    own = Trained()
    own.model.double().float()
    with pytest.raises(RuntimeError, match="was moved or given to another trainer: make a new trainer"):
        own.gradients.clear()


def test_every_step_counts_as_a_change_of_the_weights():
    own = Trained()
    for number in range(3):
        before = [each._version for each in own.model.parameters()]
        own.step([number])
        assert all(each._version > version for each, version in zip(own.model.parameters(), before, strict=True))


def test_a_first_training_does_not_import_torchs_compiler():
    """It takes seconds and 70 MB, and nothing of it is used."""
    program = """
import sys
from tests.model.training.live.live_examples import watched
watched().step()
from model.training.cost import speed_of
import torch
speed_of(torch.device("cpu"))
sys.exit("torch._dynamo" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_scaler_may_leave_a_step_out():
    own, scaler = Trained(), torch.amp.GradScaler("cpu")
    for number, huge in enumerate((False, False, True, False)):
        before = own.weights
        own.clear()
        scaler.scale(own.model(torch.ones(2, 5)).sum() * (float("inf") if huge else 1.0)).backward()
        scaler.step(own.optimizer)
        scaler.update()
        assert all(equal(own.weights, before)) == huge, number
    assert steps_counted(own.optimizer.moments()) == [3] * 4
