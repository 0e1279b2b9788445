"""Dropout: an unbiased random mask. Counts must be within five standard deviations of their expectation."""

import math

import pytest
import torch
from torch.testing import assert_close

from model.network.dropout import dropout

COUNT = 200_000


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(3)


def near(share: float, expected: float, count: int) -> bool:
    return abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / count)


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.3, 0.5, 0.9])
def test_the_rate_the_scale_and_the_mean(rate):
    result = dropout(torch.ones(COUNT), rate, training=True)
    assert near(float((result == 0).float().mean()), rate, COUNT)
    kept = result[result != 0]
    assert_close(kept, torch.full_like(kept, 1 / (1 - rate)), rtol=1e-4, atol=0)
    deviation = math.sqrt(rate / (1 - rate) / COUNT)  # of the mean of 0 or 1 / (1 − rate)
    assert abs(float(result.mean()) - 1) < 5 * deviation


def test_at_the_ends_of_the_range_and_outside_training_it_is_the_input_or_next_to_nothing():
    x = torch.rand(5000) + 1
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x
    assert torch.equal(dropout(x, 1e-9, training=True), x)
    rest = dropout(x, 0.999999, training=True)
    assert rest.isfinite().all()
    assert (rest == 0).float().mean() > 0.99


def test_the_gradient_flows_through_kept_entries_only():
    x = torch.rand(1001, dtype=torch.float64).add(0.5).requires_grad_()
    result = dropout(x, 0.25, training=True)
    result.sum().backward()
    assert torch.equal(x.grad == 0, result == 0)
    assert_close(x.grad, result.detach() / x.detach())


def test_entries_are_independent_of_their_neighbours_and_of_other_rows():
    """Four entries share one random number: pairs at small distances must still be dropped independently."""
    rate = 0.3
    dropped = dropout(torch.ones(400, 512), rate, training=True) == 0
    flat = dropped.flatten()
    for distance in (1, 2, 3, 4, 5, 8, 511, 512, 513, 1024):
        both = (flat[:-distance] & flat[distance:]).float().mean()
        assert near(float(both), rate * rate, len(flat) - distance), distance
    for place in range(4):  # the four parts of a random number
        assert near(float(dropped[:, place::4].float().mean()), rate, dropped.numel() // 4), place


def test_rows_and_calls_differ_and_the_seed_repeats_them():
    first, second = dropout(torch.ones(2, 4000), 0.5, training=True)
    assert near(float((first == second).float().mean()), 0.5, 4000)
    torch.manual_seed(11)
    once = dropout(torch.ones(333), 0.5, training=True)
    again = dropout(torch.ones(333), 0.5, training=True)
    assert not torch.equal(once, again)
    torch.manual_seed(11)
    assert torch.equal(dropout(torch.ones(333), 0.5, training=True), once)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (0, 4), (2, 3, 5)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_shape_and_precision_stay(shape, dtype):
    x = torch.arange(1, 1 + math.prod(shape)).reshape(shape).to(dtype)
    for view in (x, x.mT.contiguous().mT if x.ndim > 1 else x):  # not contiguous, too
        result = dropout(view, 0.5, training=True)
        assert (result.shape, result.dtype) == (x.shape, dtype)
        assert ((result == 0) | (result == 2 * x)).all()
