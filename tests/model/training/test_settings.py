"""How to train: seeds, clipping, and the learning rate."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from model.training.gradients import Gradients
from model.training.schedule import learning_rate
from model.training.settings import TrainingSettings
from tests.model.examples import network


def test_seeds_are_what_torch_takes():
    for seed in (-(2**63), 2**64 - 1):
        torch.Generator().manual_seed(TrainingSettings(seed=seed).seed)


@pytest.mark.parametrize(("largest", "factor"), [(math.inf, 1.0), (1.0, 0.2)])
def test_an_infinite_norm_does_not_clip(largest, factor):
    model = network()
    gradients = Gradients(model)
    for parameter in model.parameters():
        parameter.grad.fill_(3.0)
    gradients.clip(5.0, TrainingSettings(clip=largest).clip)
    for parameter in model.parameters():
        assert_close(parameter.grad, torch.full_like(parameter, 3.0 * factor))


# Of the largest rate, so many steps after the warmup. The paper's is in section 5.3, with another factor:
# d_model^-0.5 · min(step^-0.5, step · warmup^-1.5).
SHARES = {
    "cosine": lambda step, warmup, after: math.cos(math.pi / 2 * (step - warmup) / after) ** 2,
    "inverse-sqrt": lambda step, warmup, after: (warmup / step) ** 0.5,
    "constant": lambda step, warmup, after: 1.0,
}


@pytest.mark.parametrize("schedule", SHARES)
@given(st.integers(1, 50), st.integers(1, 100), st.floats(1e-5, 1.0))
def test_the_rate_rises_in_a_line_and_falls_as_its_schedule_says(schedule, warmup, after, peak):
    settings = TrainingSettings(rate=peak, warmup=warmup, schedule=schedule)
    for step in range(1, warmup + after + 1):
        share = step / warmup if step <= warmup else SHARES[schedule](step, warmup, after)
        assert learning_rate(step, warmup + after, settings) == pytest.approx(peak * share, abs=1e-12)


@pytest.mark.parametrize("schedule", SHARES)
def test_without_warmup_the_rate_begins_at_its_peak(schedule):
    settings = TrainingSettings(rate=0.5, warmup=0, schedule=schedule)
    rates = [learning_rate(step, 400, settings) for step in range(1, 401)]
    assert rates[0] == pytest.approx(0.5, rel=1e-4)
    assert rates == sorted(rates, reverse=True)
