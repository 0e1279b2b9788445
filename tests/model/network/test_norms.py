"""Norms against torch's and against their formulas in plain arithmetic."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from model.network.norms import NORMS, LayerNorm, RMSNorm, SampleTextbookNorm, TextbookNorm
from tests.model.examples import config
from tests.model.network.test_layers import randomised

# Of an input, its mean and deviation (of the population, and of the sample), and epsilon.
FORMULAS = {
    LayerNorm: lambda x, mean, deviation, sample, epsilon: (x - mean) / (deviation**2 + epsilon).sqrt(),
    RMSNorm: lambda x, mean, deviation, sample, epsilon: x / (x.square().mean(-1, keepdim=True) + epsilon).sqrt(),
    TextbookNorm: lambda x, mean, deviation, sample, epsilon: (x - mean) / (deviation + epsilon),
    SampleTextbookNorm: lambda x, mean, deviation, sample, epsilon: (x - mean) / (sample + epsilon),
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("epsilon", [1e-5, 0.3])
@pytest.mark.parametrize("kind", FORMULAS)
def test_a_norm_is_its_formula(kind, epsilon, bias):
    norm = randomised(kind(config(bias=bias, norm_epsilon=epsilon)).double())
    x = torch.randn(3, 4, 16, dtype=torch.float64) * 3 + 1
    mean = torch.from_numpy(np.mean(x.numpy(), axis=-1, keepdims=True))
    deviation, sample = (torch.from_numpy(np.std(x.numpy(), axis=-1, ddof=n, keepdims=True)) for n in (0, 1))
    shift = norm.bias if bias and kind is not RMSNorm else torch.zeros(16)
    assert (norm.bias is not None) == (bias and kind is not RMSNorm)
    assert_close(norm(x), FORMULAS[kind](x, mean, deviation, sample, epsilon) * norm.weight + shift)
    assert_close(norm.mean(x), mean.squeeze(-1))
    assert_close(norm.std(x), deviation.squeeze(-1))


@pytest.mark.parametrize("name", [name for name in NORMS if name != "none"])
def test_the_exact_formula_agrees_and_is_not_blind(name):
    norm = randomised(NORMS[name](config(norm=name, norm_epsilon=0.1)))
    x = torch.randn(5, 16) * 3 + 1
    other_norm = randomised(NORMS[name](config(norm=name, norm_epsilon=0.1)))
    (exactly, of_other), rounding = norm.exactly([norm, other_norm], torch.stack([x, -x]))
    assert float(rounding.detach().max()) < 1e-5
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
