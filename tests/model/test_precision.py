"""Training in bfloat16 and float16, and compiled, against the same run in plain float32."""

import math

import pytest
import torch
from safetensors.torch import load_file

from model.training import Trainer
from tests.model.examples import sentences, trainer

PAIRS = sentences(60)
SETTINGS = {"epochs": 6, "batch_tokens": 150, "warmup": 5, "rate": 5e-3, "undo_merges": 0.0}


def make(precision: str, **options) -> Trainer:
    return trainer(PAIRS[10:], PAIRS[:10], {}, **(SETTINGS | options), precision=precision)


@pytest.fixture(scope="module")
def plain() -> list[float]:
    return [report.loss for report in make("float32").steps()]


@pytest.mark.parametrize(("precision", "near"), [("bfloat16", 0.03), ("float16", 0.02)])
def test_lower_precision_trains_nearly_alike(precision, near, plain, monkeypatch):
    given = make(precision)
    used = set()
    states = given.model.output.logits.forward
    monkeypatch.setattr(given.model.output.logits, "forward", lambda x: used.add(states(x).dtype) or states(x))
    losses = [report.loss for report in given.steps()]
    assert getattr(torch, precision) in used
    assert losses == pytest.approx(plain, abs=near)
    assert losses != plain
    assert losses[-1] < losses[0] - 0.5
    assert {tensor.dtype for tensor in given.model.parameters()} == {torch.float32}
    assert {tensor.dtype for tensor in given.average.values()} == {torch.float32}
    assert given.progress.validations[-1][1] < given.progress.validations[0][1]


def test_an_overflow_in_float16_skips_the_step_and_is_no_divergence(tmp_path):
    given = make("float16")
    list(given.steps(2))
    weights = {name: tensor.detach().clone() for name, tensor in given.model.named_parameters()}
    given.scaler.update(2.0**40)  # gradients of float16 overflow
    (report,) = given.steps(1)
    assert math.isfinite(report.loss)
    assert not math.isfinite(report.gradient_norm)
    assert given.scaler.get_scale() == 2.0**39
    assert all(torch.equal(tensor, weights[name]) for name, tensor in given.model.named_parameters())
    given.save_state(tmp_path / "run.resume")
    assert all(bool(tensor.isfinite().all()) for tensor in load_file(tmp_path / "run.resume").values())
    resumed = make("float16")
    resumed.load_state(tmp_path / "run.resume")
    assert resumed.scaler.get_scale() == 2.0**39
    given.scaler.update(2.0**10)
    (report,) = given.steps(1)
    assert math.isfinite(report.gradient_norm)
    assert any(not torch.equal(tensor, weights[name]) for name, tensor in given.model.named_parameters())


def test_a_loss_in_float16_that_is_not_finite_stops():
    given = make("float16")
    list(given.steps(2))
    with torch.no_grad():
        given.model.output.logits.weight.fill_(1e6)  # beyond 65,504
    with pytest.raises(FloatingPointError, match=r"^step 3: loss (nan|inf), .* the weights are still those of step 2"):
        next(given.steps())
    assert given.progress.step == 2
    assert bool((given.model.output.logits.weight == 1e6).all())
