"""Bytes of tensors, by hand: of functions, of the casts of autocast, of a backward pass, and freed ones."""

from __future__ import annotations

import torch

from model.experiments.engines.tensor_bytes import TensorBytes, peak_bytes
from model.experiments.engines.timing import LiveTensorBytes


def test_freed_tensors_do_not_count_and_views_count_once() -> None:
    x = torch.ones(1000)
    with TensorBytes() as tensors:
        y = x.exp().cos().sin().reshape(10, 100).mT
    assert tensors.peak == 8000  # input and output of one step
    assert tensors.now == 4000
    del y
    assert tensors.now == 0


def test_the_casts_of_autocast_are_seen_which_functions_do_not_show() -> None:
    x, weight = torch.ones(10, 100), torch.ones(50, 100)

    def run() -> object:
        with torch.autocast("cpu", torch.bfloat16):
            return torch.nn.functional.linear(x, weight)

    assert peak_bytes(run) >= 2 * (10 * 100 + 50 * 100 + 10 * 50)
    with LiveTensorBytes() as alive:
        run()
    assert alive.peak == 2 * 10 * 50


def test_gradients_count() -> None:
    weight = torch.ones(100, 100, requires_grad=True)
    x = torch.ones(10, 100)
    with TensorBytes() as tensors:
        (x @ weight).sum().backward()
    assert weight.grad is not None
    assert tensors.now == weight.grad.untyped_storage().nbytes()
    assert 4 * 100 * 100 <= tensors.peak <= 4 * (100 * 100 + 2 * 10 * 100 + 2)
