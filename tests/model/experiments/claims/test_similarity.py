"""Dot products, softmax and 1/√d_k: the verdicts as they are, and flipped by what is planted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from model.experiments.claims.similarity import (
    counter_example,
    find_dot_product,
    run_scaling,
    run_softmax,
    scaling_outcome,
    share_alike,
    softmax,
    softmax_outcome,
)
from model.experiments.engines.scaling import Against, against_width
from model.experiments.engines.similarity import cosines, dots
from model.experiments.engines.timing import Times
from model.experiments.rule import Verdict
from tests.model.experiments.claims.judging import judged, planted, request_of


@pytest.mark.parametrize(("spread", "expected"), [(1.0, Verdict.IN_PART), (0.0, Verdict.HOLDS)])
def test_a_dot_product_is_a_similarity_only_at_equal_norms(spread: float, expected: Verdict) -> None:
    assert judged("dot-product", spread=spread).verdict is expected


@pytest.mark.parametrize(("product", "expected"), [(cosines, Verdict.HOLDS), (lambda q, k: -dots(q, k), Verdict.WRONG)])
def test_another_product_flips_it(product: Any, expected: Verdict) -> None:
    assert planted(find_dot_product, "dot-product", product=product) is expected


def test_pairs_are_counted_as_numpy_counts_them() -> None:
    one, other = (torch.randn(3, 6, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    pairs = [
        np.sign(a[i] - a[j]) == np.sign(b[i] - b[j])
        for a, b in zip(one.numpy(), other.numpy(), strict=True)
        for i in range(6)
        for j in range(i)
    ]
    assert share_alike(one, other) == pytest.approx(np.mean(pairs))


def test_the_counter_example_is_one() -> None:
    table = counter_example(1.0, 1)
    (_, length, product, cosine), (_, other_length, other_product, other_cosine) = table.rows
    assert product > other_product
    assert cosine < other_cosine
    assert product == pytest.approx(length * cosine, rel=1e-6)
    assert other_product == pytest.approx(other_length * other_cosine, rel=1e-6)


def times(exponent: float, noise: float = 0.0) -> dict[int, Times]:
    """Times as n to this power; every other one longer by the noise."""
    lengths = [2**power for power in range(14, 21)]
    seconds = [1e-9 * n**exponent * (1 + noise * (place % 2)) for place, n in enumerate(lengths)]
    return {n: Times(each, each, each, 5) for n, each in zip(lengths, seconds, strict=True)}


@pytest.mark.parametrize(
    ("exponent", "noise", "turn", "expected"),
    [
        (1.0, 0.0, softmax, Verdict.HOLDS),
        (1.0, 0.2, softmax, Verdict.HOLDS),
        (2.0, 0.0, softmax, Verdict.WRONG),
        (1.45, 1.0, softmax, Verdict.OPEN),
        (1.0, 0.0, torch.sigmoid, Verdict.WRONG),
        (1.0, 0.0, lambda x: x / x.sum(), Verdict.WRONG),
    ],
)
def test_a_softmax_is_judged_by_its_sums_and_by_the_growth_of_its_time(
    exponent: float, noise: float, turn: Any, expected: Verdict
) -> None:
    assert softmax_outcome(request_of("softmax"), times(exponent, noise), turn).verdict is expected


def test_too_few_lengths_leave_it_open() -> None:
    two = dict(list(times(1.0).items())[:2])
    assert softmax_outcome(request_of("softmax"), two, softmax).verdict is Verdict.OPEN


def test_a_softmax_is_timed_here() -> None:
    *_others, last = run_softmax(request_of("softmax", largest=1 << 16))
    assert last.result.verdict in (Verdict.HOLDS, Verdict.OPEN)
    assert all(0 < quantity.values[0] < 1 for quantity in last.result.quantities[2:])


@pytest.mark.parametrize(("largest", "expected"), [(1024, Verdict.HOLDS), (256, Verdict.IN_PART), (16, Verdict.WRONG)])
def test_without_the_factor_a_large_width_saturates(largest: int, expected: Verdict) -> None:
    assert judged("scaled-scores", largest=largest).verdict is expected


def test_it_would_be_wrong_if_the_factor_changed_nothing() -> None:
    def same(*settings: Any) -> Iterator[Any]:
        for report in against_width(*settings):
            both = {
                name: getattr(report.result, name)[1:].expand(2, -1, -1)
                for name in ("entropy", "derivative", "gradient")
            }
            yield replace(report, result=replace(report.result, **both))

    *_others, last = run_scaling(request_of("scaled-scores"), same)
    assert last.result.verdict is Verdict.WRONG


@pytest.mark.parametrize(
    ("unscaled", "from_width", "words"),
    [
        ((1.0, 1.0, 0.01), 8, "up to d_k = 4 the two derivatives differ by less than a factor 2"),
        ((1.0, 1.0, 0.9), "—", "up to d_k = 8"),
        ((0.05, 0.05, 0.05), 2, "already at d_k = 2"),
    ],
)
def test_where_gradients_are_lost_is_a_table_and_where_the_factor_hardly_matters_a_remark(
    unscaled: tuple[float, ...], from_width: int | str, words: str
) -> None:
    values = torch.stack([torch.tensor(unscaled), torch.ones(3)])[..., None].double()
    outcome = scaling_outcome([Against((2, 4, 8), 5, values, values, values)])
    assert words in str(outcome.remarks[0])
    table = outcome.figures[-1]
    assert [row[1:] for row in table.rows] == [(from_width, pytest.approx(unscaled[-1]))] * 3  # type: ignore[union-attr]
