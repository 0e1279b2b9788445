"""Singular values beside svdvals in float64, on flat spectra and on those that float32 would lose."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from model.analysis.weights import spectra
from tests.model.analysis.weights.test_statistics import info
from tests.model.tensor_files import all_spectra


def decaying(rows: int, columns: int, least: float) -> torch.Tensor:
    """A matrix whose singular values fall from 1 to `least` geometrically."""
    side = min(rows, columns)
    left, _upper = torch.linalg.qr(torch.randn(rows, side, dtype=torch.float64))
    right, _upper = torch.linalg.qr(torch.randn(columns, side, dtype=torch.float64))
    return left * torch.logspace(0, math.log10(least), side, dtype=torch.float64) @ right.T


SHAPES = [(90, 40), (40, 90), (64, 64), (500, 96), (1, 7), (5000, 16)]
SHAPES += [(6, 3, 2, 2)]  # of more dimensions first and rest
PRECISIONS = [torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn]


@pytest.mark.parametrize(
    ("shape", "scale", "dtype"),
    [
        *product(SHAPES, [0.02, 1e-15, 1e15, 0.0], [torch.float32]),
        *(((90, 30), 1.0, dtype) for dtype in PRECISIONS),
    ],
)
def test_all_values_of_random_matrices(shape, scale, dtype):
    """The error of every value below 1e-6, the tail included."""
    matrix = (torch.randn(shape) * scale).to(dtype)
    reference = torch.linalg.svdvals(matrix.flatten(1).double())
    torch.testing.assert_close(spectra.singular_values(matrix), reference, rtol=1e-6, atol=1e-12 * scale)


@pytest.mark.parametrize(("least", "tail"), [(0.3, 1e-6), (0.03, 1e-5), (0.01, 1e-8), (1e-5, 1e-5)])
def test_small_values_are_kept(least, tail):
    """Top 8 to 1e-6; all others, down to 1e-5 of the largest, to `tail`, where G in float32 alone would keep none."""
    matrix = decaying(200, 80, least).float()
    reference = torch.linalg.svdvals(matrix.double())
    found = spectra.singular_values(matrix)
    torch.testing.assert_close(found[:8], reference[:8], rtol=1e-6, atol=0)
    torch.testing.assert_close(found, reference, rtol=tail, atol=0)


def test_float32_is_used_only_where_it_will_do(monkeypatch):
    used = []
    gram = spectra._gram
    monkeypatch.setattr(spectra, "_gram", lambda tall, dtype, top: used.append(dtype) or gram(tall, dtype, top))
    spiky = torch.randn(400, 40) + torch.eye(400, 40)[:, :1] * torch.eye(1, 40) * 500
    for matrix, precisions in [
        (torch.randn(400, 40), [torch.float32]),
        (decaying(400, 40, 0.03).float().T, [torch.float32]),
        (decaying(400, 40, 0.01).float(), [torch.float32, torch.float64]),
        (spiky, [torch.float32, torch.float64]),  # the eighth is small beside the first
        (torch.randn(40, 40), [torch.float64]),
        (torch.randn(400, 40).double(), [torch.float64]),
    ]:
        used.clear()
        found = spectra.singular_values(matrix)
        assert used == precisions
        torch.testing.assert_close(found[:8], torch.linalg.svdvals(matrix.double())[:8], rtol=1e-6, atol=0)


@pytest.mark.parametrize("matrix", [torch.ones(3), torch.ones(0, 3), torch.tensor(1.0), torch.full((2, 2), torch.nan)])
def test_what_has_no_singular_values_is_refused(matrix):
    with pytest.raises(ValueError, match="has no singular values"):
        spectra.singular_values(matrix)


@pytest.mark.parametrize("shape", [(50, 20), (20, 50)])
def test_leading_values_make_the_best_approximation(shape):
    matrix = torch.randn(shape)
    found = spectra.leading(matrix, 5)
    left, values, right = np.linalg.svd(matrix.double().numpy(), full_matrices=False)
    best = left[:, :5] * values[:5] @ right[:5]
    torch.testing.assert_close(found.values, torch.from_numpy(values[:5].copy()))
    torch.testing.assert_close(found.left * found.values @ found.right, torch.from_numpy(best))
    torch.testing.assert_close(found.left.T @ found.left, torch.eye(5, dtype=torch.float64))
    nothing = spectra.leading(torch.zeros(shape), 2)
    assert not nothing.values.any()
    assert not nothing.left.isnan().any()


def test_ranks_of_known_spectra():
    equal, single = torch.full((7,), 3.0), torch.tensor([2.0, 0, 0])
    assert spectra.effective_rank(equal) == pytest.approx(7)
    assert spectra.stable_rank(equal) == pytest.approx(7)
    assert (spectra.effective_rank(single), spectra.stable_rank(single), spectra.condition(single)) == (1, 1, math.inf)
    values = torch.tensor([3.0, 1.0])  # −¾ ln ¾ − ¼ ln ¼; 10 / 9
    assert spectra.effective_rank(values) == pytest.approx(math.exp(0.75 * math.log(4 / 3) + 0.25 * math.log(4)))
    assert (spectra.stable_rank(values), spectra.condition(values)) == (pytest.approx(10 / 9), 3)
    assert spectra.effective_rank(torch.zeros(3)) == spectra.stable_rank(torch.zeros(3)) == 0


def test_matrices_of_a_file_once_and_in_order():
    big, small = torch.randn(300, 200), torch.randn(4, 3)
    broken = torch.tensor([[1.0, torch.nan]])
    infos = [info("big", big), info("vector", torch.ones(3)), info("counts", torch.ones(2, 2, dtype=torch.int64))]
    infos += [info("small", small), info("tied", big, place="big"), info("broken", broken)]
    found = all_spectra(infos)
    assert [each.name for each, _values in found] == ["big", "small", "broken"]
    for (_info, values), matrix in zip(found, (big, small), strict=False):
        torch.testing.assert_close(values, torch.linalg.svdvals(matrix.double()), rtol=1e-6, atol=0)
    assert not len(found[2][1])
