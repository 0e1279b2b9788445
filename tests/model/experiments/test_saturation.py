"""Where a softmax saturates: against formulas of two scores, and numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from model.analysis.predictions import derivative_norm
from model.experiments.scaling import MOST, first_factor, jacobian, thresholds


def test_two_scores_saturate_where_the_formula_says():
    found = thresholds(torch.tensor([0.0, 1.0]))
    assert found.sure == pytest.approx(math.log(99), rel=1e-3)  # 1 / (1 + e^-f) = 0.99
    ones = [
        f for f in np.arange(10, 30, 0.001) if np.float32(1) / np.float32(np.float32(1) + np.exp(np.float32(-f))) == 1
    ]
    assert found.own_gradient == pytest.approx(ones[0], abs=0.5)
    smallest = float(np.finfo(np.float32).smallest_subnormal)
    assert 0.8 * -math.log(float(np.finfo(np.float32).tiny)) < found.all_gradients < 1.02 * -math.log(smallest)
    half = thresholds(torch.tensor([0.0, 0.5]))
    assert half.sure == pytest.approx(2 * found.sure, rel=1e-3)


def test_equal_or_single_scores_never_saturate():
    found = thresholds(torch.tensor([2.0, 4.0, 4.0]))
    assert (found.sure, found.own_gradient) == (None, None)
    assert thresholds(torch.tensor([3.0])).sure is None


def test_the_jacobian_is_that_of_the_formula():
    scores = torch.randn(7).double()
    w = scores.softmax(dim=-1).numpy()
    expected = np.diag(w) - np.outer(w, w)
    assert np.allclose(jacobian(scores), expected, atol=1e-14)
    assert np.allclose(jacobian(scores, 3), expected[3:4], atol=1e-14)


def test_the_derivatives_norm_is_exact_where_one_weight_is_nearly_1():
    weights = torch.randn(5, 9).double().softmax(dim=-1)
    expected = [np.linalg.norm(np.diag(w) - np.outer(w, w)) for w in weights.numpy()]
    assert np.allclose(derivative_norm(weights), expected, atol=1e-14)
    tiny = 1e-30
    assert float(derivative_norm(torch.tensor([1.0, tiny]).double())) == pytest.approx(2 * tiny)  # four cells of ±w


def test_the_first_factor_is_found_by_halving():
    assert first_factor(lambda factor: factor > 123.4) == pytest.approx(123.4, rel=2e-4)
    assert first_factor(lambda factor: False) is None
    assert first_factor(lambda factor: factor > 2e-9) == pytest.approx(2e-9, rel=2e-4)
    assert first_factor(lambda factor: True) == 1 / MOST


def test_large_scores_saturate_at_small_factors():
    found, small = thresholds(torch.tensor([0.0, 1e6, 2e6])), thresholds(torch.tensor([0.0, 1.0, 2.0]))
    assert found.sure == pytest.approx(small.sure * 1e-6, rel=2e-4)
    assert found.own_gradient == pytest.approx(small.own_gradient * 1e-6, rel=1e-2)
