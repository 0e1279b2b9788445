"""Statistics of tensors beside numpy in float64 and exact fractions, for every type, shape and end of the range."""

import math
import statistics as exact
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from model.analysis.weights import statistics as weights
from model.analysis.weights.statistics import BINS, PIECE, SAMPLE, histogram, readable, sample_step, statistics
from model.checkpoints.tensors import TensorInfo, tensor_table

DTYPES = "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e8m0fnu bool".split()
DTYPES += [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def info(name: str, tensor: torch.Tensor, place: str = "") -> TensorInfo:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorInfo(name, tuple(tensor.shape), dtype, tensor.nbytes, place or name, tensor.clone)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ending", ["safetensors", "pt"])
def test_every_type_beside_numpy(dtype, ending, tmp_path):
    tensor = torch.tensor([[0.5, 1, 2, 0], [4, 1, 0.25, 8]]).to(getattr(torch, dtype))
    path = tmp_path / f"t.{ending}"
    save_file({"a": tensor}, path) if ending == "safetensors" else torch.save({"a": tensor}, path)
    (only,) = tensor_table(path)
    found = statistics(only.load())
    values = np.array(tensor.to(torch.float64).tolist()).ravel()
    assert found.mean == pytest.approx(values.mean(), rel=1e-6)
    assert found.deviation == pytest.approx(values.std(), rel=1e-6)
    assert (found.minimum, found.maximum) == (values.min(), values.max()) == (found.low, found.high)
    assert found.zeros == np.mean(values == 0)
    assert (found.nan, found.infinite, found.sampled, sum(found.counts)) == (0, 0, 8, 8)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(3 * PIECE + 5) * 0.02 + torch.linspace(-1, 3, 3 * PIECE + 5),  # pieces of different means
        torch.randn(2 * PIECE + 1) * 0.003 + 1,  # as a norm's scale: Σ x² − n·mean² has two digits left in float32
        torch.randn(2000) * 1e-25,
        torch.randn(2000) * 1e25,
        torch.randn(2000, dtype=torch.float64) * 1e200,
        torch.randn(3, 5, 700)[:, ::2].transpose(0, 2),
        torch.randn(700).expand(3, 700),
        torch.full((PIECE + 1,), 0.1),
    ],
)
def test_means_and_deviations_are_those_of_float64(tensor):
    found, values = statistics(tensor), tensor.double().numpy().ravel()
    top = np.abs(values).max()
    deviation = (values / top).std() * top
    assert found.mean == pytest.approx((values / top).mean() * top, rel=1e-5, abs=1e-6 * deviation)
    assert found.deviation == pytest.approx(deviation, rel=1e-5, abs=1e-9 * top)


@settings(max_examples=50)
@given(st.lists(st.floats(width=32), max_size=40), st.sampled_from([torch.float32, torch.float64]))
def test_whatever_the_values(values, dtype):
    finite = [Fraction(value) for value in values if math.isfinite(value)]
    found = statistics(torch.tensor(values, dtype=dtype))
    assert found.nan == sum(map(math.isnan, values))
    assert found.infinite == sum(map(math.isinf, values))
    assert sum(found.counts) == found.sampled == len(finite)
    if not finite:
        assert math.isnan(found.mean)
        return
    top = float(max(map(abs, finite)))
    assert found.mean == pytest.approx(float(sum(finite) / len(finite)), abs=1e-6 * top)
    spread = float(exact.pvariance([value / Fraction(top) for value in finite]) if top else 0) ** 0.5 * top
    assert found.deviation == pytest.approx(spread, rel=1e-5, abs=1e-13 * top)
    assert (found.minimum, found.maximum) == (min(finite), max(finite)) == (found.low, found.high)
    assert found.zeros == sum(value == 0 for value in finite) / len(finite)


@settings(max_examples=50)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_the_ends_of_float64(values):
    found = statistics(torch.tensor(values, dtype=torch.float64))
    assert sum(found.counts) == len(values)
    assert 0 <= found.deviation <= found.maximum / 2 - found.minimum / 2 + 1e-9 * abs(found.maximum)


def test_what_is_not_finite_is_counted_and_left_out():
    tensor = torch.zeros(2 * PIECE)
    tensor[[0, PIECE]] = torch.nan
    tensor[[1, 2, PIECE + 7]] = torch.tensor([torch.inf, -torch.inf, torch.inf])
    tensor[[3, PIECE + 1]] = torch.tensor([-3.0, 4.0])
    tensor[5] = -0.0
    found, values = statistics(tensor), tensor[tensor.isfinite()].double().numpy()
    assert (found.nan, found.infinite, found.minimum, found.maximum) == (2, 3, -3, 4)
    assert found.mean == pytest.approx(values.mean())
    assert found.deviation == pytest.approx(values.std())
    assert found.zeros == np.mean(values == 0)
    sampled = tensor[:: sample_step(len(tensor))]
    assert found.sampled == int(sampled.isfinite().sum())


@pytest.mark.parametrize("tensor", [torch.zeros(0, 4), torch.tensor([torch.nan, torch.inf])])
def test_without_a_finite_value_there_is_nothing(tensor):
    found = statistics(tensor)
    assert all(map(math.isnan, (found.mean, found.deviation, found.minimum, found.maximum, found.zeros)))
    assert (found.counts, found.sampled, found.nan + found.infinite) == ((), 0, tensor.numel())


def test_a_single_number():
    found = statistics(torch.tensor(-2.5))
    assert (found.mean, found.deviation, found.minimum, found.maximum, found.zeros) == (-2.5, 0, -2.5, -2.5, 0)
    assert (found.counts, found.low, found.high) == ((1,), -2.5, -2.5)


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match="complex64 has no least and greatest value"):
        statistics(torch.zeros(2, dtype=torch.complex64))
    tensors = [info("a", torch.zeros(2, dtype=torch.complex64)), info("b", torch.ones(1))]
    assert [readable(each) for each in tensors] == [False, True]
    assert not readable(TensorInfo("c", (4,), "F6_E2M3", 3, "c", partial(torch.zeros, 4)))


def test_the_histogram_is_histc_of_the_sample():
    tensor = torch.randn(600, 768)
    found, sample = statistics(tensor), tensor.flatten()[:: sample_step(tensor.numel())].double()
    assert (found.low, found.high, found.sampled) == (float(sample.min()), float(sample.max()), len(sample))
    assert found.counts == tuple(torch.histc(sample, BINS).int().tolist())
    assert histogram(np.array([0.0, 1.0])) == ((1, *[0] * (BINS - 2), 1), 0.0, 1.0)


@settings(max_examples=50)
@given(st.integers(0, 10**9))
def test_a_sample_is_small_and_sees_every_column(elements):
    step = sample_step(elements)
    assert step == 1 or math.gcd(step, elements) == 1
    assert step == 1 or SAMPLE / 8 < elements / step <= SAMPLE


def test_no_copy_is_larger_than_a_block(monkeypatch):
    """Of a type that is converted; float32 and float64 are read where they lie."""
    monkeypatch.setattr(weights, "BLOCK", 1000)
    half = torch.randn(70, 50).bfloat16()
    for dtype in (torch.bfloat16, torch.int64):
        assert {len(block) for block in weights._blocks(half.to(dtype).flatten())} == {1000, 500}
    for dtype in (torch.float32, torch.float64):
        given = half.to(dtype).flatten()
        assert all(np.shares_memory(block, given.numpy()) for block in weights._blocks(given))
