"""Verdicts of what things cost, from made numbers: each must be able to come out the other way."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from model.experiments.attention_cost import STEPS, Growth, Point, Sizes, crossing, lengths_up_to, operations
from model.experiments.head_cost import PASSES, PIECES, Timed, counted, head_counts, narrow_and_wide, with_heads
from model.experiments.timing import Machine, Times, fit
from model.experiments.weight_tying import every_kind
from tests.model.experiments.test_weight_tying import SMALL
from viz.pages.lab import attention_growth, experiment, head_cost, weight_tying

SIZES = Sizes(batch=1, heads=4, width=16, device=torch.device("cpu"), dtype=torch.float32)
HERE = Machine("CPU", "float32", 1, "MKL", True)


def times(seconds: float) -> Times:
    return Times(seconds, 0.9 * seconds, 1.1 * seconds, 7)


def grown(**powers: float) -> Growth:
    """Times that grow as a power of n, 2 where none is said; softmax takes as long as the other two steps."""
    points = []
    for length in lengths_up_to(512):
        seconds = {step: 1e-9 * length ** powers.get(step, 2.0) for step in STEPS}
        memory = {step: 4 * length * (length if step in ("scores", "softmax") else 64) for step in STEPS}
        points.append(Point(length, {step: times(each) for step, each in seconds.items()}, memory))
    return Growth(SIZES, HERE, tuple(points))


def test_exponents_that_are_claimed_and_that_are_not() -> None:
    said = "\n".join(attention_growth.verdicts(grown(scores=2.0, softmax=2.4, values=1.6)))
    assert "CPU · float32 · 1 thread · time of this thread alone · products by MKL" in said
    assert "Time of Q Kᵀ: exponent 2.00 ± 0.00, as n², within its error." in said
    assert "Time of softmax: exponent 2.40 ± 0.00, grows faster than n²." in said
    assert "Time of weights · V: exponent 1.60 ± 0.00, grows more slowly than n²." in said


def test_a_rough_fit_tells_nothing() -> None:
    rough = fit([1, 2, 4, 8], [1.0, 30.0, 2.0, 80.0])
    assert attention_growth.exponent_verdict(rough, 2) == "too uncertain to tell"
    assert attention_growth.exponent_verdict(fit([1, 2], [1.0, 4.0]), 2) == "too few lengths to tell"
    assert attention_growth.exponent_verdict(None, 2) == "too few lengths to tell"


def test_what_an_operation_costs_is_told_by_the_times() -> None:
    assert "the O hides what an operation costs" in "\n".join(attention_growth.verdicts(grown()))
    cheap = "\n".join(attention_growth.verdicts(grown(softmax=1.2)))
    assert "its operations cost about what those of the products do, or less" in cheap


def test_where_the_three_steps_overtake_the_projections() -> None:
    assert "from n = 32 on" in attention_growth.overtaking(grown())
    assert "At n = 512, the longest measured" in attention_growth.overtaking(grown(projections=3.0))
    crossed = crossing(SIZES)
    parts = ("scores", "softmax", "values")
    for length, more in ((crossed - 1, False), (crossed, True)):
        count = operations(SIZES, length)
        assert (sum(count[part] for part in parts) > count["projections"]) is more


def test_the_three_steps_have_overtaken_from_where_that_stays_so() -> None:
    found = grown()
    points = [
        replace(point, times=dict(point.times, projections=times(1.0))) if point.length == 64 else point
        for point in found.points
    ]
    later = next(point.length for point in points if point.length > 64)
    assert replace(found, points=tuple(points)).overtaken() == later
    ended = replace(found, points=tuple(point for point in points if point.length <= 64))
    assert ended.overtaken() is None
    assert "At n = 64, the longest measured" in attention_growth.overtaking(ended)


def test_counts_and_times_are_drawn_with_their_fits() -> None:
    counts = attention_growth.counts(SIZES, 512)
    assert [each.name for each in counts.series] == [
        "four projections n^1.00",
        "Q Kᵀ n^2.00",
        "softmax n^2.00",
        "weights · V n^2.00",
    ]
    assert list(counts.series[0].ys) == [operations(SIZES, n)["projections"] for n in lengths_up_to(512)]
    (times, memory, _counts), (_table,) = attention_growth.measured(grown(fused=1.5)).rows
    dots, line = times.series[8:10]
    assert dots.name == "fused kernel n^1.50"
    assert line.dash
    assert list(line.xs) == [64, 96, 128, 192, 256, 384, 512]  # the upper part
    assert line.ys == pytest.approx([1e-9 * n**1.5 for n in line.xs], rel=1e-4)
    assert memory.table().columns.tolist() == ["step", "length n", "bytes"]
    assert len(attention_growth.numbers(grown())) == len(STEPS) * len(lengths_up_to(512))
    row = attention_growth.summary(SIZES, 512, grown()).iloc[1]
    assert row["measured: exponent of n"] == "2.00 ± 0.00"
    assert row["time"] == "as n², within its error"


def by_heads(factor: float) -> Timed:
    """Each doubling of h takes `factor` times as long."""
    several = {heads: with_heads(SIZES, heads) for heads in head_counts(64)}
    found = {(h, piece): times(1e-3 * factor ** (h.bit_length() - 1)) for h in several for piece in PIECES}
    return Timed(several, 32, HERE, found)


def test_heads_that_cost_the_same_more_and_less() -> None:
    for factor, words in (
        (1.02, "the same within 10 %."),
        (1.3, "many heads cost more."),
        (0.8, "many heads cost less."),
    ):
        said = head_cost.head_verdicts(by_heads(factor), 4)
        assert all(line.split(" More than")[0].endswith(words) for line in said[1:3]), said
    slower = head_cost.head_verdicts(by_heads(1.3), 4)
    assert "from h = 2 on; with h = 32 it is 3.71 times" in slower[1]
    assert slower[-1].endswith(
        "beside one head: +2.71 ms; softmax alone +2.71 ms, the same products in smaller matrices +2.71 ms."
    )
    assert "beside one head: −672 µs; softmax" in head_cost.head_verdicts(by_heads(0.8), 4)[-1]


def test_heads_are_slower_from_where_on_all_are() -> None:
    found = by_heads(1.3)
    again = replace(found, times=dict(found.times) | {(8, piece): times(1e-3) for piece in PIECES})
    assert "from h = 16 on" in head_cost.head_verdicts(again, 4)[1]
    fast = replace(found, times=dict(found.times) | {(32, piece): times(1e-3) for piece in PIECES})
    assert "More than" not in head_cost.head_verdicts(fast, 4)[1]


def test_the_counts_of_heads() -> None:
    found = by_heads(1.0)
    said = head_cost.counts_verdict(found.sizes, 32, 4)
    assert f"{counted(SIZES, 32)['products']:,} operations for every h" in said
    other = dict(found.sizes) | {2: replace(SIZES, heads=2)}
    assert "not the same for every h" in head_cost.counts_verdict(other, 32, 4)


@pytest.mark.parametrize(
    ("ratio", "words"),
    [(1.0, "not slower here"), (2.0, "less so than the operations"), (4.5, "as the operations let expect, or more")],
)
def test_wide_heads_beside_what_the_operations_let_expect(ratio, words) -> None:
    both = narrow_and_wide(SIZES)
    found = {("narrow", piece): times(1e-3) for piece in PASSES} | {("wide", p): times(1e-3 * ratio) for p in PASSES}
    timed = Timed(both, 32, HERE, found)
    assert all(words in line for line in head_cost.way_verdicts(timed)[1:])
    chart = head_cost.ways_chart(both, 32, timed)
    assert chart.x.labels == ["parameters", "operations", "time forward", "time backward"]
    assert chart.series[1].ys[2:] == pytest.approx([ratio, ratio])


def test_tying_saves_or_does_not() -> None:
    kinds = every_kind(SMALL)
    assert "output and all embeddings 176" in weight_tying.verdict("small", kinds)
    assert "Sharing saves: nothing." in weight_tying.verdict(
        "small", [replace(kinds[0], kind=each.kind) for each in kinds]
    )
    other = weight_tying.verdict("other", every_kind(replace(SMALL, target_vocabulary=7)))
    assert "Not here: tied_embeddings 'all' needs one vocabulary" in other
    assert "exactly the counted weights" in weight_tying.check({"small": kinds})
    assert "the count is wrong" in weight_tying.check({"small": [replace(kinds[0], built=1)]})


def test_durations_have_units_that_fit() -> None:
    assert [experiment.duration(each) for each in (2e-5, 0.02, 3.0)] == ["20 µs", "20 ms", "3 s"]
    threads = experiment.machine_words(Machine("CPU", "bfloat16", 2, "oneDNN"))
    assert threads == "CPU · bfloat16 · 2 threads · time by the clock · products by oneDNN"
    assert "thread" not in experiment.machine_words(Machine("NVIDIA H200", "float16", 2, "cuBLAS"))
