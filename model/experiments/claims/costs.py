"""Costs that tutorials state: of attention over the length, of its heads, and of wide heads (rows 3, 23, 24)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_, or_
from typing import Any

import torch

from model.experiments.engines import attention_cost, head_cost
from model.experiments.engines.attention_cost import (
    CLAIMED,
    CLAIMED_MEMORY,
    QUADRATIC,
    SHORTEST,
    STEPS,
    Growth,
    Judgement,
    Sizes,
    crossing,
    judge,
    operations,
    quadratic_operations,
    upper_fit,
)
from model.experiments.engines.head_cost import (
    PASSES,
    PIECES,
    SAME,
    WAYS,
    HeadTimes,
    all_operations,
    counted,
    with_heads,
)
from model.experiments.engines.ratios import Ratio, ratio
from model.experiments.engines.timing import Fit, exponent_of, fit
from model.experiments.experiment import Curve, Curves, Experiment, Figure, Group, Outcome, Parameter, Request, Table
from model.experiments.rule import Condition, Quantity, Rule, Verdict, clearly_above, clearly_within, every, some
from model.experiments.runner import Report
from model.message import InputError, Message, digits, say
from model.network.attention import MultiHeadAttention, Scores, Weights
from model.runtime.device import choose_device

MOST_HEADS = 64
EXACT = 1e-3  # error of an exponent that no noise has touched: of bytes
HALF = 0.5  # an exponent whose whole interval is nearer than this to a whole number is that one
STEP_NAMES: dict[str, str] = {
    "projections": say("projections"),
    "scores": "Q Kᵀ",
    "softmax": "softmax",
    "values": say("weights · V"),
    "fused": say("all three in the fused kernel"),
}


def sizes_of(request: Request) -> Sizes:
    """Sizes of texts, from the parameters d_model, heads and batch.

    Raises:
        ValueError: heads does not divide d_model.
    """
    d_model, heads, batch = (request.values.get(name, 1) for name in ("d_model", "heads", "batch"))
    if d_model % heads:
        divisors = ", ".join(str(count) for count in range(1, MOST_HEADS + 1) if d_model % count == 0)
        raise InputError(
            "d_model ({d_model}) cannot be split among {heads} heads: choose one of {divisors}",
            d_model=d_model,
            heads=heads,
            divisors=divisors,
        )
    return Sizes(batch=batch, heads=heads, width=d_model // heads, device=choose_device(), dtype=torch.float32)


# Row 3: the growth of time and memory with the length.


def quadratic(name: str, growth: Fit | None) -> Condition:
    """An exponent is nearer to 2 than to 1 or 3, with its whole interval."""
    return clearly_within(exponent_of(name, growth), 2 - HALF, 2 + HALF)


def judge_growth(growth: Growth) -> Outcome:
    """Verdict on O(n² d): whether the three steps grow with n², and from which length on they are most of the time."""
    fits = {step: growth.time_fit(step) for step in STEPS}
    taken, counts = growth.overtaken(), crossing(growth.sizes)
    longer = say("they take longer than the projections, O(n d²), at every length measured")
    of_steps = [quadratic(say("exponent of n, {step}", step=STEP_NAMES[step]), fits[step]) for step in QUADRATIC]
    rule = Rule(of_steps, wants=[Condition(longer, taken == growth.lengths[0])])
    if taken is None:
        end = say("up to {longest} tokens the projections, O(n d²), take longer", longest=growth.lengths[-1])
    else:
        end = say("they take longer than the projections, O(n d²), from {length} tokens on", length=taken)
    end = {
        Verdict.WRONG: say("a step does not grow with n²"),
        Verdict.OPEN: say("too few lengths, or too much noise, to tell n² from n"),
        Verdict.HOLDS: longer,
        Verdict.IN_PART: end,
    }[rule.verdict]
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
        exponent_of(say("exponent of n, {step}", step=STEP_NAMES[step]), growing)
        for step, growing in fits.items()
        if growing is not None
    ]
    memory = [Curve(STEP_NAMES[step], growth.lengths, growth.memory(step)) for step in STEPS]
    length = say("tokens n")
    figures: list[Figure] = [
        timed_steps(growth, fits),
        Curves(say("Memory of each step's tensors"), length, say("bytes"), memory, log_x=True, log_y=True),
        counted_steps(growth),
        growth_table(growth, fits),
    ]
    remarks = [counted_shares(growth), softmax_share(growth), fused_beside(growth)]
    return Outcome(rule, reason, quantities, figures, remarks=remarks, machine=growth.machine)


def timed_steps(growth: Growth, fits: dict[str, Fit | None]) -> Curves:
    """Times of each step as dots, and the power law through the upper part, dashed."""
    curves = []
    for step in STEPS:
        curves.append(Curve(STEP_NAMES[step], growth.lengths, growth.seconds(step), style="dots"))
        if fitted := fits[step]:
            name = say("{name}, fitted", name=STEP_NAMES[step])
            curves.append(Curve(name, fitted.xs, [fitted(x) for x in fitted.xs], dash=True, beside=True))
    titles = say("Time of each step"), say("tokens n"), say("seconds")
    return Curves(*titles, curves, log_x=True, log_y=True, dashed=say("power law"))


def counted_steps(growth: Growth) -> Curves:
    """Operations of each step; the fused kernel has those of three of them."""
    lengths = growth.lengths
    counts = {step: [operations(growth.sizes, length)[step] for length in lengths] for step in STEPS[:-1]}
    curves = [Curve(STEP_NAMES[step], lengths, counts[step], dash=step == "values") for step in counts]
    title = say("Counted operations of each step")
    return Curves(title, say("tokens n"), say("operations"), curves, log_x=True, log_y=True)


def counted_shares(growth: Growth) -> Message:
    """Shares of the softmax and of the projections in the operations at the longest length."""
    counts = operations(growth.sizes, growth.lengths[-1])
    quadratic = quadratic_operations(growth.sizes, growth.lengths[-1])
    return say(
        "counted at {length} tokens: the softmax has {softmax} %\xa0of the operations of the three steps, and the "
        "projections, which the formula leaves out, have {projections} %\xa0of all",
        length=growth.lengths[-1],
        softmax=100 * counts["softmax"] / quadratic,
        projections=100 * counts["projections"] / (quadratic + counts["projections"]),
    )


def softmax_share(growth: Growth) -> Message:
    """Share of the softmax in the time of the three steps, beside that in their operations."""
    length = growth.lengths[-1]
    expected = operations(growth.sizes, length)["softmax"] / quadratic_operations(growth.sizes, length)
    share = growth.seconds("softmax")[-1] / growth.quadratic_seconds()
    return say(
        "measured at {length} tokens: the softmax takes {time} %\xa0of their time: {end}",
        length=length,
        time=100 * share,
        end=say("the O hides what an operation costs")
        if share > 2 * expected
        else say("its operations cost about what those of the products do, or less"),
    )


def fused_beside(growth: Growth) -> Message:
    """Time and memory of the fused kernel beside those of the three steps."""
    seconds = growth.seconds("fused")[-1]
    return say(
        "the fused kernel does all three in {fused} ms, {ratio} times as fast as step by step, with tensors of {bytes} "
        "MB, where a map has {map} MB; its time has the exponent {time}, its memory {memory}",
        fused=1e3 * seconds,
        ratio=growth.quadratic_seconds() / seconds,
        bytes=growth.memory("fused")[-1] / 1e6,
        map=growth.memory("softmax")[-1] / 1e6,
        time=exponent(growth.time_fit("fused")),
        memory=exponent(growth.memory_fit("fused")),
    )


def exponent(growing: Fit | None) -> str | float:
    """Exponent with its interval, alone where it is exact; a question mark where there are too few points."""
    if growing is None:
        return "?"
    if growing.error < EXACT:
        return growing.exponent
    if math.isnan(growing.error):
        return say("{value}, with an unknown error", value=growing.exponent)
    return say("{value}, give or take {error}", value=growing.exponent, error=growing.error)


GROWS: dict[Judgement, str] = {
    "few": say("too few lengths"),
    "unsure": say("too uncertain"),
    "agrees": say("as claimed"),
    "faster": say("faster"),
    "slower": say("more slowly"),
}


def in_cell(growing: Fit | None) -> str:
    """Exponent with its interval, as short as it can be."""
    if growing is None:
        return "–"
    exact = growing.error < EXACT or math.isnan(growing.error)
    return digits(growing.exponent) if exact else f"{digits(growing.exponent)} ± {digits(growing.error)}"


def growth_table(growth: Growth, fits: dict[str, Fit | None]) -> Table:
    """Operations at the longest length, and claimed and fitted exponents of operations, time and memory."""
    counts = operations(growth.sizes, growth.lengths[-1])
    columns = (
        say("step"),
        say("operations at {length} tokens", length=growth.lengths[-1]),
        say("claimed exponent"),
        say("exponent of the time"),
        say("the time grows"),
        say("10⁹ operations a second"),
        say("exponent of the memory (expected)"),
    )
    rows: list[list[str | float | int]] = [
        [
            STEP_NAMES[step],
            counts[step],
            CLAIMED[step],
            in_cell(fits[step]),
            GROWS[judge(fits[step], CLAIMED[step])],
            growth.speed(step) / 1e9,
            f"{in_cell(growth.memory_fit(step))} ({CLAIMED_MEMORY[step]})",
        ]
        for step in STEPS
    ]
    return Table(say("Counted, claimed and measured"), columns, rows)


def run_growth(request: Request) -> Iterator[Report[Outcome]]:
    """Measure ever longer lengths."""
    for report in attention_cost.growth(sizes_of(request), request.values["longest"], seconds=SECONDS):
        yield Report(report.share, judge_growth(report.result))


# Row 23: h heads of d / h beside one of d.

SECONDS = 0.3  # of each length, or number of heads
PIECE_NAMES: dict[str, str] = {
    "fused": say("in the fused kernel"),
    "explicit": say("step by step"),
    "products": say("its two products"),
    "softmax": "softmax",
}
WHOLE = ("fused", "explicit")


def judge_heads(timed: HeadTimes) -> Outcome:
    """Verdict on "h heads cost what one does", of both ways to compute them."""
    heads = sorted(timed.sizes)
    relative = {
        (piece, count): ratio(timed.times[count, piece], timed.times[heads[0], piece])
        for piece in PIECE_NAMES
        for count in heads
    }
    more = heads[1:]
    longer = say(
        "the time of several heads, in times of one, is above {times}, even at the lower end of its interval",
        times=1 + SAME,
    )
    dearer = {
        (way, count): clearly_above(relative[way, count].quantity(longer), 1 + SAME) for way in WHOLE for count in more
    }
    everywhere, somewhere = every([each.surely for each in dearer.values()], longer), some(dearer.values(), longer)
    not_all = replace(~everywhere, text=say("not in every case: {condition}", condition=longer))
    none = replace(~somewhere, text=say("in no case: {condition}", condition=longer))
    rule = Rule([not_all], wants=[none])
    met = {case: condition.met for case, condition in dearer.items()}
    products = {counted(timed.sizes[count], timed.length)["products"] for count in heads}
    least, most = (all_operations(timed.sizes[count], timed.length) for count in (heads[0], heads[-1]))
    reason = say(
        "the products are {same} operations for every number of heads, those of the softmax grow with it: "
        "{ratio} times as many in all for {most} heads. Measured, {fused}; {explicit}",
        same=say("the same") if len(products) == 1 else say("not the same"),
        ratio=most / least,
        most=heads[-1],
        fused=dear_from("fused", met, more),
        explicit=dear_from("explicit", met, more),
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
    title = say("Time by the number of heads, d_model {d_model}", d_model=timed.sizes[heads[0]].config.d_model)
    times = Curves(title, say("heads h"), say("in times of one head"), curves, log_x=True, log_y=True)
    columns: list[str] = [
        say("heads"),
        "d / h",
        say("operations of the products"),
        say("of the softmax"),
        *(say("ms, {piece}", piece=PIECE_NAMES[piece]) for piece in PIECES),
    ]
    rows = [
        [
            count,
            timed.sizes[count].width,
            *counted(timed.sizes[count], timed.length).values(),
            *(1e3 * timed.median(count, piece) for piece in PIECES),
        ]
        for count in heads
    ]
    table = Table(say("Counted and measured"), columns, rows)
    figures: list[Figure] = [times, counted_heads(timed), table]
    return Outcome(rule, reason, quantities, figures, remarks=[what_takes_longer(timed)], machine=timed.machine)


def counted_heads(timed: HeadTimes) -> Curves:
    """Operations of the products, of the softmax, and of both, by the number of heads."""
    heads = sorted(timed.sizes)
    counts = [counted(timed.sizes[count], timed.length) for count in heads]
    curves = [
        Curve(say("all products"), heads, [each["products"] for each in counts]),
        Curve("softmax", heads, [each["softmax"] for each in counts]),
        Curve(say("together"), heads, [sum(each.values()) for each in counts], dash=True),
    ]
    return Curves(say("Counted operations"), say("heads h"), say("operations"), curves, log_x=True, log_y=True)


def what_takes_longer(timed: HeadTimes) -> Message:
    """Difference of the time between the largest number of heads and one, and those of its softmax and products."""
    first, most = min(timed.sizes), max(timed.sizes)
    return say(
        "step by step, {heads} heads change the time of one by {explicit} ms: the softmax alone by {softmax} ms, the "
        "same products in smaller matrices by {products} ms",
        heads=most,
        **{piece: 1e3 * (timed.median(most, piece) - timed.median(first, piece)) for piece in PIECES[1:]},
    )


def dear_from(piece: str, met: dict[tuple[str, int], bool | None], more: list[int]) -> Message:
    """Sentence on a way to compute: the number of heads from which on it is dearer than one head."""
    dear = [count for count in more if met[piece, count]]
    if dear:
        return say(
            "{piece} it takes longer than one head by more than a tenth first with {heads} heads",
            piece=PIECE_NAMES[piece],
            heads=dear[0],
        )
    if any(met[piece, count] is None for count in more):
        return say("{piece} noise hides a tenth", piece=PIECE_NAMES[piece])
    return say("{piece} it takes as long as one head, to a tenth", piece=PIECE_NAMES[piece])


def run_heads(request: Request) -> Iterator[Report[Outcome]]:
    """Time 1 to d / 2 heads."""
    for report in head_cost.by_heads(sizes_of(request), request.values["length"], seconds=SECONDS):
        yield Report(report.share, judge_heads(report.result))


# Row 24: heads that are each as wide as d beside narrow ones; what they learn is another experiment.

WAY_NAMES = {"narrow": say("narrow, d / h"), "wide": say("wide, d")}
PASS_NAMES = {"forward": say("forward"), "backward": say("backward")}


def judge_ways(timed: HeadTimes) -> Outcome:
    """Verdict on "wide heads cost more"."""
    relative = {name: ratio(timed.times["wide", name], timed.times["narrow", name]) for name in PASSES}
    parameters = {way: timed.sizes[way].parameters for way in WAYS}
    counts = {way: all_operations(timed.sizes[way], timed.length) for way in WAYS}
    times_named = {
        name: relative[name].quantity(say("time of wide heads in times of narrow ones, {name}", name=PASS_NAMES[name]))
        for name in PASSES
    }
    more = Condition(say("wide heads have more parameters"), parameters["wide"] > parameters["narrow"])
    longer = [clearly_above(each, 1.0) for each in times_named.values()]
    shorter = [(~each).surely for each in longer]
    surely_longer = reduce(or_, (each.surely for each in longer))
    text = say(
        "wide heads have more parameters, or surely take longer in some pass, or it is sure of no pass that they do not"
    )
    needed = replace(more | surely_longer | ~reduce(or_, shorter), text=text)
    rule = Rule([needed], wants=[more, reduce(and_, longer)])
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
        "d_k",
        say("parameters"),
        say("operations forward"),
        say("ms forward"),
        say("ms backward"),
    )
    rows: list[list[Any]] = [
        [
            WAY_NAMES[way],
            timed.sizes[way].width,
            parameters[way],
            counts[way],
            *(1e3 * timed.median(way, name) for name in PASSES),
        ]
        for way in WAYS
    ]
    quantities = [times_named[name] for name in PASSES]
    multiples = [parameters["wide"] / parameters["narrow"], counts["wide"] / counts["narrow"]]
    bars = wide_bars([*multiples, *(each.value for each in relative.values())])
    remarks = [beside_operations(PASS_NAMES[name], relative[name], multiples[1]) for name in PASSES]
    figures: list[Figure] = [bars, Table(say("Narrow beside wide"), columns, rows)]
    return Outcome(rule, reason, quantities, figures, remarks=remarks, machine=timed.machine)


def wide_bars(multiples: Sequence[float]) -> Curves:
    """Parameters, operations and times of wide heads, as multiples of those of narrow ones."""
    places = list(range(len(multiples)))
    curves = [
        Curve(WAY_NAMES["narrow"], places, [1.0] * len(places), style="bars"),
        Curve(WAY_NAMES["wide"], places, multiples, style="bars"),
    ]
    ticks = (say("parameters"), say("operations"), *(say("time {name}", name=PASS_NAMES[name]) for name in PASSES))
    return Curves(say("Wide heads beside narrow ones"), "", say("times narrow"), curves, ticks=ticks)


def beside_operations(name: str, relative: Ratio, expected: float) -> Message:
    """Time of wide heads beside what their operations let expect, as far as the noise lets that be said."""
    if relative.low <= 1:
        return say("{name}: wide heads are not clearly slower", name=name)
    if relative.high < (1 - SAME) * expected:
        return say(
            "{name}: slower, and less so than the operations let expect: the larger products reach more operations a "
            "second",
            name=name,
        )
    if relative.low >= (1 - SAME) * expected:
        return say("{name}: slower, as the operations let expect, or more", name=name)
    return say("{name}: slower; noise hides whether as much as the operations let expect", name=name)


def interval(relative: Ratio) -> Message:
    """Ratio with the ends of its interval."""
    return say("{value} ({low} to {high})", value=relative.value, low=relative.low, high=relative.high)


def run_ways(request: Request) -> Iterator[Report[Outcome]]:
    """Time both ways, forwards and backwards."""
    for report in head_cost.ways(sizes_of(request), request.values["length"], seconds=2 * SECONDS):
        yield Report(report.share, judge_ways(report.result))


BATCH = Parameter("batch", say("texts at once"), 1, 1, 64)

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
            Parameter("heads", say("heads"), 4, 1, MOST_HEADS),
            Parameter("longest", say("longest text"), 1024, SHORTEST, 1 << 16),
            BATCH,
        ),
        seconds=15.0,
        formulas=(
            r"\underbrace{8\,n\,d^2}_{\text{projections}} + \underbrace{2\,n^2 d}_{Q K^\top} + "
            r"\underbrace{h\,n\,(5n - 2)}_{\text{softmax}} + \underbrace{2\,n^2 d}_{A V}, \quad d = h\,d_k",
            r"\log t = \log c + e \log n",
        ),
        method=say(
            "A multiply-add counts 2; a row of the softmax counts its maximum, differences, exponentials, sum and "
            "quotients. Each step is one of the network's own modules, on random numbers. All steps run in turn, again "
            "and again, and the median counts. The exponent e is fitted by least squares to the lengths from an eighth "
            "of the longest on, where fixed costs are small, and is given with its range of 95 per cent. Memory is "
            "that of the tensors that a step makes, when most of them are there; what a kernel takes for itself is not "
            "seen. On a CPU one core measures, in the time of its own thread, so that the work of other programs is "
            "not counted."
        ),
        code=(Scores, Weights, attention_cost.steps, operations, upper_fit, fit, judge_growth, quadratic),
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
            BATCH,
        ),
        seconds=15.0,
        formulas=(
            r"8\,n\,d^2 + h \cdot 4\,n^2\,\tfrac{d}{h} = 8\,n\,d^2 + 4\,n^2 d",
            r"h\,n\,(5n - 2) \text{ for the softmax}",
        ),
        method=say(
            "The very same weights are cut into 1 to d/2 heads; all are run in turn, again and again, and the median "
            "counts. Times are the same if they differ by no more than {share} %. The paper says: “Due to the reduced "
            "dimension of each head, the total computational cost is similar to that of single-head attention with "
            "full dimensionality.”",
            share=round(100 * SAME),
        ),
        code=(MultiHeadAttention, head_cost.counted, with_heads, head_cost.by_heads, judge_heads),
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
            Parameter("heads", say("heads"), 8, 1, MOST_HEADS),
            Parameter("length", say("tokens of a text"), 128, 2, 8192),
            BATCH,
        ),
        seconds=5.0,
        formulas=(
            r"\text{narrow: } 4\,d^2 \qquad \text{wide: } 3\,d \cdot h d + h d \cdot d = 4\,h\,d^2 \quad "
            r"\text{ weights}",
        ),
        method=say(
            "One attention of the network's own module each way, without groups of keys and values and without "
            "dropout; forward as in training, and backward to its weights and its input. Both run in turn, again and "
            "again, and the median counts."
        ),
        code=(MultiHeadAttention, head_cost.narrow_and_wide, head_cost.ways, judge_ways),
        source="section 3.2.2; Bloem, 2019",
    ),
)
