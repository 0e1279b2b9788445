"""How attention grows with the length: counted, measured, and what follows for what tutorials say."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from model.experiments.attention_cost import (
    CLAIMED,
    CLAIMED_MEMORY,
    STEPS,
    Growth,
    Sizes,
    growth,
    lengths_up_to,
    operations,
    room,
    steps,
    upper_fit,
)
from model.experiments.timing import ROUNDS, SECONDS, Fit, Numbers, fit
from model.fast.attention import fused
from model.inference.text_model import TextModel
from model.network.attention import Scores, Weights
from model.network.costs import attention_flops
from viz.components.old_plots import chart
from viz.components.plots import Mount, Series
from viz.i18n.catalogue import _
from viz.i18n.format import bytes_text, significant
from viz.pages.lab.experiment import (
    duration,
    header,
    machine_words,
    measuring,
    percent,
    show_claim,
    sizes_of,
    times_columns,
)
from viz.ui.fields import Field
from viz.ui.parts import data_table, explanation, mount
from viz.ui.plots import FIRST, FOURTH, SECOND, THIRD

VALUE = "#009e73"  # of values, wherever they are drawn
COLOURS = dict(zip(STEPS, (FIRST, SECOND, THIRD, VALUE, FOURTH), strict=True))
UNSURE = 0.5  # an exponent that is not known better tells 1 from 2 no more
PARTS = ("scores", "softmax", "values")  # of the claim
POWERS = {1: "n", 2: "n²"}
MOST = 1 << 24  # a length beyond which nobody asks


def step_name(step: str) -> str:
    return {
        "projections": _("four projections"),
        "scores": "Q Kᵀ",
        "softmax": "softmax",
        "values": _("weights · V"),
        "fused": _("fused kernel"),
    }[step]


def claim(step: str) -> str:
    return {
        "projections": _("left out"),
        "scores": "O(n² d)",
        "softmax": "O(n²)",
        "values": "O(n² d)",
        "fused": "O(n² d)",
    }[step]


def exponent_verdict(found: Fit | None, claimed: int) -> str:
    """Whether a fitted exponent is the claimed one, as far as that can be told."""
    if found is None or np.isnan(found.error):
        return _("too few lengths to tell")
    if found.error > UNSURE:
        return _("too uncertain to tell")
    if found.agrees(claimed):
        return _("as {power}, within its error").format(power=POWERS[claimed])
    sentence = _("faster than {power}") if found.exponent > claimed else _("slower than {power}")
    return sentence.format(power=POWERS[claimed])


def exponent_words(found: Fit | None) -> str:
    if found is None:
        return "–"
    if np.isnan(found.error):
        return significant(found.exponent)
    return f"{found.exponent:.2f} ± {found.error:.2f}"


def counted_verdicts(sizes: Sizes, longest: int) -> list[str]:
    """What the counts alone say, before anything is measured."""
    counted = operations(sizes, longest)
    quadratic = sum(counted[part] for part in PARTS)
    sentence = _(
        "Counted at n = {n}: softmax is {softmax} of the operations of the three steps; the four projections, O(n d²), "
        "which the formula leaves out, are {projections} of all."
    )
    return [
        sentence.format(
            n=f"{longest:,}",
            softmax=percent(counted["softmax"] / quadratic),
            projections=percent(counted["projections"] / (quadratic + counted["projections"])),
        ),
        _("The three steps compute more than the projections from n = {n} on.").format(n=f"{crossing(sizes):,}"),
    ]


def crossing(sizes: Sizes) -> int:
    """The first length at which the three steps have more operations than the projections."""

    def more(length: int) -> bool:
        counted = operations(sizes, length)
        return sum(counted[part] for part in PARTS) > counted["projections"]

    return bisect_left(range(MOST), True, lo=1, key=more)


def verdicts(found: Growth) -> list[str]:
    """What the numbers just measured say of the claim."""
    longest, said = found.lengths[-1], [machine_words(found.machine)]
    fits = {step: upper_fit(found.lengths, found.seconds(step)) for step in STEPS}
    line = _("Time of {step}: exponent {exponent}, {verdict}.")
    for step in PARTS:
        verdict = exponent_verdict(fits[step], CLAIMED[step])
        said.append(line.format(step=step_name(step), exponent=exponent_words(fits[step]), verdict=verdict))
    seconds = {step: found.seconds(step)[-1] for step in STEPS}
    counted = operations(found.sizes, longest)
    steps = sum(seconds[part] for part in PARTS)
    sentence = _(
        "At n = {n} softmax is {operations} of the three steps' operations and {time} of their time: {verdict}"
    )
    share, expected = seconds["softmax"] / steps, counted["softmax"] / sum(counted[part] for part in PARTS)
    verdict = (
        _("the O hides what an operation costs.")
        if share > 2 * expected
        else _("its operations cost about what those of the products do, or less.")
    )
    said.append(sentence.format(n=f"{longest:,}", operations=percent(expected), time=percent(share), verdict=verdict))
    said += [fused_verdict(found, fits["fused"], steps), overtaking(found)]
    return said


def fused_verdict(found: Growth, fitted: Fit | None, steps: float) -> str:
    ratio = steps / found.seconds("fused")[-1]
    maps, fused = (found.memory(step)[-1] for step in ("softmax", "fused"))
    sentence = _(
        "The fused kernel does the same in {time}, {ratio} times as fast as the three steps, with {fused} instead of "
        "{maps}; its time has the exponent {exponent} ({verdict}), its memory {memory}."
    )
    return sentence.format(
        time=duration(found.seconds("fused")[-1]),
        ratio=significant(ratio),
        fused=bytes_text(fused),
        maps=bytes_text(maps),
        exponent=exponent_words(fitted),
        verdict=exponent_verdict(fitted, CLAIMED["fused"]),
        memory=exponent_words(upper_fit(found.lengths, found.memory("fused"))),
    )


def overtaking(found: Growth) -> str:
    first = found.overtaken()
    if first is None:
        sentence = _(
            "At n = {n}, the longest measured, the three steps took no longer than the projections: here O(n d²) is "
            "more."
        )
        return sentence.format(n=f"{found.lengths[-1]:,}")
    counted = crossing(found.sizes)
    sentence = _("The three steps took longer than the projections from n = {first} on; by operations from n = {n} on.")
    return sentence.format(first=f"{first:,}", n=f"{counted:,}")


def pack_counts(sizes: Sizes, longest: int, key: str) -> Mount:
    """Operations of each step over the length, with their exponents in the upper part."""
    lengths = lengths_up_to(longest)
    counted = [operations(sizes, length) for length in lengths]
    series, said = [], []
    for step in STEPS[:-1]:  # the fused kernel does what three of them do
        values = [each[step] for each in counted]
        name = _named(step, upper_fit(lengths, values))
        said.append(name)
        dash = step == "values"  # as many as of the scores, and beneath them
        series.append(Series(name, np.array(lengths), np.array(values), COLOURS[step], dash=dash))
    return _plot(series, said, _("Counted operations"), _("operations"), "lab-counted", key)


def pack_times(found: Growth, key: str) -> Mount:
    return _measured(found, found.seconds, _("Measured time"), _("seconds"), "lab-times", key)


def pack_memory(found: Growth, key: str) -> Mount:
    return _measured(found, found.memory, _("Tensors that each step makes"), _("bytes"), "lab-memory", key)


def _measured(found: Growth, of: Callable[[str], Numbers], title: str, axis: str, file: str, key: str) -> Mount:
    """Each step's values as dots, and the straight line through the upper part, dashed."""
    series, said = [], []
    for step in STEPS:
        line = upper_fit(found.lengths, of(step))
        name = _named(step, line)
        said.append(name)
        series.append(Series(name, np.array(found.lengths), np.array(of(step)), COLOURS[step], "dots"))
        if line is not None:
            xs = np.array(line.xs)
            fitted = _("{name}, fitted").format(name=step_name(step))
            series.append(Series(fitted, xs, line.factor * xs**line.exponent, COLOURS[step], dash=True, quiet=True))
    return _plot(series, said, title, axis, file, key)


def _named(step: str, line: Fit | None) -> str:
    return step_name(step) if line is None else f"{step_name(step)} n^{line.exponent:.2f}"


def _plot(series: list[Series], said: list[str], title: str, axis: str, file: str, key: str) -> Mount:
    more = {"x": {"title": _("length n"), "log": True}, "y": {"title": axis, "log": True}, "tall": 260}
    stamp = f"{file} {max(len(each.xs) for each in series)}"
    return chart(series, header(title, "; ".join(said), file, stamp, (_("step"), _("length n"), axis), more), key)


def summary(sizes: Sizes, longest: int, found: Growth | None) -> pd.DataFrame:
    """What tutorials say of each step beside what was counted and measured."""
    lengths = lengths_up_to(longest)
    rows = []
    for step in STEPS:
        counted = upper_fit(lengths, [operations(sizes, length)[step] for length in lengths])
        row = {
            _("step"): step_name(step),
            _("tutorials say"): claim(step),
            _("counted: exponent of n"): f"{counted.exponent:.2f}" if counted else "–",
        }
        if found is not None:
            line = upper_fit(found.lengths, found.seconds(step))
            memory = upper_fit(found.lengths, found.memory(step))
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


def table(found: Growth) -> pd.DataFrame:
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


# Q Kᵀ costs O(n² d), softmax O(n²), weighting the values O(n² d).

LONGEST = 16384


def show(model: TextModel) -> None:
    show_claim(
        _("Attention costs O(n² d): Q Kᵀ O(n² d), softmax O(n²), weighting the values O(n² d)."),
        _(
            "That counts operations for long inputs. It leaves out the four projections, O(n d²), which are most of "
            "the work of short inputs; it does not say what an operation costs, which is measured here; and memory "
            "grows with n² only where the maps are written down."
        ),
    )
    asked = fields(model)
    given = sizes_of(model, "growth", asked)
    if given is None:
        return
    longest = given["cost_longest"]
    sizes = Sizes(
        batch=given["cost_batch"],
        heads=given["cost_heads"],
        width=given["cost_width"],
        device=model.device,
        dtype=model.dtype,
    )
    words = _("{count} lengths, each at least {seconds} s and {runs} runs; in the background")
    forecast = words.format(count=len(lengths_up_to(longest)), seconds=f"{SECONDS:g}", runs=ROUNDS)
    before = partial(draw_counts, sizes, longest)
    found = room(sizes, longest, least=int(asked[0].low))
    measuring("cost_growth", sizes, longest, found, growth, draw, before, forecast)
    explain()


def fields(model: TextModel) -> list[Field]:
    config = model.config
    return [
        Field("cost_longest", _("largest n"), "2048", 128, LONGEST, log=True),
        Field("cost_width", "d_k", str(config.d_head), 1, max(512, config.d_head)),
        Field("cost_heads", _("heads"), str(config.n_heads), 1, max(64, config.n_heads)),
        Field("cost_batch", _("batch"), "1", 1, 64),
    ]


def draw_counts(sizes: Sizes, longest: int) -> None:
    st.text("\n".join(counted_verdicts(sizes, longest)))
    left, right = st.columns(2, gap="medium")
    right.dataframe(summary(sizes, longest, None), hide_index=True)
    mount([(left, pack_counts(sizes, longest, "cost_counts"))])


def draw(found: Growth) -> None:
    longest = found.lengths[-1]
    st.text("\n".join(verdicts(found)))
    columns = st.columns(3, gap="medium")
    mount(
        zip(
            columns,
            [
                pack_times(found, "cost_times"),
                pack_memory(found, "cost_memory"),
                pack_counts(found.sizes, longest, "cost_counts"),
            ],
            strict=True,
        )
    )
    st.dataframe(summary(found.sizes, longest, found), hide_index=True)
    data_table("cost_growth_data", lambda: table(found), "lab-growth")


def explain() -> None:
    explanation(
        "cost_growth_explanation",
        [
            r"\underbrace{8\,n\,d^2}_{\text{projections}} + \underbrace{2\,n^2 d}_{Q K^\top} + "
            r"\underbrace{h\,n\,(5n - 2)}_{\text{softmax}} + \underbrace{2\,n^2 d}_{A V}, \quad d = h\,d_k \qquad "
            r"\log t = \log c + e \log n"
        ],
        _(
            "Vaswani et al., table 1 and section 4. A multiply-add counts 2; a row of the softmax counts its maximum, "
            "differences, exponentials, sum and quotients. Each step is one of the network's own modules, on random "
            "numbers. All steps run in turn, again and again, and the median counts. The exponent e is fitted by "
            "least squares to the lengths from an eighth of the largest on, where fixed costs are small; ± is its "
            "range of 95 per cent. Memory is that of the tensors that a step makes, when most of them are there; what "
            "a kernel takes for itself is not seen. On a CPU one core measures, so that the page answers meanwhile, "
            "in that thread's own time, so that the work of other programs is not counted. This is the code that "
            "runs:"
        ),
        *(Scores, Weights, fused, steps, operations, attention_flops, upper_fit, fit),
    )
