"""Entropy, gradients and saturation against d_k: against formulas in numpy, and a model computed the other way."""

import math

import numpy as np
import pytest
import torch

from model.analysis.attention_maps import Maps
from model.analysis.predictions import derivative_norm
from model.experiments.engines import scaling
from model.experiments.engines.scaling import MOST
from tests.viz.small import small_model

TEXT = "The cat sees the dog."


@pytest.mark.parametrize("on", [False, True])
def test_a_query_is_that_of_the_formulas(on):
    query, key, value, wish = (torch.randn(1, rows, 6).double() for rows in (3, 7, 7, 3))
    found = scaling.attend(query, key, value, wish, scaling.scaled_by(6, on)).numpy()
    q, k, v, y = (each[0].numpy() for each in (query, key, value, wish))
    factor = 1 / math.sqrt(6) if on else 1.0
    for row in range(3):
        raised = np.exp(factor * (k @ q[row]))
        w = raised / raised.sum()
        moves = np.diag(w) - np.outer(w, w)
        gradient = factor * k.T @ moves @ v @ (w @ v - y[row]) / 6
        expected = [-(w * np.log(w)).sum(), np.linalg.norm(moves), np.linalg.norm(gradient)]
        assert found[:, row] == pytest.approx(expected, abs=1e-12)


def test_the_reports_grow_by_one_width_and_the_same_seed_gives_the_same():
    reports = list(scaling.against_width(8, 5, (2, 4, 8)))
    assert [len(report.result.widths) for report in reports] == [1, 2, 3]
    assert reports[-1].share == 1
    again = list(scaling.against_width(8, 5, (2, 4, 8)))[-1].result
    assert torch.equal(again.gradient, reports[-1].result.gradient)
    assert not torch.equal(next(scaling.against_width(8, 6, (2,))).result.entropy, reports[0].result.entropy)
    assert bool((again.entropy <= math.log(8) + 1e-9).all())


def test_the_factor_keeps_the_entropy_and_without_it_the_softmax_saturates():
    found = list(scaling.against_width(16, 0, (2, 256)))[-1].result
    entropy = found.entropy.mean(dim=-1)
    assert abs(float(entropy[1, 0] - entropy[1, 1])) < 0.3
    assert entropy[0, 1] < 0.2 * entropy[1, 1]


def test_where_ratios_stay_below_and_up_to_where_they_are_alike():
    widths = (2, 4, 8, 16)
    assert scaling.first_below(widths, torch.tensor([1.0, 0.05, 0.2, 0.01]), 0.1) == 16  # only what stays below
    assert scaling.first_below(widths, torch.tensor([1.0, 0.05, 0.02, 0.01]), 0.1) == 4
    assert scaling.first_below(widths, torch.tensor([1.0, 0.05, 0.02, 0.1]), 0.1) is None
    assert scaling.last_alike(widths, torch.tensor([1.0, 1.9, 2.1, 1.0]), 2.0) == 4
    assert scaling.last_alike(widths, torch.tensor([0.4, 1.0, 1.0, 1.0]), 2.0) is None


@pytest.mark.parametrize("position", ["sinusoidal", "alibi", "relative"])
@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_a_models_heads_both_ways(tmp_path, kind, position):
    model = small_model(tmp_path / "a", position=position)
    trace = model.trace(TEXT, model.target_tokenizer.label(6) * 4)
    maps = Maps(trace, kind)
    found = scaling.both_ways(maps)
    assert found.d_k == 8
    assert found.factor == pytest.approx(8**-0.5)
    for layer in range(maps.layers):
        path = maps.paths[layer]
        weights = trace[f"{path}.weights"].double()
        entropies = -(weights * weights.clamp(min=1e-300).log()).sum(dim=-1).mean(dim=-1)
        assert torch.allclose(found.entropy[1, layer], entropies, atol=1e-5)
        masked = trace[f"{path}.masked"].double()
        raw = trace[f"{path}.scores"].double()
        other = (masked + raw * (1 - 8**-0.5)).softmax(dim=-1)  # the same, with the factor taken out
        entropies = torch.special.entr(other).sum(dim=-1).mean(dim=-1)
        assert torch.allclose(found.entropy[0, layer], entropies, atol=1e-5)
        moves = [[np.linalg.norm(np.diag(w) - np.outer(w, w)) for w in head] for head in weights.numpy()]
        expected = torch.tensor(moves).median(dim=-1).values
        assert torch.allclose(found.derivative[1, layer], expected, atol=1e-5)


def test_of_a_long_text_every_kth_query_is_taken(tmp_path, monkeypatch):
    maps = Maps(small_model(tmp_path / "a").trace(TEXT), "encoder")
    monkeypatch.setattr("model.analysis.attention_maps.CELLS", maps.heads * maps.queries * maps.keys // 2)
    weights = maps.trace[f"{maps.paths[0]}.weights"].double()[:, ::2]
    expected = torch.special.entr(weights).sum(dim=-1).mean(dim=-1)
    assert torch.allclose(scaling.both_ways(maps).entropy[1, 0], expected, atol=1e-5)


def test_two_scores_saturate_where_the_formula_says():
    found = scaling.thresholds(torch.tensor([0.0, 1.0]))
    assert found.sure == pytest.approx(math.log(99), rel=1e-3)  # 1 / (1 + e^-f) = 0.99
    factors = np.arange(10, 30, 0.001)
    first = factors[1 / (1 + np.exp(-factors.astype(np.float32))) == 1][0]
    assert found.own_gradient == pytest.approx(first, abs=0.5)
    smallest = float(np.finfo(np.float32).smallest_subnormal)
    assert 0.8 * -math.log(float(np.finfo(np.float32).tiny)) < found.all_gradients < 1.02 * -math.log(smallest)
    half = scaling.thresholds(torch.tensor([0.0, 0.5]))
    assert half.sure == pytest.approx(2 * found.sure, rel=1e-3)


def test_equal_or_single_scores_never_saturate():
    found = scaling.thresholds(torch.tensor([2.0, 4.0, 4.0]))
    assert (found.sure, found.own_gradient) == (None, None)
    assert scaling.thresholds(torch.tensor([3.0])).sure is None


def test_the_jacobian_is_that_of_the_formula_and_its_norm_exact_where_one_weight_is_nearly_1():
    scores = torch.randn(7).double()
    w = scores.softmax(dim=-1).numpy()
    expected = np.diag(w) - np.outer(w, w)
    assert np.allclose(scaling.jacobian(scores), expected, atol=1e-14)
    assert np.allclose(scaling.jacobian(scores, 3), expected[3:4], atol=1e-14)
    assert np.allclose(derivative_norm(scores.softmax(dim=-1)[None]), np.linalg.norm(expected), atol=1e-14)
    tiny = 1e-30
    assert float(derivative_norm(torch.tensor([1.0, tiny]).double())) == pytest.approx(2 * tiny)  # four cells of ±w


def test_the_first_factor_is_found_by_halving():
    assert scaling.first_factor(lambda factor: factor > 123.4) == pytest.approx(123.4, rel=2e-4)
    assert scaling.first_factor(lambda factor: False) is None
    assert scaling.first_factor(lambda factor: factor > 2e-9) == pytest.approx(2e-9, rel=2e-4)
    assert scaling.first_factor(lambda factor: True) == 1 / MOST


def test_large_scores_saturate_at_small_factors():
    found, small = scaling.thresholds(torch.tensor([0.0, 1e6, 2e6])), scaling.thresholds(torch.tensor([0.0, 1.0, 2.0]))
    assert found.sure == pytest.approx(small.sure * 1e-6, rel=2e-4)
    assert found.own_gradient == pytest.approx(small.own_gradient * 1e-6, rel=1e-2)
