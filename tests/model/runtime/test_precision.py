"""What a narrow precision costs here is measured, and said only where it is slower than float32."""

import itertools

import pytest
import torch

from model.runtime import device
from model.runtime.device import slowdown, slower

CPU = torch.device("cpu")


@pytest.fixture
def times(monkeypatch):
    """Seconds of products in float32, and in anything else."""
    taken = {torch.float32: 1.0, torch.bfloat16: 14.0, torch.float16: 0.5}
    measured = []

    def seconds(x, weight):
        measured.append(x.dtype)
        assert weight.dtype == x.dtype
        return taken[x.dtype]

    monkeypatch.setattr(device, "linear_seconds", seconds)
    monkeypatch.setattr(device, "slowdown", slowdown.__wrapped__)
    return measured


def test_a_slow_precision_is_said_with_its_number(times):
    assert slower("bfloat16", CPU) == (
        "bfloat16 takes 14 times as long as float32 on this processor: float32 is faster here"
    )
    assert times.count(torch.bfloat16) == device.ROUNDS
    assert slower("float16", CPU) is None


def test_float32_and_other_devices_need_no_measurement(times):
    assert slower("float32", CPU) is None
    assert slower("bfloat16", torch.device("meta")) is None
    assert times == []


def test_the_time_is_that_of_the_same_products(monkeypatch):
    """By a clock that goes on with each product."""
    clock = itertools.count()
    monkeypatch.setattr(device.time, "perf_counter", lambda: float(next(clock)))
    assert slowdown.__wrapped__("bfloat16", CPU) == 1.0


def test_it_is_really_measured():
    assert slowdown("bfloat16", CPU) > 0
