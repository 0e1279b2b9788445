"""Position codes, the size of embeddings and the order of tokens: the verdicts as they are, and flipped by a plant."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from model.analysis.positions import misread
from model.experiments.claims import positions
from model.experiments.claims.positions import as_they_are, divided_by_root, measured_wavelengths, stretched
from model.experiments.rule import Verdict
from model.network.positions import sinusoidal
from tests.model.experiments.claims.judging import judged, planted, tiny

HOLDS, IN_PART, WRONG = Verdict.HOLDS, Verdict.IN_PART, Verdict.WRONG


def turned_base(length: int, d_model: int, base: float) -> torch.Tensor:
    """A larger base where a smaller one is asked for."""
    return sinusoidal(length, d_model, 1e8 / base)


def turned_channels(length: int, d_model: int, base: float) -> torch.Tensor:
    return sinusoidal(length, d_model, base).flip(1)


@pytest.mark.parametrize(
    ("name", "find", "expected", "code", "flipped"),
    [
        ("sinusoid", positions.find_sinusoid, HOLDS, misread, WRONG),
        ("position-50", positions.find_same_code, HOLDS, stretched, WRONG),
        ("base-1000", positions.find_base, HOLDS, turned_base, WRONG),
        ("fast-and-slow", positions.find_speed, HOLDS, turned_channels, WRONG),
        ("rotation", positions.find_rotation, HOLDS, misread, WRONG),
        ("wrong-sinusoid", positions.find_misread, WRONG, sinusoidal, HOLDS),
    ],
)
def test_what_is_said_of_the_codes_is_judged_by_the_codes(
    name: str, find: Any, expected: Verdict, code: Any, flipped: Verdict
) -> None:
    assert judged(name).verdict is expected
    assert planted(find, name, code=code) is flipped


@pytest.mark.parametrize("values", [{"pairs": 2, "length": 8}, {"pairs": 100, "length": 300, "base": 50.0}])
def test_it_holds_for_other_sizes(values: dict[str, Any]) -> None:
    assert judged("sinusoid", **values).verdict is HOLDS
    assert judged("rotation", k=3, **values).verdict is HOLDS
    assert judged("wrong-sinusoid", **values).verdict is WRONG


def test_k_beyond_the_table_is_left_open() -> None:
    outcome = judged("rotation", k=8, length=8)
    assert outcome.verdict is Verdict.OPEN
    assert "8" in str(outcome.reason)


def test_wavelengths_are_measured_as_the_formula_has_them() -> None:
    expected = 2 * np.pi * 10000.0 ** (np.arange(0, 32, 2) / 32)
    np.testing.assert_allclose(measured_wavelengths(sinusoidal(5, 32)).numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        ({}, IN_PART),
        ({"spreads": ("1/√d_model",)}, HOLDS),
        ({"spreads": ("1",)}, WRONG),
        ({"embed": as_they_are}, WRONG),
    ],
)
def test_the_factor_of_embeddings_is_needed_where_they_are_small(plant: dict[str, Any], expected: Verdict) -> None:
    assert planted(positions.find_embedding_scale, "embedding-scale", values={"pairs": 64}, **plant) is expected


@pytest.mark.parametrize(("plant", "expected"), [({}, WRONG), ({"embed": divided_by_root}, HOLDS)])
def test_embeddings_are_multiplied_and_not_divided(plant: dict[str, Any], expected: Verdict) -> None:
    assert planted(positions.find_embedding_division, "embedding-division", values={"pairs": 64}, **plant) is expected


@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("encoder-decoder", {}, HOLDS),
        ("encoder-only", {"position": "learned"}, HOLDS),
        ("encoder-only", {"window": 3}, IN_PART),
        ("decoder-only", {"position": "rotary"}, IN_PART),
        ("encoder-only", {"position": "none"}, Verdict.OPEN),
    ],
)
def test_order_is_lost_without_positions_and_masks(kind: Any, options: dict[str, Any], expected: Verdict) -> None:
    assert judged("order", tiny(kind, **options)).verdict is expected


def test_order_stays_where_positions_do() -> None:
    assert planted(positions.find_order, "order", remove=lambda model: model) is WRONG


def test_a_model_run_by_code_of_others_is_left_open() -> None:
    model = copy.copy(tiny("encoder-only"))
    model.network = copy.deepcopy(model.network)
    model.network.ours = False
    assert judged("order", model).verdict is Verdict.OPEN


def test_a_text_that_reads_the_same_backwards_is_left_open() -> None:
    assert judged("order", tiny("decoder-only"), text="").verdict is Verdict.OPEN
