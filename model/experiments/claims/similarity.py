"""Similarity and softmax: dot product and cosine (row 1), softmax and its cost (2), what 1/√d_k is for (15)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from model.analysis.predictions import derivative_norm, saturation
from model.experiments.engines import scaling
from model.experiments.engines.scaling import Against, against_width, first_below, last_alike
from model.experiments.engines.similarity import cosines, dots
from model.experiments.engines.timing import Fit, Task, Times, exponent_of, fit, rounds
from model.experiments.experiment import (
    Curve,
    Curves,
    Experiment,
    Figure,
    Group,
    Outcome,
    Parameter,
    Request,
    Table,
    at_once,
    over_seeds,
)
from model.experiments.rule import Margin, Quantity, Rule, alike, at_least, at_most, clearly_below
from model.experiments.runner import Report
from model.message import Message, say

# Dot product and cosine (row 1).

QUERIES, KEYS, CHANNELS = 200, 16, 64
SPREADS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)  # deviations of ln ‖k‖
ALL = 99.9  # % of pairs that count as all: in float64 two keys may be equally near

Product = Callable[[Tensor, Tensor], Tensor]


def keys_of_norms(
    spread: float, seed: int
) -> tuple[Float[Tensor, "draw 1 channel"], Float[Tensor, "draw key channel"]]:
    """Queries and keys in random directions; ln ‖k‖ is drawn from N(0, spread²)."""
    generator = torch.Generator().manual_seed(seed)

    def directions(rows: int) -> Tensor:
        drawn = torch.randn(QUERIES, rows, CHANNELS, generator=generator, dtype=torch.float64)
        return drawn / drawn.norm(dim=-1, keepdim=True)

    query, keys = directions(1), directions(KEYS)
    sizes = torch.randn(QUERIES, KEYS, 1, generator=generator, dtype=torch.float64)
    return query, keys * (spread * sizes).exp()


def share_alike(one: Float[Tensor, "row key"], other: Float[Tensor, "row key"]) -> float:
    """Share of the pairs of keys that both numbers put in the same order."""
    first, second = (values[:, :, None] - values[:, None] for values in (one, other))
    pairs = torch.ones(one.shape[-1], one.shape[-1]).triu(1).bool()
    return float(((first > 0) == (second > 0))[:, pairs].double().mean())


def ranked_alike(spread: float, seed: int, product: Product = dots) -> float:
    """Share of pairs of keys that the product with a query puts in the order of their cosines."""
    query, keys = keys_of_norms(spread, seed)
    return share_alike(product(query, keys)[:, 0], cosines(query, keys)[:, 0])


def counter_example(spread: float, seed: int, product: Product = dots) -> Table:
    """Two keys of one query, the one with the larger product and the smaller cosine first, as far apart as any."""
    query, keys = keys_of_norms(spread, seed)
    by_product, by_cosine = product(query, keys)[:, 0], cosines(query, keys)[:, 0]
    nearer = by_cosine[:, None] - by_cosine[:, :, None]  # (draw, key, other key)
    larger = by_product[:, :, None] > by_product[:, None]
    row, place, other = (
        int(each) for each in torch.unravel_index(nearer.masked_fill(~larger, -torch.inf).argmax(), nearer.shape)
    )
    title = say("Two keys of one query: the dot product prefers the first, the cosine the second")
    if float(nearer[row, place, other]) <= 0:
        title = say("Two keys of one query: none were found that the two numbers order differently")
    rows = [
        (name, float(keys[row, key].norm()), float(by_product[row, key]), float(by_cosine[row, key]))
        for name, key in (("k₁", place), ("k₂", other))
    ]
    return Table(title, (say("key"), "‖k‖", "q · k", "cos(q, k)"), rows)


def find_dot_product(request: Request, product: Product = dots) -> Outcome:
    """Share of pairs whose larger dot product has the larger cosine, with keys of one norm and of different norms."""
    spread = float(request.values["spread"])
    spreads = sorted({*SPREADS, spread})
    shares = {each: [ranked_alike(each, seed, product) for seed in request.seeds] for each in spreads}
    equal, free = (sum(shares[each]) / len(request.seeds) for each in (0.0, spread))
    reason = say(
        "the dot product puts {equal} %\xa0of the pairs of keys in the order of their cosines where all norms are "
        "equal, and {free} % where ln ‖k‖ has the deviation {spread}",
        equal=100 * equal,
        free=100 * free,
        spread=spread,
    )
    quantities = [
        Quantity(say("pairs in the order of their cosines, equal norms"), percents(shares[0.0]), "%"),
        Quantity(say("pairs in the order of their cosines, different norms"), percents(shares[spread]), "%"),
    ]
    means = (Quantity(each.name, (100 * share,), "%") for each, share in zip(quantities, (equal, free), strict=True))
    of_equal, of_different = (at_least(each, ALL) for each in means)
    curve = over_seeds(say("by the dot product"), spreads, [percents(shares[each]) for each in spreads])
    figure = Curves(
        say("Pairs of keys in the order of their cosines"), say("deviation of ln ‖k‖"), say("share, %"), [curve]
    )
    figures: list[Figure] = [figure, counter_example(spread, request.seeds[0], product)]
    return Outcome(Rule([of_equal], wants=[of_different]), reason, quantities, figures)


def percents(shares: Sequence[float]) -> tuple[float, ...]:
    return tuple(100 * share for share in shares)


# Softmax (row 2).

SIZES = 7  # lengths that are timed, each twice as long as the one before
TEMPERATURES = tuple(2.0**power for power in range(-6, 7))
TOLERANCE = 1e-4  # of a sum in float32
DRAWN = 16  # scores of the figures
QUADRATIC = 2  # exponent of the next whole power, halfway to which O(n) is given up

Softmax = Callable[[Tensor], Tensor]


def softmax(scores: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """exp(x_i) / Σ_j exp(x_j), by torch, which computes a single row on one core."""
    return scores.softmax(dim=-1)


def drawn_scores(n: int, seed: int, size: float) -> Float[Tensor, " n"]:
    """Scores from N(0, size²)."""
    return size * torch.randn(n, generator=torch.Generator().manual_seed(seed))


def softmax_outcome(request: Request, times: Mapping[int, Times], turn: Softmax) -> Outcome:
    """Outcome on softmax: outputs that must be distributions, times that must grow as n."""
    errors, least = [], math.inf
    for seed in request.seeds:
        outputs = [turn(drawn_scores(1000, seed, size)).double() for size in (1.0, 10.0, 100.0)]
        errors.append(max(abs(float(output.sum()) - 1) for output in outputs))
        least = min(least, *(float(output.min()) for output in outputs))
    growth = fit(list(times), [each.median for each in times.values()])
    exponent, interval = (growth.exponent, growth.error) if growth else (math.nan, math.nan)
    reason = say(
        "with any seed sums differ from 1 by at most {error}, and the least probability is {least}; the time grows as "
        "n to the power of {exponent} ± {interval}",
        error=max(errors),
        least=least,
        exponent=exponent,
        interval=interval,
    )
    quantities = [
        Quantity(say("largest distance of a sum from 1"), tuple(errors)),
        exponent_of(say("exponent of the time over n"), growth),
        *(Quantity(say("time of {n} scores", n=n), (each.median,), "s") for n, each in times.items()),
    ]
    distribution = at_most(quantities[0], TOLERANCE), at_least(Quantity(say("least probability"), (least,)), 0.0)
    rule = Rule([*distribution, clearly_below(quantities[1], (1 + QUADRATIC) / 2)])
    figures = [
        time_figure(times, growth),
        temperature_figure(request.seeds[0], float(request.values["temperature"]), turn),
        saturation_figure(request.seeds[0]),
    ]
    return Outcome(rule, reason, quantities, figures)


def time_figure(times: Mapping[int, Times], growth: Fit | None) -> Curves:
    """Median times with their quartiles, and the power law through them."""
    xs = list(times)
    measured = Curve(
        say("measured"),
        xs,
        [each.median for each in times.values()],
        [each.low for each in times.values()],
        [each.high for each in times.values()],
        style="dots",
    )
    fitted = [] if growth is None else [Curve(say("fitted"), xs, [growth(x) for x in xs], dash=True)]
    return Curves(say("Time of a softmax"), say("scores n"), say("time, s"), [measured, *fitted], True, True)


def temperature_figure(seed: int, temperature: float, turn: Softmax) -> Curves:
    """Probabilities of 16 scores from N(0, 1), largest first, as they are and divided by T."""
    scores = drawn_scores(DRAWN, seed, 1.0).sort(descending=True).values
    curves = [
        Curve(f"T = {each:g}", list(range(DRAWN)), turn(scores / each).tolist(), style="bars")
        for each in dict.fromkeys((1.0, temperature))
    ]
    return Curves(say("Probabilities of 16 scores"), say("score, largest first"), say("probability"), curves)


def saturation_figure(seed: int) -> Curves:
    """Largest probability, entropy and derivative of 16 scores from N(0, 1), divided by T."""
    saturations = saturation(drawn_scores(DRAWN, seed, 1.0), TEMPERATURES)
    curves = [
        Curve(say("largest probability"), TEMPERATURES, saturations.largest.tolist()),
        Curve(say("entropy / ln n"), TEMPERATURES, saturations.entropy.tolist()),
        Curve(say("norm of the derivative"), TEMPERATURES, saturations.derivative.tolist()),
    ]
    return Curves(say("16 scores, divided by the temperature T"), "T", say("value"), curves, log_x=True)


def run_softmax(request: Request, turn: Softmax = softmax) -> Iterator[Report[Outcome]]:
    """Softmax of scores of seven lengths, timed in turn."""
    largest = int(request.values["largest"])
    lengths = [largest >> power for power in reversed(range(SIZES))]
    scores = {n: drawn_scores(n, request.seeds[0], 1.0) for n in lengths}
    tasks = {n: Task(turn, partial(scores.__getitem__, n)) for n in lengths}
    for times in rounds(tasks, torch.device("cpu")):
        yield Report(0.5, softmax_outcome(request, times, turn))
    yield Report(1.0, softmax_outcome(request, times, turn))


# The factor 1/√d_k (row 15).

LOST, ALIKE = 0.1, 2.0

Measure = Callable[[int, int, Sequence[int]], Iterator[Report[Against]]]


def scaling_outcome(by_seed: Sequence[Against]) -> Outcome:
    """Outcome on the factor: gradients of softmax and query without it, at the largest d_k and at the smallest."""
    widths = by_seed[0].widths
    softmaxes, queries = (ratios(by_seed, name) for name in ("derivative", "gradient"))
    mean, at_query = softmaxes.mean(dim=0), queries.mean(dim=0)
    last, first = float(mean[-1]), float(mean[0])
    reason = say(
        "without the factor the softmax's derivative is {first} times what it is with it at d_k = {small}, and {last} "
        "times at d_k = {large}; the gradient that reaches the query is {query} times as large there",
        first=first,
        small=widths[0],
        last=last,
        large=widths[-1],
        query=float(at_query[-1]),
    )
    quantities = [
        Quantity(say("derivative of the softmax without the factor, in times of that with it"), column(softmaxes)),
        Quantity(say("gradient at the query without the factor, in times of that with it"), column(queries)),
    ]
    at_first = Quantity(say("the former at d_k = {small}", small=widths[0]), tuple(softmaxes[:, 0].tolist()))
    lost, lost_too = (clearly_below(each, LOST) for each in quantities)
    rule = Rule([lost], wants=[lost_too, alike(at_first, Quantity("1", (1.0,) * len(by_seed)), Margin(factor=ALIKE))])
    named = (say("derivative of the softmax"), say("gradient at the query"))
    averaged = torch.stack([each.derivative.mean(dim=-1) for each in by_seed]).mean(dim=0)
    rows = [
        (name, first_below(widths, each, LOST) or "—", float(each[-1]))
        for name, each in (
            (named[0], mean),
            (say("its mean over the queries"), averaged[0] / averaged[1]),
            (named[1], at_query),
        )
    ]
    figures: list[Figure] = [
        Curves(
            say("Without 1/√d_k, in times of what it is with it"),
            "d_k",
            say("ratio of the medians"),
            [
                over_seeds(name, widths, values.T.tolist())
                for name, values in zip(named, (softmaxes, queries), strict=True)
            ],
            log_x=True,
            log_y=True,
        ),
        both_ways(by_seed, "entropy", say("Entropy of the weights, mean"), say("entropy, nats")),
        both_ways(by_seed, "derivative", say("Derivative of the softmax, median"), "‖∂w/∂s‖"),
        both_ways(by_seed, "gradient", say("Gradient of a loss at the query, median"), "‖∂L/∂q‖"),
        Table(
            say("Where less than a tenth is left"),
            (say("gradient"), say("from d_k on"), say("left at d_k = {large}", large=widths[-1])),
            rows,
        ),
    ]
    return Outcome(rule, reason, quantities, figures, remarks=[where_alike(widths, mean)])


def both_ways(by_seed: Sequence[Against], quantity: str, title: str, unit: str) -> Curves:
    """Number of the queries over d_k, without the factor and with it: median and dashed mean, of the entropy the other
    way round.
    """
    values = torch.stack([getattr(each, quantity) for each in by_seed])  # (seed, way, width, query)
    statistics = [values.median(dim=-1).values, values.mean(dim=-1)]
    curves = []
    for way, name in enumerate((say("without 1/√d_k"), say("with 1/√d_k"))):
        whole, dashed = (
            over_seeds(name, by_seed[0].widths, each[:, way].T.tolist())
            for each in (reversed(statistics) if quantity == "entropy" else statistics)
        )
        curves += [whole, replace(dashed, dash=True, beside=True)]
    other = say("median") if quantity == "entropy" else say("mean")
    return Curves(title, "d_k", unit, curves, log_x=True, log_y=quantity != "entropy", dashed=other)


def where_alike(widths: Sequence[int], ratios: Float[Tensor, " width"]) -> Message:
    """Sentence on the largest d_k up to which the factor hardly matters to the softmax's derivative."""
    alike = last_alike(widths, ratios, ALIKE)
    if alike is None:
        return say(
            "already at d_k = {width} the two derivatives differ by a factor {factor} or more",
            width=widths[0],
            factor=ALIKE,
        )
    return say(
        "up to d_k = {width} the two derivatives differ by less than a factor {factor}: there it hardly matters",
        width=alike,
        factor=ALIKE,
    )


def ratios(by_seed: Sequence[Against], name: str) -> Float[Tensor, "seed width"]:
    """Median over the queries without the factor, in times of that with it."""
    middle = torch.stack([getattr(each, name).median(dim=-1).values for each in by_seed])  # (seed, way, width)
    return middle[:, 0] / middle[:, 1]


def column(values: Float[Tensor, "seed width"]) -> tuple[float, ...]:
    """Values of each seed at the largest d_k."""
    return tuple(values[:, -1].tolist())


def run_scaling(request: Request, measure: Measure = against_width) -> Iterator[Report[Outcome]]:
    """Attention of random queries and keys with the factor and without it, for d_k from 2 on."""
    keys, largest = int(request.values["keys"]), int(request.values["largest"])
    widths = [width for width in scaling.WIDTHS if width <= largest]
    by_seed: list[Against] = []
    for number, seed in enumerate(request.seeds):
        for report in measure(keys, seed, widths):
            share = (number + report.share) / len(request.seeds)
            yield Report(share, scaling_outcome(by_seed or [report.result]))
        by_seed.append(report.result)
    yield Report(1.0, scaling_outcome(by_seed))


EXPERIMENTS = (
    Experiment(
        name="dot-product",
        row=1,
        group=Group.SIMILARITY,
        statement=say("The larger the dot product of two vectors, the more similar they are."),
        truth=say(
            "q · k = ‖q‖ ‖k‖ cos(q, k): the order is that of the cosines where all keys have one norm. A long key that "
            "points elsewhere can have a larger product than a short one that points the same way."
        ),
        run=at_once(find_dot_product),
        parameters=(Parameter("spread", say("deviation of ln ‖k‖"), 1.0, 0, 5),),
        seeded=True,
        formulas=(r"q \cdot k = \lVert q \rVert\, \lVert k \rVert \cos(q, k)",),
        code=(dots, cosines, keys_of_norms, share_alike),
        source="Vaswani et al., 2017, section 3.2.1",
    ),
    Experiment(
        name="softmax",
        row=2,
        group=Group.SIMILARITY,
        statement=say("Softmax makes a probability distribution of n scores, in a time of O(n)."),
        truth=say(
            "Whatever the scores, the outputs are not negative and add up to 1; each score costs one exponential, one "
            "addition and one division. Where scores are large, one probability is nearly 1 and hardly a gradient is "
            "left: dividing them by a temperature T above 1 undoes that."
        ),
        run=run_softmax,
        parameters=(
            Parameter("largest", say("most scores n"), 1 << 20, 1 << 10, 1 << 23),
            Parameter("temperature", say("temperature T"), 0.25, 0.01, 100),
        ),
        seeded=True,
        seconds=0.0,
        once=3.0,
        formulas=(
            r"p_i = \frac{e^{x_i / T}}{\sum_j e^{x_j / T}}",
            r"\frac{\partial p}{\partial x} = \frac{1}{T} \left( \mathrm{diag}(p) - p p^\top \right)",
        ),
        code=(softmax, saturation, derivative_norm),
        source="Vaswani et al., 2017, section 3.2.1",
    ),
    Experiment(
        name="scaled-scores",
        row=15,
        group=Group.SIMILARITY,
        statement=say(
            "Without 1/√d_k a large d_k saturates the softmax and its gradient vanishes; for a small d_k the factor "
            "does not matter."
        ),
        truth=say(
            "The dot product of two random vectors has the variance d_k, and the factor makes it 1. It multiplies the "
            "gradient on its way to the query too: without it that gradient is larger at first, and vanishes only at a "
            "larger d_k than the softmax's own."
        ),
        run=run_scaling,
        parameters=(
            Parameter("keys", say("keys n"), 16, 2, 1024),
            Parameter("largest", say("largest d_k"), 1024, 4, 1024),
        ),
        seeded=True,
        seconds=1.0,
        formulas=(
            r"q, k \sim N(0, I_{d_k}) \;\Rightarrow\; \mathrm{Var}(q \cdot k) = d_k",
            r"\frac{\partial w}{\partial s} = \mathrm{diag}(w) - w w^\top, \qquad "
            r"\frac{\partial L}{\partial q} = f\, K^\top \frac{\partial w}{\partial s}\, "
            r"\frac{\partial L}{\partial w}, \quad "
            r"f = 1 \text{ or } 1/\sqrt{d_k}",
        ),
        code=(scaling.attend, against_width, derivative_norm),
        source="Vaswani et al., 2017, section 3.2.1",
    ),
)
