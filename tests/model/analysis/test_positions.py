"""Position encodings against complex numbers, hand-computed values and direct sums; without them a text is a set."""

import math

import pytest
import torch
from torch.testing import assert_close

from model.analysis import positions
from model.network.config import TransformerConfig
from model.network.positions import Rotation, sinusoidal
from tests.model.examples import network, one_stack

IDS, ORDER = [4, 5, 6, 7, 2], [3, 2, 1, 0, 4]


def test_wavelengths_by_hand():
    assert_close(positions.wavelengths(4, 100.0), 2 * math.pi * torch.tensor([1, 1, 10, 10], dtype=torch.float64))
    assert (positions.wavelengths(64, 1000.0)[2:] < positions.wavelengths(64, 10_000.0)[2:]).all()  # claim 6
    assert (positions.wavelengths(64).diff() >= 0).all()  # claim 7


def test_a_wave_goes_through_the_table_and_is_a_sine_between():
    table, waves = sinusoidal(20, 8, 50.0), positions.wavelengths(8, 50.0)
    whole = torch.arange(20, dtype=torch.float64)
    between = torch.tensor([0.5, 7.25], dtype=torch.float64)
    for dimension in range(8):
        assert_close(positions.wave_at(whole, dimension, waves), table[:, dimension])
        rate = 50.0 ** (-(dimension // 2) / 4)
        expected = [(math.cos if dimension % 2 else math.sin)(float(place) * rate) for place in between]
        assert positions.wave_at(between, dimension, waves).tolist() == pytest.approx(expected)
    wrong = positions.misread(20, 8, 50.0)
    assert_close(positions.wave_at(whole, 5, positions.misread_wavelengths(8, 50.0)), wrong[:, 5])


def test_likeness_at_any_distance_is_that_of_the_table_and_of_complex_numbers_between():
    table, waves = sinusoidal(20, 8, 50.0), positions.wavelengths(8, 50.0)
    assert_close(positions.likeness_at(torch.arange(20, dtype=torch.float64) - 6, waves), table @ table[6])
    turned = torch.polar(torch.ones(4, dtype=torch.float64), 2.5 * 50.0 ** (-torch.arange(4, dtype=torch.float64) / 4))
    assert_close(positions.likeness_at(torch.tensor([2.5], dtype=torch.float64), waves), turned.real.sum()[None])


@pytest.mark.parametrize("k", [-7, 0, 1, 50])
def test_the_rotation_is_a_product_of_complex_numbers(k):
    matrix, place = positions.rotation(k, 8, 300.0), torch.tensor(13.0, dtype=torch.float64)
    frequency = 300.0 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    moved = torch.polar(torch.ones_like(frequency), (place + k) * frequency)
    code = torch.stack([(place * frequency).sin(), (place * frequency).cos()], dim=-1).flatten()
    assert_close(matrix @ code, torch.stack([moved.imag, moved.real], dim=-1).flatten())
    assert_close(matrix @ matrix.T, torch.eye(8, dtype=torch.float64))  # it turns, and stretches nothing


@pytest.mark.parametrize("k", [-3, 0, 5])
def test_the_residual_is_zero_for_the_papers_codes_alone(k):
    table, wrong, matrix, first = sinusoidal(40, 16), positions.misread(40, 16), positions.rotation(k, 16), max(0, -k)
    residual = positions.shift_residual(table, matrix, k)
    assert len(residual) == 40 - abs(k)
    assert residual.max() < 1e-12
    errors = positions.shift_residual(wrong, matrix, k)
    assert float(errors[0]) == pytest.approx(float((matrix @ wrong[first] - wrong[first + k]).norm()), abs=1e-12)
    assert errors.max() > (0.1 if k else -1)


def test_a_shift_beyond_the_table_leaves_nothing():
    assert len(positions.shift_residual(sinusoidal(4, 8), positions.rotation(9, 8), 9)) == 0
    with pytest.raises(ValueError, match=r"k \(4\) must be at least 0 and below the length \(4\)"):
        positions.best_shift(sinusoidal(4, 8), 4)


def test_the_best_shift_is_the_rotation_where_there_is_one():
    assert_close(positions.best_shift(sinusoidal(64, 8, 20.0), 3), positions.rotation(3, 8, 20.0))
    wrong = positions.misread(64, 8, 20.0)
    found = positions.shift_residual(wrong, positions.best_shift(wrong, 3), 3)
    assert found.mean() > 0.05
    disturbed = positions.best_shift(wrong, 3) + 0.01 * torch.randn(8, 8, dtype=torch.float64)
    assert positions.shift_residual(wrong, disturbed, 3).square().sum() > found.square().sum()


def test_the_misread_formula_is_the_tutorials_loop():
    length, d_model, base = 9, 6, 100.0
    table = torch.zeros(length, d_model, dtype=torch.float64)
    for place in range(length):
        for i in range(0, d_model, 2):
            table[place, i] = math.sin(place / base ** ((2 * i) / d_model))
            table[place, i + 1] = math.cos(place / base ** ((2 * (i + 1)) / d_model))
    assert_close(positions.misread(length, d_model, base), table)
    assert float(positions.misread_wavelengths(512)[-1]) == pytest.approx(2 * math.pi * 1e4 ** (2 * 511 / 512))
    assert positions.pair_error(sinusoidal(50, 16)) < 1e-12
    assert positions.pair_error(table) > 0.1


def test_likeness_depends_on_the_distance_alone():
    table = sinusoidal(30, 8, 50.0)
    frequency = 50.0 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    distance = torch.arange(30, dtype=torch.float64) - 11
    assert_close(positions.likeness(table, 11), (distance[:, None] * frequency).cos().sum(dim=-1))
    assert positions.likeness_error(table, [0, 11, 29]) < 1e-12
    assert positions.likeness_error(positions.misread(30, 8, 50.0), [0, 11, 29]) > 0.01
    shifted = torch.arange(4, dtype=torch.float64)[:, None]  # p·q: 0·d at p = 0, 1·(1 + d) at p = 1
    assert positions.likeness_error(shifted, [0, 1]) == 3.0


def test_a_code_is_the_same_at_any_length():
    assert positions.length_difference(50, [51, 60, 512], 64) == 0.0


def test_rotary_angles_are_those_the_model_turns_by():
    config = TransformerConfig(source_vocabulary=3, target_vocabulary=3, d_model=8, n_heads=1, position_base=77.0)
    ones = torch.ones(1, 1, 6, 8)
    turned = Rotation(config)(ones)[0, 0].double()
    angles = positions.rotary_angles(6, 8, 77.0)
    assert_close(turned[:, :4], angles.cos() - angles.sin(), atol=1e-6, rtol=0)
    assert_close(turned @ turned[0], positions.rotary_scores(6, 8, 77.0), atol=1e-5, rtol=0)


def test_all_but_special_tokens_are_reversed():
    assert positions.reversed_order([True, False, False, True, False]) == [0, 4, 2, 3, 1]
    assert positions.reversed_order([]) == []


@pytest.mark.parametrize("make", [network, lambda **options: one_stack("encoder-only", **options)])
def test_an_encoder_without_positions_notices_no_order(make):
    """Claim 13: without positions a set, with positions a sequence."""
    assert positions.order_difference(make(position="none"), IDS, ORDER).max() < 1e-5
    for position in ("sinusoidal", "learned", "rotary", "alibi"):
        assert positions.order_difference(make(position=position), IDS, ORDER).max() > 1e-3


def test_a_causal_mask_tells_the_order_too():
    assert positions.order_difference(one_stack("decoder-only", position="none"), IDS, ORDER).max() > 1e-3


def test_the_difference_is_that_of_the_states_by_hand():
    model = network()
    states = positions.token_states(model, IDS)
    with torch.inference_mode():
        assert torch.equal(states, model.encode(torch.tensor([IDS]))[0])
    moved = positions.token_states(model, [IDS[place] for place in ORDER])
    expected = [float((states[place] - moved[i]).abs().max()) for i, place in enumerate(ORDER)]
    assert positions.order_difference(model, IDS, ORDER).tolist() == pytest.approx(expected)
