"""Dilated causal convolutions against torch's conv1d, and their reach measured by gradients."""

from __future__ import annotations

import pytest
import torch

from model.experiments.engines.convolution import CausalConvolution, ConvolutionStack, layers_needed


@pytest.mark.parametrize(("kernel", "dilation"), [(3, 1), (3, 9), (2, 4), (1, 1)])
def test_it_is_the_convolution_of_torch(kernel: int, dilation: int) -> None:
    ours = CausalConvolution(4, kernel, dilation).double()
    torch.nn.init.normal_(ours.bias)
    x = torch.randn(2, 11, 4, dtype=torch.float64)
    padded = torch.nn.functional.pad(x.mT, ((kernel - 1) * dilation, 0))
    weight = ours.weight.permute(1, 2, 0).flip(-1)  # theirs reads from the past to the present
    expected = torch.nn.functional.conv1d(padded, weight, ours.bias, dilation=dilation).mT
    torch.testing.assert_close(ours(x), expected)


@pytest.mark.parametrize(("kernel", "layers"), [(2, 3), (3, 2), (5, 1)])
def test_the_receptive_field_is_where_gradients_arrive(kernel: int, layers: int) -> None:
    stack = ConvolutionStack(16, kernel, layers)
    x = torch.randn(64, 12, 16, requires_grad=True)
    stack(x)[:, -1].sum().backward()
    reached = x.grad.abs().sum(dim=(0, 2)) > 0
    assert reached.tolist() == [position >= 12 - kernel**layers for position in range(12)]


def test_nothing_comes_from_the_future() -> None:
    stack, x = ConvolutionStack(4, 3, 2), torch.randn(1, 9, 4)
    changed = x.clone()
    changed[:, 5:] += 1
    torch.testing.assert_close(stack(changed)[:, :5], stack(x)[:, :5])


@pytest.mark.parametrize(("length", "kernel", "layers"), [(1, 3, 1), (3, 3, 1), (4, 3, 2), (8192, 3, 9), (8, 2, 3)])
def test_as_many_layers_as_reach_the_first_input(length: int, kernel: int, layers: int) -> None:
    assert layers_needed(length, kernel) == layers
