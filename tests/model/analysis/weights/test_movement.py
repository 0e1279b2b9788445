"""How far a tensor moved between two files, beside numpy; and per head."""

import math

import numpy as np
import pytest
import torch

from model.analysis.weights import movement as module
from model.analysis.weights.movement import moved, moved_per_head
from tests.model.analysis.weights.test_statistics import info


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
def test_how_far_a_tensor_moved(dtype, monkeypatch):
    monkeypatch.setattr(module, "PIECE", 7)
    a = (torch.randn(5, 3, 2) * 10).to(dtype)
    b = (a + torch.randn(5, 3, 2)).to(dtype)
    b[3, 1, 0] += 30
    one, two = a.double().numpy().ravel(), b.double().numpy().ravel()
    found = moved(info("w", a), info("w", b))
    assert found.relative == pytest.approx(np.linalg.norm(two - one) / np.linalg.norm(one))
    assert found.cosine == pytest.approx(one @ two / np.linalg.norm(one) / np.linalg.norm(two))
    assert found.largest == np.abs(two - one).max()
    assert found.place == (3, 1, 0)


def test_tensors_of_zeros_without_values_and_not_finite():
    zero, one = info("w", torch.zeros(3)), info("w", torch.ones(3))
    assert moved(zero, zero).relative == 0
    assert (moved(zero, one).relative, moved(one, zero).relative) == (math.inf, 1)
    assert math.isnan(moved(zero, one).cosine)
    empty = info("w", torch.zeros(0, 3))
    assert (moved(empty, empty).relative, moved(empty, empty).place) == (0, ())
    broken = moved(one, info("w", torch.tensor([1, torch.inf, torch.nan])))
    assert math.isnan(broken.relative)
    assert broken.place == (1,)
    number = moved(info("n", torch.tensor(2.0)), info("n", torch.tensor(3.0)))
    assert (number.relative, number.largest, number.place) == (0.5, 1, ())


@pytest.mark.parametrize("columns", [False, True])
def test_heads_move_one_by_one(columns):
    a = torch.randn(8, 8)
    b = a.clone()
    part = (slice(None), slice(4, 6)) if columns else (slice(4, 6), slice(None))
    b[part] *= -2
    relative, cosine = moved_per_head(a, b, 4, columns)
    torch.testing.assert_close(relative, torch.tensor([0.0, 0, 3, 0], dtype=torch.float64))
    torch.testing.assert_close(cosine, torch.tensor([1.0, 1, -1, 1], dtype=torch.float64))
    bias = moved_per_head(torch.ones(8), torch.arange(8.0), 4)
    assert bias[0, 0] == pytest.approx(1 / math.sqrt(2))
    with pytest.raises(ValueError, match=r"a tensor of shape \(8, 8\) has no 3 heads along dimension"):
        moved_per_head(a, b, 3, columns)
