"""Costs that tutorials state: of attention over the length, of its heads, and of wide heads (rows 3, 23, 24)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from model.experiments import attention_cost, head_cost
from model.experiments.attention_cost import CLAIMED, QUADRATIC, STEPS, Growth, Sizes, crossing, operations
from model.experiments.experiment import (
    Curve,
    Curves,
    Experiment,
    Figure,
    Group,
    Outcome,
    Parameter,
    Quantity,
    Request,
    Sentence,
    Table,
    Verdict,
    Words,
    say,
)
from model.experiments.head_cost import PASSES, SAME, WAYS, Timed, all_operations, counted, with_heads
from model.experiments.ratios import Ratio, ratio
from model.experiments.runner import Report
from model.experiments.timing import Fit
from model.runtime.device import choose_device

HALF = 0.5  # an exponent whose whole interval is nearer than this to a whole number is that one
STEP_NAMES: dict[str, Words] = {
    "projections": say("projections"),
    "scores": "Q Kᵀ",
    "softmax": "softmax",
    "values": say("weights · V"),
    "fused": say("all three in the fused kernel"),
}


def sizes_of(request: Request) -> Sizes:
    """Sizes of one text, from the parameters d_model and heads.

    Raises:
        ValueError: heads does not divide d_model.
    """
    d_model, heads = request.values["d_model"], request.values.get("heads", 1)
    if d_model % heads:
        raise ValueError(f"d_model ({d_model}) must be divisible by heads ({heads})")
    return Sizes(batch=1, heads=heads, width=d_model // heads, device=choose_device(), dtype=torch.float32)


# Row 3: the growth of time and memory with the length.


def quadratic(growth: Fit | None) -> bool | None:
    """Whether an exponent is nearer to 2 than to 1 or 3, with its whole interval; None: that cannot be said."""
    if growth is None or math.isnan(growth.error):
        return None
    away = abs(growth.exponent - 2)
    return True if away + growth.error < HALF else False if away - growth.error > HALF else None


def judge_growth(growth: Growth) -> Outcome:
    """Verdict on O(n² d): whether the three steps grow with n², and from which length on they are most of the time."""
    fits = {step: growth.time_fit(step) for step in STEPS}
    found = {step: quadratic(fits[step]) for step in QUADRATIC}
    taken, counts = growth.overtaken(), crossing(growth.sizes)
    if False in found.values():
        verdict, end = Verdict.WRONG, say("a step does not grow with n²")
    elif None in found.values():
        verdict, end = Verdict.OPEN, say("too few lengths, or too much noise, to tell n² from n")
    elif taken == growth.lengths[0]:
        verdict, end = Verdict.HOLDS, say("they take longer than the projections, O(n d²), at every length measured")
    elif taken is None:
        end = say("up to {longest} tokens the projections, O(n d²), take longer", longest=growth.lengths[-1])
        verdict = Verdict.ONLY_IF
    else:
        end = say("they take longer than the projections, O(n d²), from {length} tokens on", length=taken)
        verdict = Verdict.ONLY_IF
    reason = say(
        "exponents of n: Q Kᵀ {scores}; softmax {softmax}; weighting of V {values}; {end}; counted, the projections "
        "have more operations below {crossing} tokens",
        scores=exponent(fits["scores"]),
        softmax=exponent(fits["softmax"]),
        values=exponent(fits["values"]),
        end=end,
        crossing=counts,
    )
    quantities = [
        Quantity(say("exponent of n, {step}", step=STEP_NAMES[step]), (growing.exponent,))
        for step, growing in fits.items()
        if growing is not None
    ]
    lengths = [float(length) for length in growth.lengths]
    times = [Curve(STEP_NAMES[step], lengths, growth.seconds(step)) for step in STEPS]
    memory = [Curve(STEP_NAMES[step], lengths, [float(size) for size in growth.memory(step)]) for step in STEPS]
    length = say("tokens n")
    figures: list[Figure] = [
        Curves(say("time of each step"), length, say("seconds"), times, log_x=True, log_y=True),
        Curves(say("memory of each step's tensors"), length, say("bytes"), memory, log_x=True, log_y=True),
        growth_table(growth, fits),
    ]
    return Outcome(verdict, reason, quantities, figures)


def exponent(growing: Fit | None) -> Sentence | str:
    """Exponent with its interval; a question mark where there are too few points."""
    if growing is None:
        return "?"
    if math.isnan(growing.error):
        return say("{value}, with an unknown error", value=growing.exponent)
    return say("{value}, give or take {error}", value=growing.exponent, error=growing.error)


def growth_table(growth: Growth, fits: dict[str, Fit | None]) -> Table:
    """Operations at the longest length, and claimed and fitted exponents of time and memory."""
    counts = operations(growth.sizes, growth.lengths[-1])
    columns = (
        say("step"),
        say("operations at {length} tokens", length=growth.lengths[-1]),
        say("claimed exponent"),
        say("exponent of the time"),
        say("exponent of the memory"),
    )
    rows: list[list[Words | float | int]] = [
        [STEP_NAMES[step], counts[step], CLAIMED[step], exponent(fits[step]), exponent(growth.memory_fit(step))]
        for step in STEPS
    ]
    return Table(say("counted, claimed and measured"), columns, rows)


def run_growth(request: Request) -> Iterator[Report[Outcome]]:
    """Measure ever longer lengths."""
    for report in attention_cost.growth(sizes_of(request), request.values["longest"], seconds=SECONDS):
        yield Report(report.share, judge_growth(report.result))


# Row 23: h heads of d / h beside one of d.

SECONDS = 0.3  # of each length, or number of heads
PIECE_NAMES: dict[str, Words] = {
    "fused": say("in the fused kernel"),
    "explicit": say("step by step"),
    "products": say("its two products"),
    "softmax": "softmax",
}
WHOLE = ("fused", "explicit")


def dearer(relative: Ratio) -> bool | None:
    """Whether a time is longer than another by more than a tenth; None: the noise does not let that be said."""
    return True if relative.low > 1 + SAME else False if relative.high < 1 + SAME else None


def judge_heads(timed: Timed) -> Outcome:
    """Verdict on "h heads cost what one does", of both ways to compute them."""
    heads = sorted(timed.sizes)
    relative = {
        (piece, count): ratio(timed.times[count, piece], timed.times[heads[0], piece])
        for piece in PIECE_NAMES
        for count in heads
    }
    more = heads[1:]
    found = {(piece, count): dearer(relative[piece, count]) for piece in WHOLE for count in more}
    kinds = set(found.values())
    if True in kinds:
        verdict = Verdict.WRONG if kinds == {True} else Verdict.ONLY_IF
    else:
        verdict = Verdict.HOLDS if kinds == {False} else Verdict.OPEN
    products = {counted(timed.sizes[count], timed.length)["products"] for count in heads}
    least, most = (all_operations(timed.sizes[count], timed.length) for count in (heads[0], heads[-1]))
    reason = say(
        "the products are {same} operations for every number of heads, those of the softmax grow with it: "
        "{ratio} times as many in all for {most} heads. Measured, {fused}; {explicit}",
        same=say("the same") if len(products) == 1 else say("not the same"),
        ratio=most / least,
        most=heads[-1],
        fused=dear_from("fused", found, more),
        explicit=dear_from("explicit", found, more),
    )
    quantities = [
        Quantity(
            say("time of {count} heads, in times of one, {piece}", count=heads[-1], piece=PIECE_NAMES[piece]),
            (relative[piece, heads[-1]].value,),
        )
        for piece in WHOLE
    ]
    curves = [
        Curve(
            PIECE_NAMES[piece],
            [float(count) for count in heads],
            [relative[piece, count].value for count in heads],
            [relative[piece, count].low for count in heads] if piece in WHOLE else None,
            [relative[piece, count].high for count in heads] if piece in WHOLE else None,
        )
        for piece in PIECE_NAMES
    ]
    title = say("time by the number of heads, d_model {d_model}", d_model=timed.sizes[heads[0]].config.d_model)
    figure = Curves(title, say("heads h"), say("in times of one head"), curves, log_x=True, log_y=True)
    columns = (
        say("heads"),
        say("operations of the products"),
        say("of the softmax"),
        say("seconds in the fused kernel"),
        say("seconds step by step"),
    )
    rows = [
        [
            count,
            *counted(timed.sizes[count], timed.length).values(),
            *(timed.median(count, piece) for piece in WHOLE),
        ]
        for count in heads
    ]
    return Outcome(verdict, reason, quantities, [figure, Table(say("counted and measured"), columns, rows)])


def dear_from(piece: str, found: dict[tuple[str, int], bool | None], more: list[int]) -> Sentence:
    """What was found of a way to compute, from which number of heads on it is dearer than one head."""
    dear = [count for count in more if found[piece, count]]
    if dear:
        return say(
            "{piece} it takes longer than one head by more than a tenth first with {heads} heads",
            piece=PIECE_NAMES[piece],
            heads=dear[0],
        )
    if any(found[piece, count] is None for count in more):
        return say("{piece} noise hides a tenth", piece=PIECE_NAMES[piece])
    return say("{piece} it takes as long as one head, to a tenth", piece=PIECE_NAMES[piece])


def run_heads(request: Request) -> Iterator[Report[Outcome]]:
    """Time 1 to d / 2 heads."""
    for report in head_cost.by_heads(sizes_of(request), request.values["length"], seconds=SECONDS):
        yield Report(report.share, judge_heads(report.result))


# Row 24: heads that are each as wide as d beside narrow ones; what they learn is another experiment.

WAY_NAMES = {"narrow": say("narrow, d / h"), "wide": say("wide, d")}
PASS_NAMES = {"forward": say("forward"), "backward": say("backward")}


def judge_ways(timed: Timed) -> Outcome:
    """Verdict on "wide heads cost more"."""
    relative = {name: ratio(timed.times["wide", name], timed.times["narrow", name]) for name in PASSES}
    parameters = {way: timed.sizes[way].parameters for way in WAYS}
    counts = {way: all_operations(timed.sizes[way], timed.length) for way in WAYS}
    longer = [each.low > 1 for each in relative.values()]
    shorter = [each.high < 1 for each in relative.values()]
    more = parameters["wide"] > parameters["narrow"]
    if all(longer):
        verdict = Verdict.HOLDS if more else Verdict.ONLY_IF
    elif any(shorter):
        verdict = Verdict.ONLY_IF if more or any(longer) else Verdict.WRONG
    else:
        verdict = Verdict.OPEN
    reason = say(
        "{heads} wide heads have {parameters} times the parameters and {operations} times the operations of narrow "
        "ones; they take {forward} times as long forward and {backward} times backward",
        heads=timed.sizes["wide"].heads,
        parameters=parameters["wide"] / parameters["narrow"],
        operations=counts["wide"] / counts["narrow"],
        **{name: interval(relative[name]) for name in PASSES},
    )
    columns = (
        say("heads"),
        say("parameters"),
        say("operations forward"),
        say("seconds forward"),
        say("seconds backward"),
    )
    rows: list[list[Any]] = [
        [WAY_NAMES[way], parameters[way], counts[way], *(timed.median(way, name) for name in PASSES)] for way in WAYS
    ]
    quantities = [
        Quantity(say("time of wide heads in times of narrow ones, {name}", name=PASS_NAMES[name]), (each.value,))
        for name, each in relative.items()
    ]
    return Outcome(verdict, reason, quantities, [Table(say("narrow beside wide"), columns, rows)])


def interval(relative: Ratio) -> Sentence:
    """Ratio with the ends of its interval."""
    return say("{value} ({low} to {high})", value=relative.value, low=relative.low, high=relative.high)


def run_ways(request: Request) -> Iterator[Report[Outcome]]:
    """Time both ways, forwards and backwards."""
    for report in head_cost.ways(sizes_of(request), request.values["length"], seconds=2 * SECONDS):
        yield Report(report.share, judge_ways(report.result))


EXPERIMENTS = (
    Experiment(
        name="attention-cost",
        row=3,
        group=Group.COST,
        statement=say("Q Kᵀ costs O(n² d), the softmax O(n²), the weighting of V O(n² d): O(n² d) in all."),
        truth=say(
            "The four projections are left out: they cost O(n d²), which is more than the rest for short texts, and a "
            "fused kernel has the same operations without a map in memory."
        ),
        run=run_growth,
        parameters=(
            Parameter("d_model", "d_model", 256, 2, 4096),
            Parameter("heads", say("heads"), 4, 1, 64),
            Parameter("longest", say("longest text"), 1024, 64, 1 << 16),
        ),
        seconds=15.0,
        formulas=(r"\underbrace{8\,n\,d^2}_{\text{projections}} + \underbrace{4\,n^2 d}_{QK^\top,\ AV}",),
        code=(attention_cost.operations, judge_growth, quadratic),
        source="section 3.2; table 1",
    ),
    Experiment(
        name="heads-cost",
        row=23,
        group=Group.COST,
        statement=say("h heads of d/h cost the same as one head of d."),
        truth=say(
            "The products have the same operations. Each head has a softmax and a map of its own, so that operations "
            "of the softmax, and memory where maps are kept, grow with h; and narrow products are slower ones."
        ),
        run=run_heads,
        parameters=(
            Parameter("d_model", "d_model", 256, 2, 4096),
            Parameter("length", say("tokens of a text"), 256, 2, 8192),
        ),
        seconds=15.0,
        formulas=(r"h \cdot 2\,n^2\,\tfrac{d}{h} = 2\,n^2 d",),
        code=(head_cost.counted, with_heads, judge_heads),
        source="section 3.2.2",
    ),
    Experiment(
        name="wide-heads-cost",
        row=24,
        group=Group.COST,
        statement=say("Wide heads, each as wide as d, cost more parameters and time than narrow ones of d/h."),
        truth=say(
            "Their matrices are h times as large, and so are the operations of projections and products; the softmax "
            "stays. Whether they learn more is another measurement."
        ),
        run=run_ways,
        parameters=(
            Parameter("d_model", "d_model", 256, 2, 2048),
            Parameter("heads", say("heads"), 8, 1, 64),
            Parameter("length", say("tokens of a text"), 128, 2, 8192),
        ),
        seconds=5.0,
        code=(head_cost.narrow_and_wide, judge_ways),
        source="Bloem, 2019",
    ),
)
