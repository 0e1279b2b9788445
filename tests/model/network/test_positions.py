"""Positions against the paper's formula, written element by element."""

import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from model.network.positions import (
    HalvedSinusoidalPositions,
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
    sinusoidal,
)
from tests.model.examples import config


def paper(position: int, feature: int, d_model: int, base: float) -> float:
    """Section 3.5: sine on even features, cosine on odd ones."""
    angle = position / base ** (2 * (feature // 2) / d_model)
    return math.cos(angle) if feature % 2 else math.sin(angle)


@given(st.integers(1, 40), st.integers(1, 12), st.floats(0.5, 1e6))
def test_sinusoidal_is_the_papers_formula(length, pairs, base):
    d_model = 2 * pairs
    table = sinusoidal(length, d_model, base)
    expected = [[paper(place, feature, d_model, base) for feature in range(d_model)] for place in range(length)]
    assert_close(table, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-9)
    assert torch.equal(sinusoidal(length, d_model), sinusoidal(length, d_model, 10_000.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, 7), "d_model (7) must be even"),
        ((4, 8, 0.0), "base (0.0) must be greater than 0"),
        ((4, 8, -1.0), "base (-1.0) must be greater than 0"),
        ((0, 8), "length (0) must be at least 1"),
    ],
)
def test_impossible_tables_are_refused(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        sinusoidal(*arguments)


def test_the_table_is_no_weight_and_grows_for_a_longer_input():
    positions = SinusoidalPositions(config(max_length=4, position_base=500.0))
    assert not [*positions.parameters(), *positions.state_dict()]
    short = positions(torch.zeros(2, 3, 16))
    assert short.shape == (1, 3, 16)
    longer = positions(torch.zeros(1, 9, 16))
    assert_close(longer[0], sinusoidal(9, 16, 500.0).float())
    assert_close(longer[:, :3], short)


def test_the_curves_may_stand_in_halves():
    """All sines before all cosines, as in Marian; the table grows alike."""
    positions = HalvedSinusoidalPositions(config(max_length=4, position_base=500.0))
    curves = sinusoidal(9, 16, 500.0).float()
    assert torch.equal(positions(torch.zeros(1, 9, 16))[0], torch.cat([curves[:, 0::2], curves[:, 1::2]], dim=1))


def test_learned_positions_are_rows_of_a_trained_table():
    positions = LearnedPositions(config(position="learned", max_length=5))
    assert positions.table.requires_grad
    assert_close(positions(torch.zeros(3, 4, 16)), positions.table[None, :4])
    with pytest.raises(ValueError, match=r"length \(6\) is above max_length \(5\)"):
        positions(torch.zeros(1, 6, 16))


@pytest.mark.parametrize("kind", [SinusoidalPositions, LearnedPositions])
def test_later_tokens_get_later_positions(kind):
    positions = kind(config(position="learned", max_length=6))
    whole = positions(torch.zeros(1, 6, 16))
    assert torch.equal(positions(torch.zeros(2, 2, 16), first=3), whole[:, 3:5])
    if kind is LearnedPositions:
        with pytest.raises(ValueError, match=r"length \(7\) is above max_length \(6\)"):
            positions(torch.zeros(1, 2, 16), first=5)
    else:
        assert_close(positions(torch.zeros(1, 2, 16), first=7)[0], sinusoidal(9, 16)[7:].float())


def test_no_positions_are_zeros():
    assert NoPositions(config())(torch.ones(2, 3, 16)).abs().sum() == 0
