"""What 1/√d_k is for: entropy and gradients against d_k, with random vectors and in the loaded model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import streamlit as st
import torch

from model.analysis.attention_maps import Maps
from model.analysis.head_metrics import entropy
from model.analysis.predictions import derivative_norm
from model.capture.trace import AttentionKind, Trace
from model.experiments.engines import scaling
from model.experiments.engines.scaling import Against, BothWays, against_width, both_ways, first_below, last_alike
from model.inference.text_model import TextModel
from model.network.attention import Scaled, Scores, Weights
from model.runtime.errors import require
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.figure import About, Caption
from viz.i18n.catalogue import _
from viz.i18n.errors import unless_absent
from viz.i18n.format import in_turn, significant
from viz.pages.lab.experiment import Findings, Instrument, Live, Measurement
from viz.pages.lab.head_choice import choose_kind, head_panels, mean, title_row
from viz.render.view import FigureView, view
from viz.state.pin import cached_for_pin
from viz.state.session import Session, current_session
from viz.ui.fields import Field, number_field
from viz.ui.plots import array

if TYPE_CHECKING:
    from torch import Tensor


OFF, ON = "#d55e00", "#0072b2"
TENTH, ALIKE = 0.1, 2.0


class Part(StrEnum):
    """Names in the session state; KEYS and SEED are parameters of the address bar too."""

    KEYS = "scaling_keys"
    SEED = "scaling_seed"
    HEADS = "scaling_heads"
    MOVES = "scaling_moves"
    FOUND = "scaling_found"


def experiment(model: TextModel) -> Instrument:
    """Entropy and gradients against d_k with and without 1/√d_k, and the loaded model's heads both ways."""
    return Instrument(
        key="scaling",
        claim=_(
            "Without 1/√d_k a large d_k saturates the softmax and kills the gradient; for a small d_k it does not "
            "matter."
        ),
        truth=_(
            "The dot product of two random vectors has the variance d_k, and the factor makes it 1. It multiplies the "
            "gradient on its way to the query too, so that softmax and query need not lose theirs at the same d_k."
        ),
        parts=[of_random_vectors, partial(in_model, model)],
        widths=(3, 2),
        formulas=[
            r"q, k \sim N(0, I_{d_k}) \;\Rightarrow\; \mathrm{Var}(q \cdot k) = d_k",
            r"\frac{\partial w}{\partial s} = \mathrm{diag}(w) - ww^\top, \qquad "
            r"\frac{\partial L}{\partial q} = f\,K^\top \frac{\partial w}{\partial s}\,V(wV - y)/d_k, \quad "
            r"f = 1 \text{ or } 1/\sqrt{d_k}",
        ],
        explanation=_(
            "Vaswani et al., section 3.2.1 and footnote 4: the dot product of two random vectors has variance d_k, so "
            "that without the factor the scores grow with √d_k and the softmax saturates. For each d_k, 8 sets of n "
            "keys and 64 queries are drawn; L is half the mean squared error of the head's output against a random "
            "one. The factor also multiplies the gradient on its way to the query, so that leaving it out makes that "
            "larger as long as the softmax is not saturated. In the model, the same queries and keys are taken with "
            "the factor and without; masks and positions stay. This is the code that has just run:"
        ),
        code=(Scores, Scaled, Weights, scaling.attend, against_width, derivative_norm, entropy, both_ways),
    )


# What stands behind the "?" of each figure.

WEIGHTS = r"w = \mathrm{softmax}(f\,K q), \quad f = 1 \text{ or } 1/\sqrt{d_k}"
QUANTITIES = {
    "entropy": r"H = -\sum_j w_j \ln w_j",
    "derivative": r"\left\lVert \frac{\partial w}{\partial s} \right\rVert_F, \quad "
    r"\frac{\partial w}{\partial s} = \mathrm{diag}(w) - ww^\top",
    "gradient": r"\left\lVert \frac{\partial L}{\partial q} \right\rVert, \quad "
    r"L = \frac{\lVert wV - y \rVert^2}{2\,d_k}",
}


def about_widths(quantity: str) -> About:
    """Of a chart over d_k."""
    sentence = {
        "entropy": _("How evenly random queries divide their weights over the keys, the larger d_k is."),
        "derivative": _("How much the softmax of random queries can still move, the larger d_k is; 0 is saturated."),
        "gradient": _("How much of a loss's gradient arrives at a random query, the larger d_k is."),
    }[quantity]
    return About(sentence, [WEIGHTS, QUANTITIES[quantity]], [scaling.attend])


def about_heads(quantity: str) -> About:
    """Of the maps of the loaded model's heads."""
    sentence = {
        "entropy": _("Each cell is a head of this model: how evenly it divides its weights, with 1/√d_k and without."),
        "derivative": _("Each cell is a head of this model: how much its softmax can move, with 1/√d_k and without."),
    }[quantity]
    return About(sentence, [QUANTITIES[quantity]], [both_ways])


# Random vectors.


def of_random_vectors() -> Measurement[Against] | None:
    title_row(_("Random queries and keys, each channel from N(0, 1)"))
    left, right = st.columns(2, gap="medium")
    keys = number_field(left, Field(Part.KEYS, _("keys n"), "16", 2, 1024, log=True))
    seed = number_field(right, Field(Part.SEED, _("seed"), "0", 0, 9999))
    if not keys or not seed:
        return None
    return Measurement(
        measure=against_width,
        settings=(int(keys[0]), int(seed[0])),
        findings=findings,
        begin=_("Compute again"),
        forecast=_("a second or two"),
        at_once=True,
    )


def findings(found: Against) -> Findings:
    norms = [
        norm_chart(found, found.derivative, _("Derivative of the softmax"), "‖∂w/∂s‖", "derivative"),
        norm_chart(found, found.gradient, _("Gradient of a loss at the query"), "‖∂L/∂q‖", "gradient"),
    ]
    return Findings(verdicts(found), [[entropy_chart(found)], norms], partial(table, found), "d-k")


def middle(values: Tensor) -> Tensor:
    """The median over the queries."""
    return values.median(dim=-1).values


def entropy_chart(found: Against) -> FigureView:
    """The mean entropy of the weights."""
    xs, values = np.array(found.widths), array(found.entropy.mean(dim=-1))
    series = [Series(_("without 1/√d_k"), xs, values[0], OFF), Series(_("with 1/√d_k"), xs, values[1], ON)]
    y = Axis(_("entropy (nats)"), low=0.0, high=math.log(found.keys))
    return over_widths(found, series, _("Entropy of the weights"), y, "entropy")


def norm_chart(found: Against, values: Tensor, name: str, title: str, file: str) -> FigureView:
    """A norm of each query: the median, and dashed the mean."""
    xs, typical, averaged = np.array(found.widths), array(middle(values)), array(values.mean(dim=-1))
    series = [
        Series(_("without, median"), xs, typical[0], OFF),
        Series(_("with, median"), xs, typical[1], ON),
        Series(_("without, mean"), xs, averaged[0], OFF, dash=True),
        Series(_("with, mean"), xs, averaged[1], ON, dash=True),
    ]
    return over_widths(found, series, name, Axis(title, log=True), file)


def over_widths(found: Against, series: list[Series], name: str, y: Axis, file: str) -> FigureView:
    above = Caption(name, f"d-k-{file}", f"{file} {found.keys} {len(found.widths)}", about=about_widths(file))
    return view(f"scaling_{file}", Chart(above, series, Axis("d_k", log=True), y, tall=210))


def verdicts(found: Against) -> list[str]:
    """From which d_k on the unscaled gradients are lost, and up to which it hardly matters."""
    typical = {name: middle(getattr(found, name)) for name in ("derivative", "gradient")}
    ratios = {name: values[0] / values[1] for name, values in typical.items()}
    averaged = found.derivative.mean(dim=-1)
    said = [lost(found, ratios["derivative"], _("The softmax's derivative, median over the queries:"))]
    said.append(lost(found, averaged[0] / averaged[1], _("Its mean over the queries:")))
    said.append(
        lost(found, ratios["gradient"], _("The gradient at the query, median; 1/√d_k itself makes it smaller:"))
    )
    alike = last_alike(found.widths, ratios["derivative"], ALIKE)
    said.append(
        _("Up to d_k = {width} the two derivatives differ by less than a factor {factor:g}: there it hardly matters.")
        .format(width=f"{alike:,}", factor=ALIKE)
        if alike is not None
        else _("Already at d_k = {width} the two derivatives differ by a factor {factor:g} or more.")
        .format(width=found.widths[0], factor=ALIKE)
    )  # fmt: skip
    return said


def lost(found: Against, ratios: Tensor, whose: str) -> str:
    """Where, if anywhere, the unscaled one falls below a tenth of the scaled one."""
    at, last = first_below(found.widths, ratios, TENTH), f"{found.widths[-1]:,}"
    sentence = (
        _("without the factor below a tenth of that with it from d_k = {width} on; at {last} it is {ratio} times it.")
        if at is not None
        else _("without the factor never below a tenth of that with it; at d_k = {last} it is {ratio} times it.")
    )
    width = "" if at is None else f"{at:,}"
    return f"{whose} {sentence.format(width=width, last=last, ratio=significant(float(ratios[-1])))}"


def table(found: Against) -> pd.DataFrame:
    """A row for each d_k."""
    columns: dict[str, Sequence[float]] = {"d_k": list(found.widths)}
    names = {"entropy": _("entropy (nats)"), "derivative": "‖∂w/∂s‖", "gradient": "‖∂L/∂q‖"}
    ways = (_("without 1/√d_k"), _("with 1/√d_k"))
    for quantity, name in names.items():
        for way, values in zip(ways, getattr(found, quantity), strict=True):
            columns[f"{name}, {way}, {_('mean')}"] = values.mean(dim=-1).tolist()
            columns[f"{name}, {way}, {_('median')}"] = middle(values).tolist()
    return pd.DataFrame(columns)


# The loaded model.


def in_model(model: TextModel) -> Live:
    kind = choose_kind(model, title_row(_("In the loaded model")))
    return Live(lambda: of_model(current_session(), kind), numbers=False)


def of_model(session: Session, kind: AttentionKind) -> Findings:
    """What is said of the loaded model's heads, and their maps.

    Raises:
        MissingQuantityError: the model does not show its scores.
    """
    trace, pin = session.trace, session.pin
    found = current_session().cached(Part.FOUND, (trace, kind), lambda: heads_of(trace, kind))
    pinned = None
    if pin is not None and pin.trace.attention_paths(kind):
        pinned, _lacking = unless_absent(
            lambda: cached_for_pin(pin, "heads", (kind,), lambda: heads_of(pin.trace, kind))
        )
    maps = Maps(trace, kind)
    chosen = session.fit_selection(maps.layers, maps.heads, maps.queries)

    def both(values: Tensor, title: str, quantity: str, key: str) -> FigureView:
        named = {_("without 1/√d_k"): values[0], _("with 1/√d_k"): values[1]}
        top = float(torch.nan_to_num(values).max()) or 1.0
        place, about = (chosen.layer, chosen.head), about_heads("entropy" if key == Part.HEADS else "derivative")
        return head_panels(trace, named, title, quantity, top, place, key, about)

    rows = [
        [both(found.entropy, _("Mean entropy of the weights, nats"), _("entropy (nats)"), Part.HEADS)],
        [both(found.derivative, _("Median derivative of the softmax"), "‖∂w/∂s‖", Part.MOVES)],
    ]
    return Findings([model_verdict(found, pinned)], rows)


def heads_of(trace: Trace, kind: AttentionKind) -> BothWays:
    maps = Maps(trace, kind)
    require(trace.network, f"{maps.paths[0]}.query", f"{maps.paths[0]}.scores")
    return both_ways(maps)


def model_verdict(found: BothWays, pinned: BothWays | None) -> str:
    """The heads' entropy and derivative with the factor and without, on this text."""
    entropies = [mean(each) for each in found.entropy]
    typical = [float(each.nanmedian()) for each in found.derivative]
    sentence = _(
        "This model's heads, d_k = {d_k}, computed with the factor {factor}: mean entropy {on} nats with 1/√d_k, {off} "
        "without; the median derivative {derivative} against {other}. {verdict}"
    )
    ratio = typical[0] / typical[1] if typical[1] else math.nan
    if math.isnan(ratio):
        verdict = _("With it too the softmax has no gradient on this text: there is nothing to lose.")
    elif ratio < TENTH:
        verdict = _("Without it the derivative would be less than a tenth.")
    else:
        verdict = _("Without it the derivative would be a tenth at least.")
    said = sentence.format(
        d_k=found.d_k,
        factor=significant(found.factor),
        on=significant(entropies[1]),
        off=significant(entropies[0]),
        derivative=significant(typical[1]),
        other=significant(typical[0]),
        verdict=verdict,
    )
    if pinned is not None:
        values = [significant(mean(each)) for each in pinned.entropy]
        said = in_turn(said, _("Pinned: {on} with, {off} without.").format(on=values[1], off=values[0]))
    return said
