"""Small pictures and series have the numbers of the large ones: blocks, groups and smoothing beside plain loops."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from model.analysis import downsample
from model.analysis.downsample import BLOCK


def largest_in_size(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return known[np.abs(known).argmax()] if known.size else math.nan


@given(st.integers(1, 23), st.integers(1, 23), st.integers(1, 9), st.booleans(), st.integers(0, 99))
def test_a_cell_is_the_largest_in_size_of_its_block(queries, keys, most, signed, seed):
    generator = torch.Generator().manual_seed(seed)
    maps = torch.rand(2, queries, keys, generator=generator) - 0.5 * signed
    maps = maps.masked_fill(torch.rand(2, queries, keys, generator=generator) < 0.4, torch.nan)
    small = downsample.pooled(maps, most).numpy()
    assert max(small.shape[1:]) <= most
    high, wide = (-(-length // most) if max(queries, keys) > most else 1 for length in (queries, keys))
    for head, row, column in np.ndindex(*small.shape):
        block = maps[head, row * high : (row + 1) * high, column * wide : (column + 1) * wide].numpy()
        assert small[head, row, column] == pytest.approx(largest_in_size(block), nan_ok=True)


def test_maps_that_are_small_enough_stay_themselves():
    maps = torch.rand(3, 4, 5)
    assert downsample.pooled(maps, 5) is maps


def test_neighbouring_units_are_averaged_and_every_kth_position_and_channel_is_kept():
    assert downsample.binned(torch.arange(6.0), 3).tolist() == [0.5, 2.5, 4.5]
    assert downsample.binned(torch.arange(5.0), 8).tolist() == [0, 1, 2, 3, 4]
    x = torch.arange(35.0).view(5, 7)
    assert downsample.thinned(x, 3, 4).tolist() == [[0, 2, 4, 6], [14, 16, 18, 20], [28, 30, 32, 34]]
    assert torch.equal(downsample.thinned(x, 9, 9), x)


def test_the_mean_norm_leaves_out_what_has_no_counterpart():
    x = torch.tensor([[3.0, 4.0], [torch.nan, torch.nan], [0.0, 1.0]])
    assert downsample.mean_norm(x) == pytest.approx(3.0)
    assert math.isnan(downsample.mean_norm(x[1:2]))


@pytest.mark.parametrize("count", [0, 1, 5, BLOCK, 3 * BLOCK + 7])
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.98])
def test_smoothing_is_the_recursion_step_by_step(count, keep):
    values = np.random.default_rng(1).normal(5, 1, count)
    expected, average = [], 0.0
    for step, value in enumerate(values, start=1):
        average = keep * average + (1 - keep) * value
        expected.append(average / (1 - keep**step))
    assert_allclose(downsample.smoothed(values, keep), expected, rtol=1e-12)


@pytest.mark.parametrize("count", [3, 400, 401, 9999])
def test_spikes_and_both_ends_survive_thinning(count):
    xs, ys = np.arange(float(count)), np.random.default_rng(2).normal(size=count)
    ys[count // 3], ys[2 * count // 3] = 50, -50
    places, values = downsample.outline(xs, ys, 400)
    assert min(count, 250) <= len(places) <= 400
    assert (np.diff(places) > 0).all()
    assert_array_equal(values, ys[places.astype(int)])
    assert (places[0], places[-1]) == (0, count - 1)
    assert {values.max(), values.min()} == {ys.max(), ys.min()}


@pytest.mark.parametrize(
    ("reduce", "message"),
    [
        (lambda: downsample.smoothed(np.ones(3), -0.1), "-0.1"),
        (lambda: downsample.smoothed(np.ones(3), 1.0), "1.0"),
        (lambda: downsample.outline(np.ones(9), np.ones(9), 3), "most"),
    ],
)
def test_a_weight_that_cannot_be_and_too_few_points_are_refused(reduce, message):
    with pytest.raises(ValueError, match=message):
        reduce()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bool, torch.int64])
def test_a_histogram_counts_every_finite_value_once(monkeypatch, dtype):
    monkeypatch.setattr(downsample, "PIECE", 100)
    values = (3 * torch.randn(37, 13)).to(dtype)
    low, high = float(values.double().min()), float(values.double().max())
    expected, _edges = np.histogram(values.float().numpy(), 10, (low, high))
    assert downsample.exact_histogram(values, 10, low, high).tolist() == expected.tolist()
    if dtype.is_floating_point:
        broken = torch.cat([torch.tensor([math.nan, math.inf, -math.inf], dtype=dtype), values.flatten()])
        assert downsample.exact_histogram(broken, 10, low, high).tolist() == expected.tolist()


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(7, 5), (30, 41), (1, 9), (9, 1), (3, 3)])
def test_blocks_are_those_of_a_loop_and_marked_where_a_value_is_not_finite(monkeypatch, rows, columns, largest):
    monkeypatch.setattr(downsample, "PIECE", 60)
    matrix = torch.randn(rows, columns)
    matrix[0, 0], matrix[-1, -1] = math.nan, -math.inf
    blocks, (tall, wide) = downsample.in_blocks(matrix, (4, 6), largest)
    assert blocks.shape == (-(-rows // tall), -(-columns // wide))
    assert blocks.shape[0] <= 4
    assert blocks.shape[1] <= 6
    for row, column in np.ndindex(*blocks.shape):
        block = matrix[row * tall : (row + 1) * tall, column * wide : (column + 1) * wide]
        expected = float(block.abs().max() if largest else block.mean()) if block.isfinite().all() else math.nan
        assert blocks[row, column] == pytest.approx(expected, abs=1e-6, nan_ok=True)


def test_tensors_of_any_shape_are_matrices():
    assert downsample.as_matrix(torch.ones(())).shape == (1, 1)
    assert downsample.as_matrix(torch.ones(3)).shape == (1, 3)
    assert downsample.as_matrix(torch.ones(2, 3, 4)).shape == (2, 12)
    assert downsample.in_blocks(torch.ones(0, 4), (2, 2))[0].shape == (0, 4)
