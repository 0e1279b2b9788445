"""A tensor as a screen shows it, beside numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from model.analysis import downsample
from model.analysis.downsample import as_matrix, exact_histogram, in_blocks


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bool, torch.int64])
def test_a_histogram_counts_every_finite_value_once(monkeypatch, dtype):
    monkeypatch.setattr(downsample, "PIECE", 100)
    values = (3 * torch.randn(37, 13)).to(dtype)
    low, high = float(values.double().min()), float(values.double().max())
    expected, _edges = np.histogram(values.float().numpy(), 10, (low, high))
    assert exact_histogram(values, 10, low, high).tolist() == expected.tolist()


def test_what_is_not_finite_is_left_out_of_a_histogram():
    values = torch.tensor([0.0, 1.0, math.nan, math.inf, -math.inf, 1.0])
    assert exact_histogram(values, 2, 0.0, 1.0).tolist() == [1, 2]


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(7, 5), (30, 41), (1, 9), (9, 1), (3, 3)])
def test_blocks_are_those_of_a_loop(monkeypatch, rows, columns, largest):
    monkeypatch.setattr(downsample, "PIECE", 60)
    matrix = torch.randn(rows, columns)
    made, (tall, wide) = in_blocks(matrix, (4, 6), largest)
    assert made.shape[0] <= 4
    assert made.shape[1] <= 6
    for row in range(made.shape[0]):
        for column in range(made.shape[1]):
            block = matrix[row * tall : (row + 1) * tall, column * wide : (column + 1) * wide]
            expected = block.abs().max() if largest else block.mean()
            assert made[row, column] == pytest.approx(float(expected), abs=1e-6)
    assert -(-rows // tall) == made.shape[0]


def test_a_block_with_a_value_that_is_not_finite_is_marked():
    matrix = torch.ones(8, 8)
    matrix[0, 0], matrix[7, 7], matrix[7, 0] = math.nan, math.inf, -math.inf
    for largest in (False, True):
        made, _size = in_blocks(matrix, (2, 2), largest)
        assert made.isnan().tolist() == [[True, False], [True, True]]
        assert made[0, 1] == 1


def test_tensors_of_any_shape_are_matrices():
    assert as_matrix(torch.ones(())).shape == (1, 1)
    assert as_matrix(torch.ones(3)).shape == (1, 3)
    assert as_matrix(torch.ones(2, 3, 4)).shape == (2, 12)
    assert in_blocks(torch.ones(0, 4), (2, 2))[0].shape == (0, 4)
