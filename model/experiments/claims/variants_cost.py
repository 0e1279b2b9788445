"""Time and memory of the attention variants over the number of tokens, with fitted exponents (row 45)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from model.experiments.engines.timing import Fit, Task, Times, fit, peak_memory, rounds
from model.experiments.experiment import Curve, Curves, Experiment, Group, Outcome, Parameter, Request, Table
from model.experiments.rule import Condition, Quantity, Rule, each_of
from model.experiments.runner import Report
from model.experiments.variants.index import variants
from model.experiments.variants.variant import Shape, Sizes, Variant
from model.message import Message, say

PARTS = (1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1)  # of the longest length: below, fixed costs show
FARTHER = 8  # times the longest length, to which variants that claim less than n² are measured
MEANT = 0.25  # least difference of exponents that saves anything worth the name
Timer = Callable[[Mapping[str, Task]], Iterator[dict[str, Times]]]


@dataclass
class Course:
    """Measurements of one variant: lengths, median seconds and peak bytes."""

    lengths: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)


def lengths_of(variant: Variant, longest: int) -> list[int]:
    """Lengths at which a variant is measured, in tokens: longer ones where it claims to be cheaper."""
    end = longest * (FARTHER if variant.exponents[0] < 2 else 1)
    return [max(1, round(part * end)) for part in PARTS]


def on_cpu(tasks: Mapping[str, Task]) -> Iterator[dict[str, Times]]:
    """Times of the tasks in turn, on the CPU."""
    return rounds(tasks, torch.device("cpu"), least=9, seconds=1.0)


def measure(
    compared: Sequence[Variant], shape: Shape, longest: int, timer: Timer = on_cpu
) -> Iterator[Report[dict[str, Course]]]:
    """Measure all variants at ever longer lengths, in turn with one another."""
    courses = {each.key: Course() for each in compared}
    for number in range(len(PARTS)):
        lengths = {each.key: lengths_of(each, longest)[number] for each in compared}
        tasks = {each.key: task(each, shape._replace(length=lengths[each.key])) for each in compared}
        memory = {key: peak_memory(each) for key, each in tasks.items()}
        newest: dict[str, Times] = {}
        done = sum(PARTS[:number]) / sum(PARTS)
        for times in timer(tasks):
            newest = times
            yield Report(done, courses)
        for key, course in courses.items():
            course.lengths.append(lengths[key])
            course.seconds.append(newest[key].median)
            course.memory.append(memory[key])
        yield Report(sum(PARTS[: number + 1]) / sum(PARTS), courses)


def task(variant: Variant, shape: Shape) -> Task:
    """Task of a variant's quick form on random numbers."""
    inputs = variant.inputs(shape)

    def run(_prepared: None) -> None:
        with torch.inference_mode():
            variant.quick(*inputs)

    return Task(run)


def saves(growth: Fit | None, full: Fit | None) -> bool | None:
    """True where time grows more slowly than that of full attention, by the 95 % interval of the difference of
    exponents; None: it does not tell.
    """
    if growth is None or full is None or math.isnan(growth.error + full.error):
        return None
    gap, margin = full.exponent - growth.exponent, math.hypot(full.error, growth.error)
    if gap - margin > 0:
        return True
    return False if gap + margin < MEANT else None


def judge(compared: Sequence[Variant], fits: Mapping[str, Fit | None]) -> tuple[Rule | None, Message]:
    """Rule and reason, from the fitted growth of the time of full attention, the first, and of the cheaper ones."""
    first, full = compared[0], fits[compared[0].key]
    savings = {each.key: saves(fits[each.key], full) for each in compared if each.exponents[0] < first.exponents[0]}
    saving, not_saving = (sum(each is value for each in savings.values()) for value in (True, False))
    if full is None:
        return None, say("two lengths at least are needed before growth can be told")
    reason = say(
        "full attention's time grows as n to the power of {full} ± {error}; of {count} variants that promise less, "
        "{saving} grow more slowly and {wrong} do not, and {unsure} cannot be told",
        full=full.exponent,
        error=full.error,
        count=len(savings),
        saving=saving,
        wrong=not_saving,
        unsure=len(savings) - saving - not_saving,
    )
    slower = say(
        "the exponent of n is below that of full attention, at both ends of the interval of their difference (it is "
        "not where they are less than {least} apart)",
        least=MEANT,
    )
    return each_of([Condition(slower, each, chance=True) for each in savings.values()], slower), reason


def outcome(compared: Sequence[Variant], courses: Mapping[str, Course]) -> Outcome:
    """Outcome of the measurements so far."""
    times = {key: fit(course.lengths, course.seconds) for key, course in courses.items()}
    memory = {key: fit(course.lengths, course.memory) for key, course in courses.items()}
    rows, quantities = [], []
    for each in compared:
        time, space, course = times[each.key], memory[each.key], courses[each.key]
        if time is None or space is None:
            continue
        rows.append(
            (
                *(each.name, each.exponents[0], time.exponent, time.error, each.exponents[1], space.exponent),
                *(1e3 * course.seconds[-1], course.lengths[-1]),
            )
        )
        quantities.append(Quantity(say("exponent of n in the time: {variant}", variant=each.name), (time.exponent,)))
    columns = (
        *(say("variant"), say("claimed exponent of the time"), say("measured"), "±"),
        *(say("claimed exponent of the memory"), say("measured exponent of the memory")),
        *(say("ms at the longest"), say("longest, tokens")),
    )
    curves = [(each.name, courses[each.key]) for each in compared if courses[each.key].lengths]
    figures = (
        Table(say("Growth of each variant, claimed and measured"), columns, rows),
        Curves(
            say("Time over length"),
            say("tokens"),
            say("seconds"),
            [Curve(name, floats(course.lengths), course.seconds) for name, course in curves],
            log_x=True,
            log_y=True,
        ),
        Curves(
            say("Memory over length: tensors that exist at once"),
            say("tokens"),
            say("bytes"),
            [Curve(name, floats(course.lengths), floats(course.memory)) for name, course in curves],
            log_x=True,
            log_y=True,
        ),
    )
    return Outcome(*judge(compared, times), quantities, figures)


def floats(numbers: Sequence[int]) -> list[float]:
    """Numbers of a curve."""
    return [float(each) for each in numbers]


def run(request: Request) -> Iterator[Report[Outcome]]:
    """Measure every variant."""
    values = request.values
    compared = variants(Sizes(width=values["width"], rank=values["rank"], features=values["features"]))
    shape = Shape(values["heads"], values["longest"], values["channels"])
    for report in measure(compared, shape, values["longest"]):
        yield Report(report.share, outcome(compared, report.result))


EXPERIMENTS = (
    Experiment(
        name="variants-cost",
        row=45,
        group=Group.COST,
        statement=say("Sparse, hashed, low-rank and linear attention cost less than O(n²)."),
        truth=say(
            "By operations they do: a window, Linformer and linear attention O(n), hashing O(n log n), blocks of √n "
            "tokens O(n √n). Shared heads and a latent save no operations, only what is kept. What is measured here "
            "includes sorting, copying and calls, so that short texts show none of it."
        ),
        run=run,
        parameters=(
            Parameter("longest", say("longest full attention"), 1024, 16.0, 4096.0),
            Parameter("heads", say("heads"), 4, 2.0, 16.0),
            Parameter("channels", say("channels of a head"), 16, 2.0, 128.0),
            Parameter("width", say("tokens of a window or block"), 32, 1.0, 512.0),
            Parameter("rank", say("rank (Linformer, latent)"), 32, 1.0, 512.0),
            Parameter("features", say("random features"), 32, 2.0, 1024.0),
        ),
        seconds=45.0,
        formulas=(r"t(n) = c\, n^{p}",),
        code=(measure, saves),
        source="; ".join(dict.fromkeys(each.source for each in variants(Sizes()))),
    ),
)
