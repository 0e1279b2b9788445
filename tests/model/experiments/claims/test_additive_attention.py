"""Additive and dot-product scores against loops, and the verdict where it must flip."""

from __future__ import annotations

import math

import pytest
import torch

from model.experiments.claims import additive_attention
from model.experiments.claims.additive_attention import (
    NAMES,
    WAYS,
    Point,
    ScoreMeasurements,
    Way,
    additive_scores,
    dot_product_scores,
    doubled,
    judge,
    measure,
    outcome,
    work,
)
from model.experiments.engines.timing import Times
from model.experiments.experiment import Request
from model.experiments.rule import Verdict
from tests.model.experiments.claims.judging import verdict_of

SMALL = Request(None, "", {"longest": 64, "width": 16, "widest": 16, "length": 32})


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive_attention, "SECONDS", 0.03)


def test_scores_are_those_of_the_formulas() -> None:
    query, key, v = torch.randn(3, 4), torch.randn(5, 4), torch.randn(4)
    for i in range(3):
        for j in range(5):
            pair = [(float(q), float(k), float(w)) for q, k, w in zip(query[i], key[j], v, strict=True)]
            added = sum(w * math.tanh(q + k) for q, k, w in pair)
            assert float(additive_scores(query, key, v)[i, j]) == pytest.approx(added, abs=1e-5)
            product = sum(q * k for q, k, _w in pair) / 2
            assert float(dot_product_scores(query, key, v)[i, j]) == pytest.approx(product, abs=1e-5)


def test_dot_product_attention_is_torchs_own() -> None:
    query, key, value = (torch.randn(6, 4, dtype=torch.float64) for _ in range(3))
    weights = dot_product_scores(query, key, torch.ones(4, dtype=torch.float64)).softmax(dim=-1)
    expected = torch.nn.functional.scaled_dot_product_attention(query[None], key[None], value[None])[0]
    torch.testing.assert_close(weights @ value, expected)


def test_additive_scores_take_d_times_the_memory_and_sizes_are_measured_in_order() -> None:
    *_, last = measure(SMALL)
    found = last.result
    assert last.share == pytest.approx(1.0)
    assert [point.length for point in found.over_length] == doubled(64, 32) == [32, 64]
    assert [point.width for point in found.over_width] == [8, 16]
    point = found.over_length[-1]
    assert (
        work(4096, 64) > 10 * work(1024, 64) > 10 * work(32, 64)
    )  # shares of the time, of which small ones have a least
    assert point.memory["additive"] >= 2 * 4 * 64 * 64 * 16
    assert point.memory["dot-product"] < 4 * 4 * 64 * 64
    assert len(outcome(found).figures) == 5


def test_a_dot_product_made_slow_flips_the_verdict() -> None:
    def many_times(query: torch.Tensor, key: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return sum(additive_scores(query, key, v) for _ in range(20)) / 20

    planted = {
        "additive": WAYS["additive"],
        "dot-product": Way(many_times, WAYS["dot-product"].operations),
    }
    *_, last = measure(SMALL, planted)
    assert outcome(last.result).verdict is Verdict.WRONG


def test_a_size_without_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive_attention, "available", lambda _device: 100_000)
    with pytest.raises(ValueError, match=r"on 64 tokens of width 16 needs 0.0 GB of memory and 0.0 GB are free"):
        next(measure(SMALL))


def compared(*speeds: float, ratio: float = 1.5) -> ScoreMeasurements:
    """Sizes with additive attention so many times as slow; 10 % of noise."""
    points = []
    for number, speed in enumerate(speeds):
        times = {
            name: Times(seconds, 0.95 * seconds, 1.05 * seconds, 5)
            for name, seconds in (("additive", speed), ("dot-product", 1.0))
        }
        counted = {"additive": round(1000 * ratio), "dot-product": 1000}
        points.append(Point(32 * 2**number, 8, times, dict.fromkeys(NAMES, 1), counted))
    return ScoreMeasurements(points)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (compared(3.0, 20.0), Verdict.HOLDS),
        (compared(3.0, 20.0, ratio=2.5), Verdict.WRONG),
        (compared(0.5, 0.4), Verdict.WRONG),
        (compared(0.5, 3.0), Verdict.IN_PART),
        (compared(1.02, 3.0), Verdict.OPEN),
        (compared(1.13, 3.0), Verdict.OPEN),  # the quartiles do not meet, but what five runs leave of the medians does
    ],
)
def test_the_verdict_follows_operations_and_times(found: ScoreMeasurements, verdict: Verdict) -> None:
    assert verdict_of(judge(found)[0]) is verdict
