"""The import hook of conftest.py: annotated shapes are checked while the tests run."""

from __future__ import annotations

import jaxtyping
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from model.network.attention import Scores
from model.network.positions import sinusoidal
from tests.shape_checks import of_shapes_alone

Weights = Float[Tensor, "query key"]  # a shape under a name of its own


def test_a_wrong_shape_is_an_error() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        Scores()(torch.zeros(2, 5, 8), torch.zeros(2, 7, 9))


def test_a_wrong_type_is_an_error() -> None:
    with pytest.raises(jaxtyping.TypeCheckError):
        sinusoidal("4", 8)  # type: ignore[arg-type]


def test_right_shapes_are_not() -> None:
    assert Scores()(torch.zeros(2, 5, 8), torch.zeros(2, 7, 8)).shape == (2, 5, 7)


def test_functions_that_name_a_shape_are_checked_and_no_others() -> None:
    def named(weights: list[Weights]) -> None: ...
    def returned(count: int) -> Float[Tensor, "count 1"]: ...  # type: ignore[empty-body]
    def neither(weights: Tensor, names: tuple[str, ...]) -> int: ...  # type: ignore[empty-body]

    checked: list[object] = []
    decorator = of_shapes_alone(lambda: checked.append)()
    for each in (named, returned, neither, Scores):
        decorator(each)
    assert checked == [named, returned, Scores]
