"""How attention grows with the length: counted, measured, and what follows for what tutorials say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd

from model.experiments.attention_cost import (
    CLAIMED,
    CLAIMED_MEMORY,
    QUADRATIC,
    STEPS,
    Growth,
    Sizes,
    crossing,
    growth,
    judge,
    lengths_up_to,
    operations,
    quadratic_operations,
    room,
    steps,
    upper_fit,
)
from model.experiments.timing import ROUNDS, SECONDS, Fit, Numbers, fit
from model.fast.attention import fused
from model.inference.text_model import TextModel
from model.network.attention import Scores, Weights
from model.network.costs import attention_flops
from viz.components.plots import About, Axis, Chart, Heading, Series
from viz.i18n.catalogue import _
from viz.i18n.format import bytes_text, significant
from viz.pages.lab.experiment import (
    Experiment,
    Findings,
    Measurement,
    duration,
    machine_words,
    percent,
    sizes_of,
    times_columns,
)
from viz.ui.fields import Field
from viz.ui.plots import FIRST, FOURTH, SECOND, THIRD

VALUE = "#009e73"  # of values, wherever they are drawn
COLOURS = dict(zip(STEPS, (FIRST, SECOND, THIRD, VALUE, FOURTH), strict=True))
POWERS = {1: "n", 2: "n²"}
LONGEST = 16384


def experiment(model: TextModel) -> Experiment:
    """Q Kᵀ costs O(n² d), softmax O(n²), weighting the values O(n² d)."""
    return Experiment(
        key="cost_growth",
        claim=_("Attention costs O(n² d): Q Kᵀ O(n² d), softmax O(n²), weighting the values O(n² d)."),
        truth=_(
            "That counts operations for long inputs. It leaves out the four projections, O(n d²), which are most of "
            "the work of short inputs; it does not say what an operation costs, which is measured here; and memory "
            "grows with n² only where the maps are written down."
        ),
        parts=[partial(measurement, model)],
        formulas=[
            r"\underbrace{8\,n\,d^2}_{\text{projections}} + \underbrace{2\,n^2 d}_{Q K^\top} + "
            r"\underbrace{h\,n\,(5n - 2)}_{\text{softmax}} + \underbrace{2\,n^2 d}_{A V}, \quad d = h\,d_k \qquad "
            r"\log t = \log c + e \log n"
        ],
        explanation=_(
            "Vaswani et al., table 1 and section 4. A multiply-add counts 2; a row of the softmax counts its maximum, "
            "differences, exponentials, sum and quotients. Each step is one of the network's own modules, on random "
            "numbers. All steps run in turn, again and again, and the median counts. The exponent e is fitted by "
            "least squares to the lengths from an eighth of the largest on, where fixed costs are small; ± is its "
            "range of 95 per cent. Memory is that of the tensors that a step makes, when most of them are there; what "
            "a kernel takes for itself is not seen. On a CPU one core measures, so that the page answers meanwhile, "
            "in that thread's own time, so that the work of other programs is not counted. This is the code that "
            "runs:"
        ),
        code=(Scores, Weights, fused, steps, operations, attention_flops, upper_fit, fit),
    )


def measurement(model: TextModel) -> Measurement[Growth] | None:
    config = model.config
    fields = [
        Field("cost_longest", _("largest n"), "2048", 128, LONGEST, log=True),
        Field("cost_width", "d_k", str(config.d_head), 1, max(512, config.d_head)),
        Field("cost_heads", _("heads"), str(config.n_heads), 1, max(64, config.n_heads)),
        Field("cost_batch", _("batch"), "1", 1, 64),
    ]
    given = sizes_of(model, "growth", fields)
    if given is None:
        return None
    longest, width, heads, batch = given.values()
    sizes = Sizes(batch=batch, heads=heads, width=width, device=model.device, dtype=model.dtype)
    forecast = _("{count} lengths, each at least {seconds} s and {runs} runs; in the background")
    return Measurement(
        measure=growth,
        settings=(sizes, longest),
        findings=measured,
        begin=_("Measure"),
        forecast=forecast.format(count=len(lengths_up_to(longest)), seconds=f"{SECONDS:g}", runs=ROUNDS),
        before=counted(sizes, longest),
        room=room(sizes, longest, least=int(fields[0].low)),
    )


def counted(sizes: Sizes, longest: int) -> Findings:
    """What the counts alone say, before anything is measured."""
    return Findings(counted_verdicts(sizes, longest), [[counts(sizes, longest), summary(sizes, longest, None)]])


def measured(found: Growth) -> Findings:
    sizes, longest = found.sizes, found.lengths[-1]
    plots = [
        steps_chart(found, found.seconds, _("Measured time"), _("seconds"), "times"),
        steps_chart(found, found.memory, _("Tensors that each step makes"), _("bytes"), "memory"),
        counts(sizes, longest),
    ]
    table = summary(sizes, longest, found)
    return Findings(verdicts(found), [plots, [table]], partial(numbers, found), "lab-growth")


def step_name(step: str) -> str:
    return {
        "projections": _("four projections"),
        "scores": "Q Kᵀ",
        "softmax": "softmax",
        "values": _("weights · V"),
        "fused": _("fused kernel"),
    }[step]


def exponent_verdict(found: Fit | None, claimed: int) -> str:
    """Whether a fitted exponent is the claimed one, as far as that can be told."""
    return {
        "few": _("too few lengths to tell"),
        "unsure": _("too uncertain to tell"),
        "agrees": _("as {power}, within its error"),
        "faster": _("grows faster than {power}"),
        "slower": _("grows more slowly than {power}"),
    }[judge(found, claimed)].format(power=POWERS[claimed])


def exponent_words(found: Fit | None) -> str:
    if found is None:
        return "–"
    if np.isnan(found.error):
        return significant(found.exponent)
    return f"{found.exponent:.2f} ± {found.error:.2f}"


def counted_verdicts(sizes: Sizes, longest: int) -> list[str]:
    counted, quadratic = operations(sizes, longest), quadratic_operations(sizes, longest)
    sentence = _(
        "Counted at n = {n}: softmax is {softmax} of the operations of the three steps; the four projections, O(n d²), "
        "which the formula leaves out, are {projections} of all."
    )
    softmax = percent(counted["softmax"] / quadratic)
    projections = percent(counted["projections"] / (quadratic + counted["projections"]))
    return [
        sentence.format(n=f"{longest:,}", softmax=softmax, projections=projections),
        _("The three steps compute more than the projections from n = {n} on.").format(n=f"{crossing(sizes):,}"),
    ]


def verdicts(found: Growth) -> list[str]:
    """What the numbers just measured say of the claim."""
    line = _("Time of {step}: exponent {exponent}, {verdict}.")
    said = [machine_words(found.machine)]
    for step in QUADRATIC:
        fitted = found.time_fit(step)
        verdict = exponent_verdict(fitted, CLAIMED[step])
        said.append(line.format(step=step_name(step), exponent=exponent_words(fitted), verdict=verdict))
    return [*said, softmax_verdict(found), fused_verdict(found), overtaking(found)]


def softmax_verdict(found: Growth) -> str:
    longest = found.lengths[-1]
    share = found.seconds("softmax")[-1] / found.quadratic_seconds()
    expected = operations(found.sizes, longest)["softmax"] / quadratic_operations(found.sizes, longest)
    sentence = _(
        "At n = {n} softmax is {operations} of the three steps' operations and {time} of their time: {verdict}"
    )
    verdict = (
        _("the O hides what an operation costs.")
        if share > 2 * expected
        else _("its operations cost about what those of the products do, or less.")
    )
    return sentence.format(n=f"{longest:,}", operations=percent(expected), time=percent(share), verdict=verdict)


def fused_verdict(found: Growth) -> str:
    seconds, fitted = found.seconds("fused")[-1], found.time_fit("fused")
    sentence = _(
        "The fused kernel does the same in {time}, {ratio} times as fast as the three steps, with {fused} instead of "
        "{maps}; its time has the exponent {exponent} ({verdict}), its memory {memory}."
    )
    return sentence.format(
        time=duration(seconds),
        ratio=significant(found.quadratic_seconds() / seconds),
        fused=bytes_text(found.memory("fused")[-1]),
        maps=bytes_text(found.memory("softmax")[-1]),
        exponent=exponent_words(fitted),
        verdict=exponent_verdict(fitted, CLAIMED["fused"]),
        memory=exponent_words(found.memory_fit("fused")),
    )


def overtaking(found: Growth) -> str:
    first = found.overtaken()
    if first is None:
        sentence = _(
            "At n = {n}, the longest measured, the three steps took no longer than the projections: here O(n d²) is "
            "more."
        )
        return sentence.format(n=f"{found.lengths[-1]:,}")
    sentence = _("The three steps took longer than the projections from n = {first} on; by operations from n = {n} on.")
    return sentence.format(first=f"{first:,}", n=f"{crossing(found.sizes):,}")


def counts(sizes: Sizes, longest: int) -> Chart:
    """Operations of each step over the length, with their exponents in the upper part."""
    lengths = lengths_up_to(longest)
    series = []
    for step in STEPS[:-1]:  # the fused kernel does what three of them do
        values = [operations(sizes, length)[step] for length in lengths]
        name = with_exponent(step, upper_fit(lengths, values))
        dash = step == "values"  # as many as of the scores, and beneath them
        series.append(Series(name, np.array(lengths), np.array(values), COLOURS[step], dash=dash))
    return over_lengths(series, _("Counted operations"), _("operations"), "lab-counted", "cost_counts")


def steps_chart(found: Growth, of: Callable[[str], Numbers], title: str, unit: str, name: str) -> Chart:
    """Each step's values as dots, and the straight line through the upper part, dashed."""
    series = []
    for step in STEPS:
        line, colour = upper_fit(found.lengths, of(step)), COLOURS[step]
        series.append(Series(with_exponent(step, line), np.array(found.lengths), np.array(of(step)), colour, "dots"))
        if line is not None:
            xs = np.array(line.xs)
            fitted = _("{name}, fitted").format(name=step_name(step))
            series.append(Series(fitted, xs, line.factor * xs**line.exponent, colour, dash=True, quiet=True))
    return over_lengths(series, title, unit, f"lab-{name}", f"cost_{name}")


def with_exponent(step: str, line: Fit | None) -> str:
    return step_name(step) if line is None else f"{step_name(step)} n^{line.exponent:.2f}"


def over_lengths(series: Sequence[Series], title: str, unit: str, file: str, key: str) -> Chart:
    above = Heading(title, file, f"{file} {max(len(each.xs) for each in series)}", about=about_growth(file))
    length, values = Axis(_("length n"), log=True), Axis(unit, log=True)
    return Chart(key, above, series, length, values, tall=260, of=_("step"))


def about_growth(file: str) -> About:
    fitted = r"\log y = \log c + e \log n"
    if file == "lab-counted":
        sentence = _("How many operations each step of attention needs for a text of n tokens, both axes logarithmic.")
        formulas = [
            r"8\,n\,d^2 \text{ (projections)}, \quad 2\,n^2 d \text{ (each product)}, \quad "
            r"h\,n\,(5n - 2) \text{ (softmax)}, \quad d = h\,d_k",
        ]
        return About(sentence, formulas, [operations])
    sentence = {
        "lab-times": _(
            "How long each step of attention took on n tokens; dashed: the power law through the longer ones."
        ),
        "lab-memory": _(
            "How much memory each step of attention takes on n tokens; dashed: the power law through these."
        ),
    }[file]
    return About(sentence, [fitted], [steps, upper_fit])


def summary(sizes: Sizes, longest: int, found: Growth | None) -> pd.DataFrame:
    """What tutorials say of each step beside what was counted and measured."""
    claims = {"projections": _("left out"), "softmax": "O(n²)"}
    lengths = lengths_up_to(longest)
    rows = []
    for step in STEPS:
        counted = upper_fit(lengths, [operations(sizes, length)[step] for length in lengths])
        row = {
            _("step"): step_name(step),
            _("tutorials say"): claims.get(step, "O(n² d)"),
            _("counted: exponent of n"): f"{counted.exponent:.2f}" if counted else "–",
        }
        if found is not None:
            line, memory = found.time_fit(step), found.memory_fit(step)
            row |= {
                _("measured: exponent of n"): exponent_words(line),
                "R²": f"{line.r2:.4f}" if line else "–",
                _("time"): exponent_verdict(line, CLAIMED[step]),
                "GFLOP/s": significant(found.speed(step) / 1e9),
                _("memory: exponent of n (expected)"): f"{memory.exponent:.2f} ({CLAIMED_MEMORY[step]})"
                if memory
                else "–",
            }
        rows.append(row)
    return pd.DataFrame(rows)


def numbers(found: Growth) -> pd.DataFrame:
    """Every number that was measured."""
    return pd.DataFrame(
        {
            _("length n"): point.length,
            _("step"): step_name(step),
            _("operations"): operations(found.sizes, point.length)[step],
            **times_columns(point.times[step]),
            _("bytes"): point.memory[step],
        }
        for point in found.points
        for step in STEPS
    )
