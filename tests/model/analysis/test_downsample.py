"""Small pictures have the numbers of the large ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.analysis.downsample import binned, mean_norm, pooled, thinned


def largest_in_size(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return known[np.abs(known).argmax()] if known.size else math.nan


@given(st.integers(1, 23), st.integers(1, 23), st.integers(1, 9), st.booleans(), st.integers(0, 99))
def test_a_cell_is_the_largest_in_size_of_its_block(queries, keys, most, signed, seed):
    generator = torch.Generator().manual_seed(seed)
    maps = torch.rand(2, queries, keys, generator=generator) - 0.5 * signed
    maps = maps.masked_fill(torch.rand(2, queries, keys, generator=generator) < 0.4, torch.nan)
    found = pooled(maps, most).numpy()
    high, wide = (-(-length // most) if max(queries, keys) > most else 1 for length in (queries, keys))
    assert max(found.shape[1:]) <= most or found.shape == maps.shape
    for head, row, column in np.ndindex(*found.shape):
        block = maps[head, row * high : (row + 1) * high, column * wide : (column + 1) * wide].numpy()
        assert found[head, row, column] == pytest.approx(largest_in_size(block), nan_ok=True)


def test_maps_that_are_small_enough_stay_themselves():
    maps = torch.rand(3, 4, 5)
    assert pooled(maps, 5) is maps


def test_neighbouring_units_are_averaged():
    assert binned(torch.arange(6.0), 3).tolist() == [0.5, 2.5, 4.5]
    assert binned(torch.arange(5.0), 8).tolist() == [0, 1, 2, 3, 4]


def test_every_kth_position_and_channel_is_kept():
    x = torch.arange(35.0).view(5, 7)
    assert thinned(x, 3, 4).tolist() == [[0, 2, 4, 6], [14, 16, 18, 20], [28, 30, 32, 34]]
    assert torch.equal(thinned(x, 9, 9), x)


def test_the_mean_norm_leaves_out_what_has_no_counterpart():
    x = torch.tensor([[3.0, 4.0], [torch.nan, torch.nan], [0.0, 1.0]])
    assert mean_norm(x) == pytest.approx(3.0)
    assert math.isnan(mean_norm(x[1:2]))
