"""The softmax as a distribution, with a temperature, and where it saturates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from model.analysis.attention_maps import Maps
from model.analysis.predictions import derivative_norm, entropies, saturation
from model.capture.trace import AttentionKind
from model.experiments.engines.scaling import SURE, first_factor, jacobian, thresholds
from model.experiments.engines.worked_example import DOCUMENT, Rows, take_steps
from model.inference.text_model import TextModel
from model.message import Message
from model.network.attention import Weights
from model.runtime.device import exact
from model.runtime.errors import require
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.colours import ATTENTION, EXPECTED, FIRST, PINNED, SECOND, THIRD
from viz.figures.figure import About, Caption
from viz.i18n.catalogue import _
from viz.i18n.format import in_turn, literal, percent, sides, significant, token_sign, tokens
from viz.i18n.messages import in_language, joined
from viz.pages.lab import worked_example
from viz.pages.lab.experiment import Findings, Instrument, Live
from viz.render.view import view
from viz.state.session import attention_kinds, choose, choose_attention, current_session
from viz.ui.parts import frame_of
from viz.ui.plots import array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from model.experiments.engines.scaling import Thresholds

SLIDER = [float(f"{value:.3g}") for value in np.geomspace(0.01, 100, 81)]


TEMPERATURES = [float(value) for value in np.geomspace(0.01, 100, 121)]
MOST = 64  # bars


class Part(StrEnum):
    """Names in the session state; FROM, QUERY and TEMPERATURE are parameters of the address bar too."""

    FROM = "softmax_from"
    QUERY = "softmax_query"
    TEMPERATURE = "softmax_t"
    BARS = "softmax_bars"
    CURVES = "softmax_curves"
    LIMITS = "softmax_limits"


@dataclass(frozen=True)
class Subject:
    """Scores of one query before any factor, with their keys' names. d_k: what the paper would divide by the root of.

    name: whose they are. side: of the tokens, if they are any. pinned: the scores of the pinned trace's query.
    """

    scores: Tensor
    labels: Sequence[str]
    d_k: int
    name: str
    side: str = ""
    pinned: Tensor | None = None


def experiment(model: TextModel) -> Instrument:
    """A softmax at a temperature: its weights as bars, entropy and largest weight as curves, and where it saturates."""
    return Instrument(
        key="softmax",
        claim=_("Softmax turns scores into a distribution, in O(n)."),
        truth=_(
            "The farther the largest score is from the others, the nearer its weight comes to 1 and the softmax's "
            "derivative diag(w) − wwᵀ to 0: it saturates. Largest scores that are equal share the weight at any size."
        ),
        parts=[partial(controls, model)],
        plain=_(
            "Softmax turns any numbers into shares that add up to 1. The larger the differences between the numbers, "
            "the more the largest takes, and the less a small change still does."
        ),
        formulas=[
            r"w_i = \frac{e^{s_i/T}}{\sum_j e^{s_j/T}}",
            r"\frac{\partial w}{\partial s} = \mathrm{diag}(w) - ww^\top \quad (T = 1)",
        ],
        explanation=_(
            "Softmax turns scores, which may be any numbers, into weights that are not negative and sum to 1. The "
            "temperature says how they are shared: a low one gives the largest score nearly all, a high one each the "
            "same. "
            "Scores are q · k before any factor; dividing them by √d_k (Vaswani et al., section 3.2.1) is a softmax at "
            "the temperature T = √d_k, which the right chart marks. What positions add to the scores is left out. A "
            "small T does what large scores do. The weights are those of the model's own softmax in float64; the last "
            "factors come from its gradients in float32 by autograd. This is the code that has just run:"
        ),
        code=(Weights, saturation, derivative_norm, jacobian, first_factor, thresholds),
    )


def controls(model: TextModel) -> Live:
    row = st.container(key="choices_softmax", horizontal=True, vertical_alignment="center")
    sources = {"example": _("of the worked example"), "head": _("of the chosen head")}
    if choose(_("Scores"), list(sources), "example", Part.FROM, sources.__getitem__, row) == "example":
        query = int(choose(_("Query"), ("1", "2", "3"), "2", Part.QUERY, query_name, row))
        subject = partial(of_example, query)
    else:
        subject = partial(of_head, choose_attention(attention_kinds(model.network), row))
    temperature = temperature_slider(row)
    return Live(lambda: findings(subject(), temperature))


def findings(subject: Subject, temperature: float) -> Findings:
    scores = subject.scores
    if not len(scores):
        return Findings(info=literal(_("{query} sees no key.").format(query=in_language(subject.name))))
    limits = current_session().cached(Part.LIMITS, (tuple(scores.tolist()),), lambda: thresholds(scores))
    plots = [view(Part.BARS, bars(subject, temperature)), view(Part.CURVES, curves(subject, temperature))]
    return Findings(verdicts(subject, temperature, limits), [plots], partial(table, subject, temperature), "softmax")


def temperature_slider(place: DeltaGenerator) -> float:
    """The temperature, in the address where it is not 1."""
    if Part.TEMPERATURE not in st.session_state:
        st.session_state[Part.TEMPERATURE] = nearest(current_session().address.get(Part.TEMPERATURE) or "1")
    label, key = _("temperature T"), Part.TEMPERATURE
    named = {value: f"T = {significant(value)}" for value in SLIDER}
    options: dict[str, Any] = {"key": key, "width": 320, "label_visibility": "collapsed"}  # the knob says "T = 1"
    chosen = float(place.select_slider(label, SLIDER, format_func=named.__getitem__, **options))
    if chosen != 1.0 or Part.TEMPERATURE in st.query_params:
        current_session().address.set(Part.TEMPERATURE, None if chosen == 1.0 else f"{chosen:g}")
    return chosen


def nearest(text: str) -> float:
    """The slider's place that is nearest to what the address says; 1 if that is no number."""
    try:
        wish = float(text)
    except ValueError:
        wish = 1.0
    wish = wish if wish > 0 else 1.0
    return min(SLIDER, key=lambda value: abs(np.log(value) - np.log(wish)))


def query_name(name: str) -> str:
    return Message("query {n}", n=name)


def of_example(query: int) -> Subject:
    """The scores of one input of the worked example, as it stands in this session."""
    matrices: dict[str, Rows] = current_session().memory.get(worked_example.Part.GOOD, DOCUMENT)
    steps = take_steps(matrices, scaled=False)
    keys = [Message("key {n}", n=number) for number in range(1, 4)]
    return Subject(steps.scores[query - 1], keys, steps.query.shape[-1], query_name(str(query)))


def of_head(kind: AttentionKind) -> Subject:
    """The scores of the chosen query of the chosen head, of the keys that it may look at.

    Raises:
        MissingQuantityError: the model does not show its scores.
    """
    session = current_session()
    trace = session.trace
    maps = Maps(trace, kind)
    chosen = session.fit_selection(maps.layers, maps.heads, maps.queries)
    path = maps.paths[chosen.layer]
    require(trace.network, f"{path}.scores", f"{path}.query")
    row = maps.row(chosen.layer, chosen.head, chosen.query)
    keys = (row["masked"] > -float("inf")).nonzero()[:, 0].tolist()
    rows, columns = sides(trace, kind)
    labels = tokens(trace, columns)
    query = token_sign(tokens(trace, rows)[chosen.query])
    name = Message("“{query}”, head {layer}.{head}", query=query, layer=chosen.layer + 1, head=chosen.head + 1)
    side = columns if len(keys) == len(labels) <= MOST else ""
    pinned = session.comparison.counterpart(f"{path}.scores") if session.comparison else None
    other = exact(pinned[chosen.head, chosen.query, keys]).cpu() if pinned is not None else None
    other = None if other is None or bool(other.isnan().any()) else other
    scores = exact(row["scores"][keys]).cpu()
    return Subject(scores, [labels[key] for key in keys], trace[f"{path}.query"].shape[-1], name, side, other)


def table(subject: Subject, temperature: float) -> pd.DataFrame:
    """A row for each key."""
    at = (subject.scores / temperature).softmax(dim=-1)
    columns = {
        _("key"): list(subject.labels),
        _("score"): subject.scores.tolist(),
        _("weight at T = 1"): subject.scores.softmax(dim=-1).tolist(),
        _("weight at T"): at.tolist(),
    }
    return frame_of(columns)


def bars(subject: Subject, temperature: float) -> Chart:
    """The weights at this temperature, beside those at temperature 1."""
    weights = (subject.scores / temperature).softmax(dim=-1)
    largest = np.sort(np.argsort(-array(weights), kind="stable")[:MOST])
    places = np.arange(len(largest))
    name = Message("at T = {temperature}", temperature=significant(temperature))
    series = [Series(name, places, array(weights)[largest], ATTENTION, "bars")]
    if temperature != 1:
        before = array(subject.scores.softmax(dim=-1))[largest]
        series.insert(0, Series(Message("at T = 1"), places, before, EXPECTED, "bars"))
    title, stamp = Message("Weights of {query}", query=subject.name), joined(" ", subject.name, f"{temperature:g}")
    above = Caption(
        title, "softmax-weights", stamp, left_out(len(weights) - len(largest)), "softmax(s/T)", about=ABOUT_BARS
    )
    keys = Axis(Message("key"), [subject.labels[place] for place in largest], subject.side)
    return Chart(above, series, keys, Axis(Message("weight"), low=0.0, high=1.0), tall=210, summed=True)


AT_TEMPERATURE = r"w_i = \frac{e^{s_i/T}}{\sum_j e^{s_j/T}}"
ABOUT_BARS = About(
    Message("Each bar is a key: the weight that the softmax makes of its score at this temperature, beside T = 1."),
    [AT_TEMPERATURE],
    [Weights],
    meaning=Message("The colder, the more goes to the largest score; the warmer, the more evenly it is divided."),
)
ABOUT_CURVES = About(
    Message("The same softmax at every temperature: the colder, the surer it is, and the less it can still move."),
    [
        AT_TEMPERATURE,
        r"\max_i w_i, \qquad -\frac{1}{\ln n}\sum_i w_i \ln w_i, \qquad \lVert \mathrm{diag}(w) - ww^\top \rVert_F",
    ],
    [saturation, derivative_norm],
    meaning=Message("Where it is sure its derivative is near 0, and training can hardly move it."),
)


def left_out(count: int) -> str:
    if not count:
        return ""
    return Message(
        "{count} key with a smaller weight is left out",
        plural="{count} keys with smaller weights are left out",
        count=count,
    )


def curves(subject: Subject, temperature: float) -> Chart:
    """Largest weight, entropy and what is left of the derivative, over the temperature."""
    saturations = saturation(subject.scores, TEMPERATURES)
    xs = np.array(TEMPERATURES)
    series = [
        Series(Message("largest weight"), xs, array(saturations.largest), FIRST),
        Series(Message("entropy / ln n"), xs, array(saturations.entropy), SECOND),
        Series("‖∂w/∂s‖", xs, array(saturations.derivative), THIRD),
    ]
    if subject.pinned is not None:
        other = saturation(subject.pinned, TEMPERATURES)
        series.append(Series(Message("largest weight, pinned"), xs, array(other.largest), PINNED, dash=True))
    places = {"T": temperature, "√d_k": subject.d_k**0.5}
    marks = [{"x": place, "text": f"{name} = {significant(place)}"} for name, place in places.items()]
    stamp, about = joined(" ", subject.name, f"{temperature:g}"), ABOUT_CURVES
    largest = significant(float(saturation(subject.scores, [temperature]).largest))
    finding = Message(
        "At T = {temperature} the largest weight is {largest}", temperature=significant(temperature), largest=largest
    )
    above = Caption(Message("Over the temperature"), "softmax-temperature", stamp, about=about, finding=finding)
    x, y = Axis(Message("temperature T"), log=True), Axis(Message("value"), low=0.0, high=1.0)
    return Chart(above, series, x, y, tall=210, marks=marks)


def verdicts(subject: Subject, temperature: float, limits: Thresholds) -> list[str]:
    """Sentences on it: distribution or none, how sure, and the factor by which scores must grow until it saturates."""
    weights = (exact(subject.scores) / temperature).softmax(dim=-1)
    single = (subject.scores.float() / temperature).softmax(dim=-1)
    error = abs(float(exact(single).sum()) - 1)
    sound = bool((single >= 0).all()) and error < 1e-5
    largest, entropy = float(weights.max()), float(entropies(subject.scores.double() / temperature))
    first = (
        _("It is a distribution: {count} weights, none below 0, their float32 sum is 1 to within {error}.")
        if sound
        else _("It is no distribution: the {count} float32 weights miss the sum 1 by {error}.")
    )
    state = (
        _("At T = {temperature} it is saturated: the largest weight is {largest}, entropy {entropy} of {most} nats.")
        if largest > SURE
        else _(
            "At T = {temperature} it is not saturated: the largest weight is {largest}, "
            "entropy {entropy} of {most} nats."
        )
    )
    most = float(torch.tensor(float(len(weights))).log())
    return [
        first.format(count=len(single), error=significant(error)),
        state.format(
            temperature=significant(temperature),
            largest=significant(largest),
            entropy=significant(entropy),
            most=significant(most),
        ),
        *limits_said(subject, limits),
    ]


def limits_said(subject: Subject, limits: Thresholds) -> list[str]:
    if limits.sure is None:
        if len(subject.scores) < 2:
            return [_("There is one key alone: it gets all of the weight at any temperature.")]
        ties = int((subject.scores == subject.scores.max()).sum())
        if ties == 1:
            return [_("Not even times 10⁹ does the largest weight exceed {sure}.").format(sure=SURE)]
        sentence = _("The {count} largest scores are equal: however large they are, each gets {share}, never more.")
        return [sentence.format(count=ties, share=percent(1 / ties))]
    sentences = [
        _("Scores times {factor}: the largest weight exceeds {sure}.").format(
            factor=significant(limits.sure), sure=SURE
        )
    ]
    if limits.own_gradient is not None:
        sentence = _("Times {factor}: its own gradient ∂w/∂s is exactly 0 in float32.")
        sentences.append(sentence.format(factor=significant(limits.own_gradient)))
    if limits.all_gradients is not None:
        sentence = _("Times {factor}: all gradients of the softmax are exactly 0 in float32.")
        sentences.append(sentence.format(factor=significant(limits.all_gradients)))
    return [in_turn(*sentences)]
