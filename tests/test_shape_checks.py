"""The import hook of conftest.py: annotated shapes are checked while the tests run."""

from __future__ import annotations

import jaxtyping
import pytest
import torch

from model.network.attention import Scores
from model.network.positions import sinusoidal


def test_a_wrong_shape_is_an_error() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        Scores()(torch.zeros(2, 5, 8), torch.zeros(2, 7, 9))


def test_a_wrong_type_is_an_error() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        sinusoidal("4", 8)  # type: ignore[arg-type]


def test_right_shapes_are_not() -> None:
    assert Scores()(torch.zeros(2, 5, 8), torch.zeros(2, 7, 8)).shape == (2, 5, 7)
