"""Temperature, top-k and top-p on logits that are there already; and how a softmax saturates."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st
from pandas import DataFrame
from torch import Tensor

from model.analysis.head_metrics import entropies
from model.analysis.predictions import Sampled, sampled, saturation
from model.inference.decoding import Sampling
from model.message import Message
from model.runtime.device import exact
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.colours import EXPECTED, FIRST, OUTPUT, PINNED, SECOND
from viz.figures.figure import Caption
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.i18n.messages import joined
from viz.pages.predictions.components import Column, Ranking
from viz.pages.predictions.text import about_drawn, about_rank, about_saturation
from viz.state.sampling_sliders import LIMITS, RANGES, TEMPERATURE, TOP_K, TOP_P
from viz.ui.parts import frame_of
from viz.ui.plots import array, caption, stamp
from viz.ui.prediction import Subject

ROWS = 14
TEMPERATURES = [float(value) for value in np.geomspace(0.05, 20, 41)]
BEFORE, AFTER = EXPECTED, OUTPUT


def sampling_sliders(vocabulary: int) -> Sampling:
    """Sliders of temperature, top-k and top-p for a `vocabulary` of so many tokens; they are in the address too."""
    binding: dict[str, Any] = {"bind": "query-params", "persist_state": "session"}
    with st.container(key="sampling_sliders"):
        first, second, third = st.columns([2, 1, 1], vertical_alignment="bottom")
    temperature = first.slider(_("Temperature T"), *RANGES[TEMPERATURE], 1.0, 0.05, key=TEMPERATURE, **binding)
    words = {limit: str(limit) for limit in LIMITS} | {0: _("all")}
    # Limits above a small vocabulary stay: the wish outlives a look at another model.
    top_k = second.select_slider(_("Top-k"), LIMITS, 0, key=TOP_K, format_func=words.__getitem__, **binding)
    top_p = third.slider(_("Top-p"), *RANGES[TOP_P], 1.0, 0.05, key=TOP_P, **binding)
    return Sampling(temperature=temperature, top_k=top_k if 0 < top_k < vocabulary else None, top_p=top_p)


def draw(subject: Subject, sampling: Sampling) -> Sampled:
    """The chosen position's distribution before and after."""
    return sampled(subject.logits[subject.chosen], sampling)


def drawn_ranking(subject: Subject, sampling: Sampling, drawn: Sampled) -> Ranking:
    """The most probable tokens before and after, all others as one row, the sum below."""
    position, size = subject.chosen, len(drawn.tokens)
    listed = min(ROWS, size)
    rows = [subject.row(position, token, rank) for rank, token in enumerate(drawn.tokens[:listed].tolist(), start=1)]
    many = {"rank": "", "special": False, "actual": False, "open": False}
    left = size - listed
    others = [Message("{count:,} other", plural="{count:,} others", count=left)] if left else []
    rows += [{"label": label, **many} for label in (*others, "Σ")]

    def values(whole: Tensor) -> list[float]:
        sums = ([whole[listed:].sum()] if others else []) + [exact(whole).sum()]
        return [*whole[:listed].tolist(), *map(float, sums)]

    columns = [
        Column(Message("before"), values(drawn.before), "softmax(z)", "bar", BEFORE),
        Column(Message("after"), values(drawn.after), after_formula("z", drawn), "bar", AFTER),
    ]
    if (other := subject.pinned_logits) is not None:
        pinned = sampling(other.to(drawn.tokens.device))[drawn.tokens]
        columns.append(Column(Message("pinned, after"), values(pinned), after_formula("z′", drawn), "bar", PINNED))
    sentence = subject.with_pin(Message("before and after, no new forward pass"))
    name, file = subject.question(position), f"probabilities-at-{position}"
    above = Caption(name, file, f"{stamp(subject.trace)} {sampling}", sentence=sentence, about=about_drawn())
    return Ranking(above, rows, columns, position, facts(drawn))


def after_formula(logits: str, drawn: Sampled) -> str:
    """Formula of the probabilities from which is drawn: where tokens were cut off, shared out among those left."""
    if drawn.left == len(drawn.tokens):
        return f"softmax({logits}/T)"
    return Message("softmax({logits}/T) of those left", logits=logits)


def facts(drawn: Sampled) -> list[str]:
    size = len(drawn.tokens)
    before, after = (float(entropies(each)) for each in (drawn.before, drawn.after))
    return [
        Message("{left} of {size} tokens left", left=f"{drawn.left:,}", size=f"{size:,}"),
        Message("they had probability {kept}", kept=significant(drawn.mass)),
        Message("entropy {before} → {after} nats", before=significant(before), after=significant(after)),
    ]


def rank_chart(subject: Subject, drawn: Sampled) -> Chart:
    """Probability by rank, before and after, on logarithmic axes."""
    ranks = np.arange(1, len(drawn.tokens) + 1, dtype=np.float32)
    picked = np.unique(np.geomspace(1, len(ranks), 300).round().astype(int)) - 1  # evenly on the axis
    before, after = array(drawn.before), array(drawn.after)
    series = [
        Series(Message("before"), ranks[picked], before[picked], BEFORE),
        Series(Message("after"), ranks[picked], np.where(after > 0, after, np.nan)[picked], AFTER),
    ]
    if (other := subject.pinned_logits) is not None:
        sorted_ones = array(other.softmax(dim=-1).sort(descending=True).values)
        series.append(Series(Message("pinned"), ranks[picked], sorted_ones[picked], PINNED, dash=True))
    note = Message("{left} of {size} tokens left", left=f"{drawn.left:,}", size=f"{len(ranks):,}")
    above = caption(subject.inputs, Message("Probability by rank"), "probability-by-rank", note, about=about_rank())
    x, y = Axis(Message("rank"), log=True), Axis(Message("probability"), log=True, low=1e-8, high=1.0)
    return Chart(above, series, x, y, tall=150)


def saturation_chart(subject: Subject, temperature: float) -> Chart:
    """The largest probability, the entropy and the softmax's derivative over the temperature."""
    logits = subject.logits[subject.chosen]
    curves, here = saturation(logits, TEMPERATURES), saturation(logits, [temperature])
    xs, largest = np.array(TEMPERATURES, np.float32), Message("largest probability")
    series = [
        Series(largest, xs, array(curves.largest), OUTPUT),
        Series(Message("entropy / ln n"), xs, array(curves.entropy), FIRST),
        Series("‖∂softmax‖", xs, array(curves.derivative), SECOND),
    ]
    if (other := subject.pinned_logits) is not None:
        before = array(saturation(other, TEMPERATURES).largest)
        series.append(Series(joined(", ", largest, Message("pinned")), xs, before, PINNED, dash=True))
    series.append(Series(Message("chosen T"), np.full(2, temperature), np.array([0, 1]), BEFORE))
    at, most = significant(temperature), significant(float(here.largest))
    finding = Message("At T = {temperature} the first token has {largest}", temperature=at, largest=most)
    note = f"‖∂softmax‖ = {significant(float(here.derivative))}"
    name, about = Message("Saturation of the softmax"), about_saturation()
    above = caption(subject.inputs, name, "softmax-saturation", note, about=about, finding=finding)
    x, y = Axis(Message("temperature T"), log=True), Axis(Message("value"), low=0.0, high=1.0)
    return Chart(above, series, x, y, tall=150)


def table(subject: Subject, drawn: Sampled) -> DataFrame:
    """The chosen position's whole distribution, most probable first."""
    columns: dict[str, Any] = {
        Message("rank"): range(1, len(drawn.tokens) + 1),
        Message("token"): [subject.label(token) for token in drawn.tokens.tolist()],
        Message("before"): drawn.before.tolist(),
        Message("after"): drawn.after.tolist(),
    }
    return frame_of(columns)
