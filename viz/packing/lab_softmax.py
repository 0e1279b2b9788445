"""A softmax at a temperature: its weights as bars, entropy and largest weight as curves, and where it saturates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from model.analysis.predictions import entropies, saturation
from model.experiments.softmax import SURE
from model.runtime.device import exact
from viz.components.plots import Series, chart
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.packing.lab_plots import header, percent
from viz.ui.plots import EXPECTED, PINNED, array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from model.experiments.softmax import Thresholds
    from viz.components.plots import Mount

TEMPERATURES = [float(value) for value in np.geomspace(0.01, 100, 121)]
WEIGHT, LARGEST, SMALL = "#5c7cfa", "#d55e00", "#009e73"
MOST = 64  # bars


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


def pack_bars(subject: Subject, temperature: float, key: str) -> Mount:
    """The weights at this temperature, beside those at temperature 1."""
    weights = (subject.scores / temperature).softmax(dim=-1)
    shown = np.sort(np.argsort(-array(weights), kind="stable")[:MOST])
    places = np.arange(len(shown))
    name = _("at T = {temperature}").format(temperature=significant(temperature))
    series = [Series(name, places, array(weights)[shown], WEIGHT, "bars")]
    if temperature != 1:
        before = array(subject.scores.softmax(dim=-1))[shown]
        series.insert(0, Series(_("at T = 1"), places, before, EXPECTED, "bars"))
    title = _("Weights of {query}").format(query=subject.name)
    alt = _("at temperature {temperature} the largest is {largest}").format(
        temperature=significant(temperature), largest=significant(float(weights.max()))
    )
    more = {
        "x": {"title": _("key"), "labels": [subject.labels[place] for place in shown], "side": subject.side},
        "y": {"title": _("weight"), "low": 0.0, "high": 1.0},
        "tall": 210,
        "sentence": "softmax(s/T)",
        "note": left_out(len(weights) - len(shown)),
    }
    stamp, csv = f"{subject.name} {temperature:g}", (_("series"), _("key"), _("weight"))
    return chart(series, header(title, alt, "softmax-weights", stamp, csv, more), key)


def left_out(count: int) -> str:
    return _("{count} keys with smaller weights are left out").format(count=count) if count else ""


def pack_curves(subject: Subject, temperature: float, key: str) -> Mount:
    """Largest weight, entropy and what is left of the derivative, over the temperature."""
    found = saturation(subject.scores, TEMPERATURES)
    xs = np.array(TEMPERATURES)
    series = [
        Series(_("largest weight"), xs, array(found.largest), LARGEST),
        Series(_("entropy / ln n"), xs, array(found.entropy), SMALL),
        Series("‖∂w/∂s‖", xs, array(found.derivative), WEIGHT),
    ]
    if subject.pinned is not None:
        other = saturation(subject.pinned, TEMPERATURES)
        series.append(Series(_("largest weight, pinned"), xs, array(other.largest), PINNED, dash=True))
    alt = _("largest weight, entropy and derivative of the softmax")
    more = {
        "x": {"title": _("temperature T"), "log": True},
        "y": {"title": _("value"), "low": 0.0, "high": 1.0},
        "marks": [
            {"x": temperature, "text": f"T = {significant(temperature)}"},
            {"x": subject.d_k**0.5, "text": f"√d_k = {significant(subject.d_k**0.5)}"},
        ],
        "tall": 210,
    }
    stamp, csv = f"{subject.name} {temperature:g}", (_("series"), _("temperature T"), _("value"))
    return chart(series, header(_("Over the temperature"), alt, "softmax-temperature", stamp, csv, more), key)


def verdicts(subject: Subject, temperature: float, limits: Thresholds) -> list[str]:
    """Whether it is a distribution, how sure it is, and by which factor the scores must grow until it saturates."""
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
    said = [
        _("Scores times {factor}: the largest weight exceeds {sure}.").format(
            factor=significant(limits.sure), sure=SURE
        )
    ]
    if limits.own_gradient is not None:
        sentence = _("Times {factor}: its own gradient ∂w/∂s is exactly 0 in float32.")
        said.append(sentence.format(factor=significant(limits.own_gradient)))
    if limits.all_gradients is not None:
        sentence = _("Times {factor}: all gradients of the softmax are exactly 0 in float32.")
        said.append(sentence.format(factor=significant(limits.all_gradients)))
    return [" ".join(said)]
