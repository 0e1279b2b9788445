"""Additive beside dot-product attention (Bahdanau et al., 2015, A.1.2; Vaswani et al., 2017, section 3.2.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from model.experiments.engines.attention_cost import upper_fit
from model.experiments.engines.ratios import Ratio, ratio
from model.experiments.engines.timing import SECONDS, Task, Times, peak_memory, rounds
from model.experiments.experiment import Curve, Curves, Experiment, Group, Outcome, Parameter, Request, Table
from model.experiments.rule import Condition, Quantity, Rule, Verdict, at_most, clearly_above, every, some
from model.experiments.runner import Report
from model.message import InputError, Message, say
from model.runtime.device import choose_device, give_back_memory
from model.runtime.memory import SPARE, available

ROUNDS = 5
ALIKE = 2.0  # times the operations of the other: within it, costs are about the same
SHORTEST, NARROWEST = 32, 8
COPIES = 3  # of the largest tensor (query, key, channel) that exist at a time

Queries = Float[Tensor, "query channel"]
Keys = Float[Tensor, "key channel"]


def additive_scores(query: Queries, key: Keys, v: Float[Tensor, " channel"]) -> Float[Tensor, "query key"]:
    """Scores vᵀ tanh(q + k) of projected queries q = W s and keys k = U h: a small network for each pair of them."""
    return (query[:, None] + key).tanh() @ v


def dot_product_scores(query: Queries, key: Keys, v: Float[Tensor, " channel"]) -> Float[Tensor, "query key"]:
    """Scores q · k / √d: one product of matrices for all pairs. v: not read."""
    return query @ key.mT / math.sqrt(query.shape[-1])


def additive_operations(length: int, width: int) -> int:
    """A sum and a tanh (as one) for each channel of each pair, and a product with v."""
    return length**2 * (2 * width + 2 * width)


def dot_product_operations(length: int, width: int) -> int:
    """A multiply-add for each channel of each pair, and the quotient."""
    return length**2 * (2 * width + 1)


@dataclass(frozen=True)
class Way:
    """A way to compare queries with keys. operations: of the scores of n tokens of width d."""

    scores: Callable[[Tensor, Tensor, Tensor], Tensor]
    operations: Callable[[int, int], int]


WAYS = {
    "additive": Way(additive_scores, additive_operations),
    "dot-product": Way(dot_product_scores, dot_product_operations),
}
NAMES: Mapping[str, str] = {"additive": say("additive"), "dot-product": say("dot product")}


def rest_operations(length: int, width: int) -> int:
    """Operations behind the scores, the same for both: softmax and the sum of the values. Projections are left out."""
    return length * (5 * length - 2) + 2 * length**2 * width


@dataclass(frozen=True)
class Point:
    """Numbers of both ways at one size. operations: with those behind the scores. memory: peak bytes of tensors."""

    length: int
    width: int
    times: Mapping[str, Times]
    memory: Mapping[str, int]
    operations: Mapping[str, int]

    @property
    def ratio(self) -> float:
        """Operations of additive attention, in times those of the dot product."""
        return self.operations["additive"] / self.operations["dot-product"]

    @property
    def slowdown(self) -> float:
        """Time of additive attention, in times that of the dot product."""
        return self.relative.value

    @property
    def slower(self) -> Condition:
        """Additive attention is slower by more than the noise of the medians."""
        name = say("time of additive attention, in times of the dot product's")
        return clearly_above(self.relative.quantity(name), 1.0)

    @property
    def relative(self) -> Ratio:
        """Time of additive attention over that of the dot product, with its interval."""
        return ratio(self.times["additive"], self.times["dot-product"])


@dataclass(frozen=True)
class ScoreMeasurements:
    """Points over the length, at one width, and over the width, at one length."""

    over_length: Sequence[Point] = ()
    over_width: Sequence[Point] = ()

    @property
    def points(self) -> list[Point]:
        return [*self.over_length, *self.over_width]


def doubled(longest: int, shortest: int) -> list[int]:
    """Numbers by halving from the longest down to the shortest, in rising order."""
    return [longest >> halvings for halvings in range(longest.bit_length()) if longest >> halvings >= shortest][::-1]


def measure(request: Request, ways: Mapping[str, Way] = WAYS) -> Iterator[Report[ScoreMeasurements]]:
    """Compare both ways over the length and over the width.

    Raises:
        ValueError: the largest size does not fit into memory.
    """
    length, width, longest, widest = (request.values[name] for name in ("length", "width", "longest", "widest"))
    lengths = [(each, width) for each in doubled(longest, SHORTEST)]
    sizes = [*lengths, *((length, each) for each in doubled(widest, NARROWEST))]
    device = choose_device()
    require_room(*max(sizes, key=lambda size: size[0] ** 2 * size[1]), device)
    points: list[Point] = []
    done, due = 0.0, sum(work(*size) for size in sizes)
    for n, d in sizes:
        for newest, share in at_size(n, d, ways, device):
            progress = (done + share * work(n, d)) / due
            yield Report(progress, measurements([*points, newest], len(lengths)))
        done += work(n, d)
        points.append(newest)
    yield Report(1.0, measurements(points, len(lengths)))


def work(length: int, width: int) -> float:
    """Part of the whole time that a size takes, about: a minimum, and the rest by its operations."""
    return 1 + length**2 * width / 15e6


def measurements(points: Sequence[Point], lengths: int) -> ScoreMeasurements:
    """Points so far, of which the first ones, as many as `lengths`, are those over the length."""
    return ScoreMeasurements(points[:lengths], points[lengths:])


def require_room(length: int, width: int, device: torch.device) -> None:
    """Check that a size fits into memory.

    Raises:
        ValueError: it does not fit.
    """
    give_back_memory()
    needed, free = 4 * COPIES * length**2 * width, available(device)
    if SPARE * needed > free:
        raise InputError(
            "additive attention on {length} tokens of width {width} needs {needed:.1f} GB of memory and "
            "{free:.1f} GB are free: choose fewer",
            length=length,
            width=width,
            needed=needed / 1000000000.0,
            free=free / 1000000000.0,
        )


def at_size(length: int, width: int, ways: Mapping[str, Way], device: torch.device) -> Iterator[tuple[Point, float]]:
    """Numbers of both ways at one size so far, and the share of the measurement that is done."""
    draw = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(length, width, generator=draw).to(device) for _ in range(3))
    v = torch.randn(width, generator=draw).to(device)

    def attend(way: Way) -> Callable[[object], Tensor]:
        return lambda _given: way.scores(query, key, v).softmax(dim=-1) @ value

    tasks = {name: Task(attend(way)) for name, way in ways.items()}
    with torch.inference_mode():
        memory = {name: peak_memory(task) for name, task in tasks.items()}
        rest = rest_operations(length, width)
        counted = {name: way.operations(length, width) + rest for name, way in ways.items()}
        for times in rounds(tasks, device, ROUNDS, SECONDS):
            runs = next(iter(times.values())).runs
            spent = runs * sum(each.median for each in times.values())
            yield Point(length, width, times, memory, counted), min(1.0, runs / ROUNDS, spent / SECONDS)


def judge(results: ScoreMeasurements) -> tuple[Rule, Message]:
    """Rule: costs are operations, within a factor of `ALIKE`; slower is what exceeds the noise."""
    points = results.points
    most = max(points, key=lambda point: point.ratio)
    slowest = max(points, key=lambda point: point.slowdown)
    fits = say(
        "additive attention has at most {ratio} times the operations, and takes up to {times} times as long "
        "({length} tokens, d = {width})",
        ratio=most.ratio,
        times=slowest.slowdown,
        length=slowest.length,
        width=slowest.width,
    )
    costs = at_most(
        Quantity(say("operations of additive attention, in times of the dot product's"), (most.ratio,)), ALIKE
    )
    slower = [point.slower for point in points]
    once = say("in one case at least: {condition}", condition=slower[0].text)
    faster = some([(~each).surely for each in slower], once)
    somewhere = some([each.surely for each in slower], once) | replace(~faster, text=say("it is faster nowhere"))
    rule = Rule([costs, somewhere], wants=[every(slower, say("that is so in every case"))])
    if not costs.met:
        return rule, say("{numbers}: it costs more than twice as much", numbers=fits)
    return rule, {
        Verdict.HOLDS: say("{numbers}; it is slower at every size measured", numbers=fits),
        Verdict.WRONG: say("{numbers}; it is slower nowhere, and at some sizes faster", numbers=fits),
        Verdict.IN_PART: say("{numbers}; at some sizes it is slower, at others faster", numbers=fits),
        Verdict.OPEN: say(
            "{numbers}; it is clearly slower at {slower} of {all} sizes, and the times do not decide at the others",
            numbers=fits,
            slower=sum(each.met is True for each in slower),
            all=len(points),
        ),
    }[rule.verdict]


def outcome(results: ScoreMeasurements) -> Outcome:
    """Verdict, ratios and figures of what is measured so far."""
    rule, reason = judge(results)
    point = results.over_length[-1]
    heavier = point.memory["additive"] / point.memory["dot-product"]
    at = say("{length} tokens, d = {width}", length=point.length, width=point.width)
    quantities = (
        Quantity(say("operations, additive ÷ dot product ({size})", size=at), (point.ratio,)),
        Quantity(say("time, additive ÷ dot product ({size})", size=at), (point.slowdown,)),
        Quantity(say("memory, additive ÷ dot product ({size})", size=at), (heavier,)),
    )
    lengths, widths = [point.length for point in results.over_length], [point.width for point in results.over_width]
    length, width, seconds, count = say("length in tokens"), say("width d"), say("seconds"), say("operations")
    over_length, over_width = times_of(results.over_length, lengths), times_of(results.over_width, widths)
    figures: list[Curves | Table] = [
        Curves(say("Time over the length"), length, seconds, over_length, log_x=True, log_y=True),
        Curves(say("Time over the width"), width, seconds, over_width, log_x=True, log_y=True),
    ]
    over_length, over_width = counts_of(results.over_length, lengths), counts_of(results.over_width, widths)
    figures += [
        Curves(say("Operations over the length"), length, count, over_length, log_x=True, log_y=True),
        Curves(say("Operations over the width"), width, count, over_width, log_x=True, log_y=True),
    ]
    return Outcome(rule, reason, quantities, [*figures, growths(results)])


def times_of(points: Sequence[Point], xs: list[int]) -> list[Curve]:
    """Curve of each way's times with their quartiles."""
    curves = []
    for way, name in NAMES.items():
        median, low, high = (
            [float(getattr(point.times[way], part)) for point in points] for part in ("median", "low", "high")
        )
        curves.append(Curve(name, xs, median, low, high))
    return curves


def counts_of(points: Sequence[Point], xs: list[int]) -> list[Curve]:
    """Curve of each way's operations."""
    return [Curve(name, xs, [point.operations[way] for point in points]) for way, name in NAMES.items()]


def growths(results: ScoreMeasurements) -> Table:
    """Fitted exponents of the time, over n and over d."""
    rows: list[list[str | float | int]] = []
    for way, name in NAMES.items():
        row: list[str | float | int] = [name]
        for axis, points in (("length", results.over_length), ("width", results.over_width)):
            xs = [int(getattr(point, axis)) for point in points]
            fit = upper_fit(xs, [point.times[way].median for point in points]) if points else None
            row.append(f"{fit.exponent:.2f} ± {fit.error:.2f}" if fit and not math.isnan(fit.error) else "?")
        rows.append(row)
    columns = (say("scores"), say("time: exponent of n"), say("time: exponent of d"))
    return Table(say("Growth, from an eighth of the largest size on"), columns, rows)


def run(request: Request) -> Iterator[Report[Outcome]]:
    for report in measure(request):
        yield Report(report.share, outcome(report.result))


EXPERIMENTS = (
    Experiment(
        name="additive-attention",
        row=40,
        group=Group.COST,
        statement=say("Additive attention costs about the same as dot-product attention, and only runs slower."),
        truth=say(
            "Of operations it holds: both are of the order n² d. But tanh is computed for n² d numbers, which a "
            "product of matrices never writes down: that takes time, and d times the memory where it is done at once."
        ),
        run=run,
        parameters=(
            Parameter("longest", say("longest text in tokens"), 512, 64, 4096),
            Parameter("width", say("d, while the length changes"), 64, 8, 1024),
            Parameter("widest", say("largest width d"), 512, 32, 4096),
            Parameter("length", say("length, while d changes"), 128, 16, 1024),
        ),
        seconds=12.0,
        formulas=(
            r"e_{ij} = v^\top \tanh(W s_i + U h_j)",
            r"e_{ij} = \frac{q_i \cdot k_j}{\sqrt{d}}",
        ),
        code=(additive_scores, dot_product_scores),
        source="Vaswani et al., 2017, section 3.2.1; Bahdanau et al., 2015",
    ),
)
