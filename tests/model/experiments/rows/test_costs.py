"""Verdicts on costs, from planted times: they flip where the times do; and a short run of each experiment."""

from __future__ import annotations

import pytest
import torch

from model.experiments.attention_cost import STEPS, Growth, Point, Sizes, crossing, lengths_up_to, operations
from model.experiments.experiment import Request, Verdict
from model.experiments.head_cost import PASSES, PIECES, Timed, head_counts, narrow_and_wide, with_heads
from model.experiments.index import experiments
from model.experiments.rows import costs
from model.experiments.rows.costs import judge_growth, judge_heads, judge_ways
from model.experiments.timing import Machine, Times

CPU = torch.device("cpu")
MACHINE = Machine("CPU", "float32", 1, "BLAS")
SIZES = Sizes(batch=1, heads=4, width=16, device=CPU, dtype=torch.float32)


def steady(seconds: float) -> Times:
    return Times(seconds, 0.99 * seconds, 1.01 * seconds, 9)


def growing(exponent: float, projections: float = 1e-9, noise: float = 0.0) -> Growth:
    """Times that grow with n to `exponent`, every second one longer by the share `noise`."""
    points = []
    for number, length in enumerate(lengths_up_to(1024)):
        seconds = 1e-9 * length**exponent * (1 + noise * (number % 2))
        times = {step: steady(seconds) for step in STEPS} | {"projections": steady(projections * length)}
        points.append(Point(length, times, operations(SIZES, length)))
    return Growth(SIZES, MACHINE, tuple(points))


@pytest.mark.parametrize(
    ("growth", "expected"),
    [
        (growing(2), Verdict.HOLDS),
        (growing(2, projections=5e-7), Verdict.ONLY_IF),  # they take longer up to 500 / 3 tokens
        (growing(2, projections=1e-3), Verdict.ONLY_IF),
        (growing(1), Verdict.WRONG),
        (growing(3), Verdict.WRONG),
        (growing(2, noise=20), Verdict.OPEN),
    ],
)
def test_the_verdict_on_growth_follows_the_exponents_and_the_projections(growth: Growth, expected: Verdict) -> None:
    assert judge_growth(growth).verdict is expected


def test_the_length_from_which_it_holds_is_said() -> None:
    said = str(judge_growth(growing(2, projections=5e-7)).reason)
    assert "from 192 tokens on" in said  # 3 n² > 500 n from 167 on, of which 192 is the first that is measured
    assert f"below {crossing(SIZES)} tokens" in said
    assert "up to 1,024 tokens" in str(judge_growth(growing(2, projections=1e-3)).reason)


def by_heads(power: float, spread: float = 0.01) -> Timed:
    """Times that grow with the number of heads to `power`."""
    several = {heads: with_heads(SIZES, heads) for heads in head_counts(64)}
    times = {}
    for heads in several:
        for piece in PIECES:
            seconds = heads**power if heads > 4 or power < 1 else 1.0
            times[heads, piece] = Times(seconds, seconds * (1 - spread), seconds * (1 + spread), 9)
    return Timed(several, 16, MACHINE, times)


@pytest.mark.parametrize(
    ("timed", "expected"),
    [
        (by_heads(0.0), Verdict.HOLDS),
        (by_heads(0.5), Verdict.WRONG),
        (by_heads(1.0), Verdict.ONLY_IF),  # up to 4 heads
        (by_heads(0.0, spread=0.9), Verdict.OPEN),
    ],
)
def test_the_verdict_on_heads_follows_their_times(timed: Timed, expected: Verdict) -> None:
    assert judge_heads(timed).verdict is expected


def test_the_number_of_heads_that_is_too_many_is_said() -> None:
    assert "first with 8 heads" in str(judge_heads(by_heads(1.0)).reason)


@pytest.mark.parametrize(
    ("wide", "spread", "expected"),
    [(4.0, 0.01, Verdict.HOLDS), (0.5, 0.01, Verdict.ONLY_IF), (1.0, 0.5, Verdict.OPEN)],
)
def test_the_verdict_on_wide_heads_follows_their_times(wide: float, spread: float, expected: Verdict) -> None:
    times = {}
    for way, seconds in (("narrow", 1.0), ("wide", wide)):
        for name in PASSES:
            times[way, name] = Times(seconds, seconds * (1 - spread), seconds * (1 + spread), 9)
    outcome = judge_ways(Timed(narrow_and_wide(SIZES), 16, MACHINE, times))
    assert outcome.verdict is expected
    assert "4 wide heads have 3.99 times the parameters" in str(outcome.reason)  # the output bias is as long


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("attention-cost", {"d_model": 16, "heads": 2, "longest": 128}),
        ("heads-cost", {"d_model": 16, "length": 16}),
        ("wide-heads-cost", {"d_model": 16, "heads": 2, "length": 16}),
    ],
)
def test_each_runs_to_its_end(name: str, values: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "SECONDS", 0.0)
    experiment = experiments()[name]
    reports = list(experiment.run(experiment.request(None, "", values)))  # type: ignore[arg-type]
    assert reports[-1].share > 0.9
    assert reports[-1].result.figures


def test_heads_that_do_not_divide_are_refused() -> None:
    request = Request(None, "", {"d_model": 10, "heads": 3, "longest": 64})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"d_model \(10\) must be divisible by heads \(3\)"):
        next(experiments()["attention-cost"].run(request))
