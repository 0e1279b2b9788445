"""The pretended device refuses what an accelerator refuses, and computes what the CPU computes."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tests.pretended_device import NAME, pretending

HERE = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
THERE = HERE.to(NAME)
ILLEGAL = {
    "sum of both": lambda: THERE + HERE,
    "product of both": lambda: HERE @ THERE,
    "both in a list": lambda: torch.stack([THERE, HERE]),
    "choice by a mask of the CPU": lambda: torch.where(HERE > 1, THERE, 0.0),
    "CPU indexed from there": lambda: HERE[torch.tensor([0], device=NAME)],
    "written values of the CPU": lambda: THERE.clone().index_put_((torch.tensor([0]),), HERE[0]),
    "added to a number on the CPU": lambda: torch.zeros(()).add_(THERE.sum()),
    "numpy's": lambda: THERE * torch.from_numpy(np.ones((2, 2), np.float32)),
    "embedding of ids of the CPU": lambda: nn.functional.embedding(torch.tensor([1]), THERE),
    "optimizer's lists": lambda: torch._foreach_add_([THERE.clone()], [HERE]),
}
READ = {"numpy": lambda: THERE.numpy(), "array": lambda: np.asarray(THERE)}
LEGAL = {
    "number of the CPU": lambda: THERE * torch.tensor(2.0),
    "indices of the CPU": lambda: THERE[torch.tensor([1, 0])] * 1.0,
    "copied in": lambda: THERE.clone().copy_(HERE),
    "row copied in": lambda: THERE.clone().index_copy_(0, torch.tensor([0], device=NAME), HERE[:1].to(NAME)),
    "scalars": lambda: (THERE.clamp(min=2) ** 2 - 1) / 3,
}
WIDE = {
    "converted": lambda: THERE.double(),
    "converted on the way": lambda: THERE.to("cpu", torch.float64),
    "copied out": lambda: HERE.double().copy_(THERE),
    "summed in": lambda: THERE.sum(dtype=torch.float64),
    "brought": lambda: HERE.double().to(NAME),
    "made": lambda: torch.zeros(2, dtype=torch.float64, device=NAME),
    "made of numbers": lambda: torch.tensor([1.0], dtype=torch.float64, device=NAME),
}


@pytest.mark.parametrize("name", list(ILLEGAL))
def test_tensors_of_two_devices_do_not_mix(name):
    with pytest.raises(RuntimeError, match="same device"):
        ILLEGAL[name]()


@pytest.mark.parametrize("name", list(READ))
def test_memory_there_is_not_read_from_here(name):
    with pytest.raises(TypeError, match="cpu"):
        READ[name]()
    assert (THERE.tolist(), THERE[1, 0].item(), bool(THERE.all())) == ([[1, 2], [3, 4]], 3, True)


@pytest.mark.parametrize("name", list(LEGAL))
def test_what_an_accelerator_takes_is_taken(name):
    made = LEGAL[name]()
    assert made.device == torch.device(NAME, 0)
    assert made.cpu().device.type == "cpu"


@pytest.mark.parametrize("name", list(WIDE))
def test_there_may_be_no_float64(name):
    WIDE[name]()
    with pretending(float64=False), pytest.raises(TypeError, match="float64"):
        WIDE[name]()


def test_without_float64_the_way_by_the_cpu_is_open():
    with pretending(float64=False):
        assert_close(THERE.cpu().double(), HERE.double())
        assert_close((HERE.double() / 3).to(NAME, torch.float32).cpu(), HERE / 3)


def test_numbers_are_drawn_from_a_generator_of_its_own():
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(2, device=NAME, generator=torch.Generator())
    with pytest.raises(RuntimeError, match="generator"):
        THERE.clone().bernoulli_(0.5, generator=torch.Generator())
    before = torch.get_rng_state()
    torch.rand(2, device=NAME)
    assert torch.equal(before, torch.get_rng_state())
    drawn = []
    for _ in range(2):
        torch.manual_seed(5)
        drawn.append(nn.functional.dropout(torch.ones(40, device=NAME)).tolist())
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_step_there_is_a_step_here(dtype):
    models = [nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 1))]
    models.append(copy.deepcopy(models[0]).to(NAME))
    models.append(copy.deepcopy(models[1]))
    losses = []
    for model, x in zip(models, (HERE, THERE, THERE), strict=True):
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        for _ in range(3):
            with torch.autocast(x.device.type, dtype, enabled=dtype != torch.float32):
                loss = model(x).softmax(dim=0).float().square().sum()
            loss.backward()
            optimizer.step()
        assert all(each.device == x.device for each in (*model.parameters(), model[0].weight.grad))
        losses.append(float(loss.detach()))
    assert losses[1] == losses[2] == pytest.approx(losses[0], rel=1e-5 if dtype == torch.float32 else 0.02)


def test_what_is_stored_is_what_is_written():
    model = nn.Linear(2, 2).to(NAME)
    model.weight.data = THERE
    model.to(torch.bfloat16).to(torch.float32)
    assert_close(model(THERE).cpu(), HERE @ HERE.T + model.bias.cpu())
    view = THERE.clone()
    view[0].mul_(10)
    assert view.tolist() == [[10, 20], [3, 4]]
