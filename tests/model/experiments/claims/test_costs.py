"""Verdicts on costs, from planted times: they flip where the times do; and a short run of each experiment."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from model.experiments.claims import costs
from model.experiments.claims.costs import judge_growth, judge_heads, judge_ways
from model.experiments.engines import attention_cost
from model.experiments.engines.attention_cost import STEPS, Growth, Point, Sizes, crossing, lengths_up_to, operations
from model.experiments.engines.head_cost import PASSES, PIECES, HeadTimes, head_counts, narrow_and_wide, with_heads
from model.experiments.engines.ratios import Ratio
from model.experiments.engines.timing import Machine, Times
from model.experiments.experiment import Curves, Outcome, Request, Table
from model.experiments.index import experiments
from model.experiments.rule import Verdict

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
        (growing(2, projections=5e-7), Verdict.IN_PART),  # they take longer up to 500 / 3 tokens
        (growing(2, projections=1e-3), Verdict.IN_PART),
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


def said(outcome: Outcome) -> str:
    return "\n".join(map(str, outcome.remarks))


def longer(growth: Growth, factor: float, *steps: str) -> Growth:
    """The same with some steps that take `factor` times as long."""
    points = [
        replace(
            point,
            times={
                step: steady(times.median * (factor if step in steps else 1)) for step, times in point.times.items()
            },
        )
        for point in growth.points
    ]
    return replace(growth, points=tuple(points))


def test_what_an_operation_costs_is_told_by_the_times() -> None:
    assert "takes 33.3 %\xa0of their time: the O hides what an operation costs" in said(judge_growth(growing(2)))
    cheap = judge_growth(longer(growing(2), 10.0, "scores", "values"))
    assert "its operations cost about what those of the products do, or less" in said(cheap)


def test_counted_shares_are_those_of_the_operations() -> None:
    counts = operations(SIZES, 1024)
    three = counts["scores"] + counts["softmax"] + counts["values"]
    softmax, projections = (
        100 * counts["softmax"] / three,
        100 * counts["projections"] / (three + counts["projections"]),
    )
    expected = f"softmax has {softmax:.3g} %\xa0of the operations"
    assert expected in said(judge_growth(growing(2)))
    assert f"have {projections:.3g} %\xa0of all" in said(judge_growth(growing(2)))


def test_the_fused_kernel_stands_beside_the_three_steps() -> None:
    assert "1.05 ms, 3 times as fast" in said(judge_growth(growing(2)))
    assert "0.3 times as fast" in said(judge_growth(longer(growing(2), 10.0, "fused")))


def test_steps_are_drawn_with_their_fits_and_their_counts() -> None:
    times, memory, counts, table = judge_growth(growing(2)).figures
    assert isinstance(times, Curves) and isinstance(memory, Curves) and isinstance(counts, Curves)  # noqa: PT018
    dots, line = times.curves[2:4]
    assert (dots.style, dots.beside, str(line.name), line.beside) == ("dots", False, "Q Kᵀ, fitted", True)
    assert list(line.xs) == [128, 192, 256, 384, 512, 768, 1024]  # the upper part
    assert line.ys == pytest.approx([1e-9 * n**2 for n in line.xs], rel=1e-6)
    assert list(counts.curves[0].ys) == [operations(SIZES, n)["projections"] for n in lengths_up_to(1024)]
    assert isinstance(table, Table)
    assert [str(row[4]) for row in table.rows[:2]] == ["as claimed"] * 2
    assert table.rows[1][5] == pytest.approx(operations(SIZES, 1024)["scores"] / 1024**2)
    assert table.rows[1][3] == "2"
    assert table.rows[1][6] == "2 (2)"
    other = judge_growth(growing(3)).figures[-1]
    assert isinstance(other, Table)
    assert str(other.rows[1][4]) == "faster"
    rough = judge_growth(growing(2, noise=20)).figures[-1]
    assert isinstance(rough, Table)
    assert str(rough.rows[1][4]) == "too uncertain"


def test_a_measurement_says_on_which_machine_it_was_made() -> None:
    assert judge_growth(growing(2)).machine is MACHINE
    assert judge_heads(by_heads(0.0)).machine is MACHINE
    assert str(Machine("CPU", "float32", 2, "MKL")) == "CPU, float32, 2 threads, time by the clock, MKL"


def test_the_three_steps_have_overtaken_from_where_that_stays_so() -> None:
    found = growing(2, projections=1e-9)
    points = [
        replace(point, times=dict(point.times, projections=steady(1.0))) if point.length == 64 else point
        for point in found.points
    ]
    later = next(point.length for point in points if point.length > 64)
    assert replace(found, points=tuple(points)).overtaken() == later
    assert replace(found, points=tuple(point for point in points if point.length <= 64)).overtaken() is None


def test_the_counts_cross_where_it_is_said() -> None:
    crossed = crossing(SIZES)
    for length, more in ((crossed - 1, False), (crossed, True)):
        count = operations(SIZES, length)
        assert (sum(count[step] for step in ("scores", "softmax", "values")) > count["projections"]) is more


def by_heads(power: float, spread: float = 0.01) -> HeadTimes:
    """Times that grow with the number of heads to `power`."""
    several = {heads: with_heads(SIZES, heads) for heads in head_counts(64)}
    times = {}
    for heads in several:
        for piece in PIECES:
            seconds = heads**power if heads > 4 or power < 1 else 1.0
            times[heads, piece] = Times(seconds, seconds * (1 - spread), seconds * (1 + spread), 9)
    return HeadTimes(several, 16, MACHINE, times)


@pytest.mark.parametrize(
    ("timed", "expected"),
    [
        (by_heads(0.0), Verdict.HOLDS),
        (by_heads(0.5), Verdict.WRONG),
        (by_heads(1.0), Verdict.IN_PART),  # up to 4 heads
        (by_heads(0.0, spread=0.9), Verdict.OPEN),
    ],
)
def test_the_verdict_on_heads_follows_their_times(timed: HeadTimes, expected: Verdict) -> None:
    assert judge_heads(timed).verdict is expected


def test_what_more_heads_take_longer_for_is_said() -> None:
    timed = by_heads(0.0)
    slow = {piece: steady(seconds) for piece, seconds in (("explicit", 1.5), ("softmax", 0.9), ("products", 1.25))}
    times = dict(timed.times) | {(32, piece): each for piece, each in slow.items()}
    remark = said(judge_heads(replace(timed, times=times)))
    assert "32 heads change the time of one by 500 ms: the softmax alone by -100 ms" in remark
    assert remark.endswith("matrices by 250 ms")


def test_operations_are_drawn_by_the_number_of_heads() -> None:
    _times, counts, table = judge_heads(by_heads(0.0)).figures
    assert isinstance(counts, Curves)
    products, softmax, together = (list(curve.ys) for curve in counts.curves)
    assert len(set(products)) == 1
    assert softmax == [softmax[0] * heads for heads in head_counts(64)]
    assert together == [a + b for a, b in zip(products, softmax, strict=True)]
    assert isinstance(table, Table)
    assert [row[:2] for row in table.rows] == [[heads, 64 // heads] for heads in head_counts(64)]


def test_the_number_of_heads_that_is_too_many_is_said() -> None:
    assert "first with 8 heads" in str(judge_heads(by_heads(1.0)).reason)


@pytest.mark.parametrize(
    ("wide", "spread", "expected"),
    [(4.0, 0.01, Verdict.HOLDS), (0.5, 0.01, Verdict.IN_PART), (1.0, 0.5, Verdict.OPEN)],
)
def test_the_verdict_on_wide_heads_follows_their_times(wide: float, spread: float, expected: Verdict) -> None:
    times = {}
    for way, seconds in (("narrow", 1.0), ("wide", wide)):
        for name in PASSES:
            times[way, name] = Times(seconds, seconds * (1 - spread), seconds * (1 + spread), 9)
    outcome = judge_ways(HeadTimes(narrow_and_wide(SIZES), 16, MACHINE, times))
    assert outcome.verdict is expected
    assert "4 wide heads have 3.99 times the parameters" in str(outcome.reason)  # the output bias is as long
    bars, table = outcome.figures
    assert isinstance(bars, Curves)
    assert isinstance(table, Table)
    assert [str(tick) for tick in bars.ticks or ()] == ["parameters", "operations", "time forward", "time backward"]
    narrow, broad = table.rows
    assert broad[3] > narrow[3] > 0
    assert bars.curves[1].ys == pytest.approx([3.99, broad[3] / narrow[3], wide, wide], rel=1e-3)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.9, 1.2, "not clearly slower"),
        (1.9, 2.1, "less so than the operations"),
        (4.2, 4.8, "as the operations let expect, or more"),
        (1.9, 4.8, "noise hides"),
    ],
)
def test_wide_heads_beside_what_their_operations_let_expect(low: float, high: float, words: str) -> None:
    assert words in str(costs.beside_operations("forward", Ratio((low + high) / 2, low, high), 4.0))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("attention-cost", {"d_model": 16, "heads": 2, "longest": 128, "batch": 2}),
        ("heads-cost", {"d_model": 16, "length": 16, "batch": 2}),
        ("wide-heads-cost", {"d_model": 16, "heads": 2, "length": 16, "batch": 2}),
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
    with pytest.raises(ValueError, match=r"d_model \(10\) cannot be split among 3 heads: choose one of 1, 2, 5, 10"):
        next(experiments()["attention-cost"].run(request))


def test_texts_that_do_not_fit_are_refused_with_the_longest_that_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_cost, "available", lambda _device: 10_000_000)
    experiment = experiments()["attention-cost"]
    with pytest.raises(ValueError, match=r"1024 tokens need .* 0.01 GB are free: choose up to \d+ tokens") as refusal:
        next(experiment.run(experiment.request(None, "", {})))  # type: ignore[arg-type]
    fitting = int(str(refusal.value).split("choose up to ")[1].split()[0])
    monkeypatch.setattr(costs, "SECONDS", 0.0)
    next(experiment.run(experiment.request(None, "", {"longest": fitting})))  # type: ignore[arg-type]
    monkeypatch.setattr(attention_cost, "available", lambda _device: 200_000)
    with pytest.raises(ValueError, match="make the other numbers smaller"):
        next(experiment.run(experiment.request(None, "", {})))  # type: ignore[arg-type]
