"""Norms against torch's and against their formulas in plain arithmetic."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from model.network.norms import NORMS, LayerNorm, RMSNorm, SampleTextbookNorm, TextbookNorm
from tests.model.examples import config
from tests.model.network.test_layers import randomised


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("epsilon", [1e-5, 0.3])
def test_layer_norm_is_torchs(bias, epsilon):
    norm = randomised(LayerNorm(config(bias=bias, norm_epsilon=epsilon)))
    x = torch.randn(3, 4, 16) * 3 + 1
    assert_close(norm(x), F.layer_norm(x, (16,), norm.weight, norm.bias, epsilon))
    assert (norm.bias is not None) == bias


def test_layer_norm_is_the_formula():
    norm = randomised(LayerNorm(config(norm_epsilon=0.01)).double())
    x = torch.randn(16, dtype=torch.float64) * 5 - 2
    mean = math.fsum(x.tolist()) / 16
    variance = math.fsum((value - mean) ** 2 for value in x.tolist()) / 16  # of the population
    expected = [
        (value - mean) / math.sqrt(variance + 0.01) * gain + shift
        for value, gain, shift in zip(x.tolist(), norm.weight.tolist(), norm.bias.tolist(), strict=True)
    ]
    assert_close(norm(x), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)
    assert float(norm.mean(x)) == pytest.approx(mean, abs=1e-12)
    assert float(norm.std(x)) == pytest.approx(math.sqrt(variance), abs=1e-12)


@pytest.mark.parametrize(("kind", "correction"), [(TextbookNorm, 0), (SampleTextbookNorm, 1)])
@pytest.mark.parametrize("bias", [True, False])
def test_the_textbooks_norm_adds_epsilon_to_the_deviation(kind, correction, bias):
    norm = randomised(kind(config(norm_epsilon=0.2, bias=bias)).double())
    x = torch.randn(16, dtype=torch.float64) * 2 + 1
    mean = math.fsum(x.tolist()) / 16
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in x.tolist()) / (16 - correction))
    shifts = norm.bias.tolist() if bias else [0.0] * 16
    expected = [
        (value - mean) / (deviation + 0.2) * gain + shift
        for value, gain, shift in zip(x.tolist(), norm.weight.tolist(), shifts, strict=True)
    ]
    assert_close(norm(x), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("epsilon", [1e-5, 0.3])
def test_rms_norm_is_torchs(epsilon):
    norm, theirs = randomised(RMSNorm(config(norm_epsilon=epsilon))), nn.RMSNorm(16, eps=epsilon)
    theirs.load_state_dict(norm.state_dict())
    x = torch.randn(3, 4, 16) * 3 + 1
    assert_close(norm(x), theirs(x))
    assert_close(norm(x), x / (x.square().mean(dim=-1, keepdim=True) + epsilon).sqrt() * norm.weight)


@pytest.mark.parametrize("name", [name for name in NORMS if name != "none"])
def test_the_exact_formula_agrees_and_is_not_blind(name):
    norm = randomised(NORMS[name](config(norm=name, norm_epsilon=0.1)))
    x = torch.randn(5, 16) * 3 + 1
    other_norm = randomised(NORMS[name](config(norm=name, norm_epsilon=0.1)))
    exactly, of_other = norm.exactly([norm, other_norm], torch.stack([x, -x]))
    assert norm.rule == other_norm.rule
    assert_close(norm(x).double(), exactly, rtol=1e-5, atol=1e-5)
    assert_close(other_norm(-x).double(), of_other, rtol=1e-5, atol=1e-5)
    for other in NORMS:
        if other not in (name, "none"):
            wrong = NORMS[other](config(norm=other, norm_epsilon=0.1))
            wrong.load_state_dict(norm.state_dict(), strict=False)
            assert not torch.allclose(wrong.eval()(x).double(), exactly, rtol=1e-3, atol=1e-3), other


def test_a_constant_input_gives_no_nan():
    x = torch.full((2, 16), 3.0)
    for name in NORMS:
        assert NORMS[name](config(norm=name))(x).isfinite().all(), name
