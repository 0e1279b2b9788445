"""What 1/√d_k is for: entropy and gradients against d_k, with random vectors and in the loaded model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import streamlit as st
import torch

from model.analysis.attention_maps import Maps
from model.analysis.head_metrics import entropy
from model.analysis.predictions import derivative_norm
from model.capture.trace import AttentionKind, Trace
from model.experiments import scaling
from model.experiments.scaling import Against, BothWays, against_width, both_ways, first_below, last_alike
from model.inference.text_model import TextModel
from model.network.attention import Scaled, Scores, Weights
from model.runtime.errors import require
from viz.components.old_plots import chart
from viz.components.plots import Mount, Series
from viz.i18n.catalogue import _
from viz.i18n.errors import unless_absent
from viz.i18n.format import significant
from viz.pages.lab.experiment import Kept, experiment, header, show_claim
from viz.pages.lab.head_choice import choose_head, choose_kind, head_panels, heading, mean
from viz.state.cache import cached
from viz.state.pin import cached_for_pin
from viz.state.session import Session, current_session
from viz.ui.fields import Field, number_field
from viz.ui.parts import Views, data_table, expander, explanation, mount
from viz.ui.plots import array

if TYPE_CHECKING:
    from torch import Tensor


class Part(StrEnum):
    """Names in the session state; KEYS and SEED are parameters of the address bar too."""

    KEYS = "scaling_keys"
    SEED = "scaling_seed"
    RUN = "scaling_run"
    ENTROPY = "scaling_entropy"
    DERIVATIVE = "scaling_derivative"
    GRADIENT = "scaling_gradient"
    HEADS = "scaling_heads"
    MOVES = "scaling_moves"
    FOUND = "scaling_found"
    EXPLANATION = "scaling_explanation"
    DATA = "scaling_data"


def section(model: TextModel) -> Views:
    show_claim(
        _(
            "Without 1/√d_k a large d_k saturates the softmax and kills the gradient; for a small d_k it does not "
            "matter."
        ),
        _(
            "The dot product of two random vectors has the variance d_k, and the factor makes it 1. It multiplies the "
            "gradient on its way to the query too, so that softmax and query need not lose theirs at the same d_k."
        ),
    )
    left, right = st.columns([3, 2], gap="large")
    with left:
        heading(_("Random queries and keys, each channel from N(0, 1)"))
        fields = st.columns(2, gap="medium")
        keys = number_field(fields[0], Field(Part.KEYS, _("keys n"), "16", 2, 1024, log=True))
        seed = number_field(fields[1], Field(Part.SEED, _("seed"), "0", 0, 9999))
        random = st.container()
        explain()
        data = expander(Part.DATA, _("Data"))
    with right:
        kind = choose_kind(model, heading(_("In the loaded model")))
        said, heads = st.container(), st.container()

    def views(_model: TextModel) -> Iterator[None]:
        found, lacking = unless_absent(lambda: of_model(current_session(), kind))
        yield
        with random:
            if keys and seed:
                settings = (int(keys[0]), int(seed[0]))
                experiment(
                    Part.RUN,
                    settings,
                    lambda: against_width(*settings),
                    show,
                    begin=_("Compute again"),
                    forecast=_("a second or two"),
                    at_once=True,
                )
        with said:
            if found is None:
                st.info(lacking)
            else:
                st.text(found[0])
                mount([(heads, each) for each in found[1]])
        kept: Kept | None = st.session_state.get(Part.RUN)
        if kept is not None and (report := kept.running.look()):
            data_table(Part.DATA, lambda: pd.DataFrame(rows(report.result)), "d-k", place=data)

    return views


def show(found: Against) -> None:
    """The verdicts and the three charts of what has been computed so far."""
    derivative = pack_norms(
        found, found.derivative, _("Derivative of the softmax"), "‖∂w/∂s‖", "derivative", Part.DERIVATIVE
    )
    gradient = pack_norms(
        found, found.gradient, _("Gradient of a loss at the query"), "‖∂L/∂q‖", "gradient", Part.GRADIENT
    )
    st.text("\n".join(verdicts(found)))
    pack_entropy(found, Part.ENTROPY)()
    for place, made in zip(st.columns(2, gap="medium"), (derivative, gradient), strict=True):
        with place:
            made()


def of_model(session: Session, kind: AttentionKind) -> tuple[str, list[Mount]]:
    """What is said of the loaded model's heads, and their maps.

    Raises:
        AbsentError: the model does not show its scores.
    """
    trace = session.trace
    found = cached(Part.FOUND, (trace, kind), lambda: heads_of(trace, kind))
    pinned = None
    if session.pin is not None and session.pin.trace.attention_paths(kind):
        pin = session.pin
        pinned, _lacking = unless_absent(
            lambda: cached_for_pin(pin, "heads", (kind,), lambda: heads_of(pin.trace, kind))
        )
    maps = Maps(trace, kind)
    chosen = session.fit_selection(maps.layers, maps.heads, maps.queries)
    place = chosen.layer, chosen.head
    drawn = (
        (found.entropy, _("Mean entropy of the weights, nats"), _("entropy (nats)"), Part.HEADS),
        (found.derivative, _("Median derivative of the softmax"), "‖∂w/∂s‖", Part.MOVES),
    )
    mounts = []
    for tensor, title, quantity, key in drawn:
        values = {_("without 1/√d_k"): tensor[0], _("with 1/√d_k"): tensor[1]}
        top = largest(tensor)
        mounts.append(head_panels(trace, values, title, quantity, top, place, key, partial(choose_head, key)))
    return model_verdict(found, pinned), mounts


def heads_of(trace: Trace, kind: AttentionKind) -> BothWays:
    maps = Maps(trace, kind)
    require(trace.network, f"{maps.paths[0]}.query", f"{maps.paths[0]}.scores")
    return both_ways(maps)


def explain() -> None:
    explanation(
        Part.EXPLANATION,
        [
            r"q, k \sim N(0, I_{d_k}) \;\Rightarrow\; \mathrm{Var}(q \cdot k) = d_k",
            r"\frac{\partial w}{\partial s} = \mathrm{diag}(w) - ww^\top, \qquad "
            r"\frac{\partial L}{\partial q} = f\,K^\top \frac{\partial w}{\partial s}\,V(wV - y)/d_k, \quad "
            r"f = 1 \text{ or } 1/\sqrt{d_k}",
        ],
        _(
            "Vaswani et al., section 3.2.1 and footnote 4: the dot product of two random vectors has variance d_k, so "
            "that without the factor the scores grow with √d_k and the softmax saturates. For each d_k, 8 sets of n "
            "keys and 64 queries are drawn; L is half the mean squared error of the head's output against a random "
            "one. The factor also multiplies the gradient on its way to the query, so that leaving it out makes that "
            "larger as long as the softmax is not saturated. In the model, the same queries and keys are taken with "
            "the factor and without; masks and positions stay. This is the code that has just run:"
        ),
        *(Scores, Scaled, Weights, scaling.attend, against_width, derivative_norm, entropy, both_ways),
    )


# Entropy and gradients against d_k with and without 1/√d_k, and the loaded model's heads both ways.

OFF, ON = "#d55e00", "#0072b2"
TENTH, ALIKE = 0.1, 2.0


def middle(values: Tensor) -> Tensor:
    """The median over the queries."""
    return values.median(dim=-1).values


def pack_entropy(found: Against, key: str) -> Mount:
    """The mean entropy of the weights."""
    values = array(found.entropy.mean(dim=-1))
    series = [
        Series(_("without 1/√d_k"), np.array(found.widths), values[0], OFF),
        Series(_("with 1/√d_k"), np.array(found.widths), values[1], ON),
    ]
    most = math.log(found.keys)
    name = _("Entropy of the weights")
    return chart(series, _header(found, name, _("entropy (nats)"), {"low": 0.0, "high": most}, "entropy"), key)


def pack_norms(found: Against, values: Tensor, name: str, title: str, file: str, key: str) -> Mount:
    """A norm of each query: the median, and dashed the mean."""
    xs, typical, averaged = np.array(found.widths), array(middle(values)), array(values.mean(dim=-1))
    series = [
        Series(_("without, median"), xs, typical[0], OFF),
        Series(_("with, median"), xs, typical[1], ON),
        Series(_("without, mean"), xs, averaged[0], OFF, dash=True),
        Series(_("with, mean"), xs, averaged[1], ON, dash=True),
    ]
    return chart(series, _header(found, name, title, {"log": True}, file), key)


def _header(found: Against, name: str, title: str, axis: dict[str, Any], file: str) -> dict[str, Any]:
    alt, stamp = _("over d_k, with 1/√d_k and without"), f"{file} {found.keys} {len(found.widths)}"
    more = {"x": {"title": "d_k", "log": True}, "y": {"title": title, **axis}, "tall": 210}
    return header(name, alt, f"d-k-{file}", stamp, (_("series"), "d_k", title), more)


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
        said += " " + _("Pinned: {on} with, {off} without.").format(on=values[1], off=values[0])
    return said


def rows(found: Against) -> dict[str, Any]:
    """A row for each d_k."""
    columns: dict[str, Any] = {"d_k": list(found.widths)}
    names = {"entropy": _("entropy (nats)"), "derivative": "‖∂w/∂s‖", "gradient": "‖∂L/∂q‖"}
    ways = (_("without 1/√d_k"), _("with 1/√d_k"))
    for quantity, name in names.items():
        values: Tensor = getattr(found, quantity)
        for way, each in zip(ways, values, strict=True):
            columns[f"{name}, {way}, {_('mean')}"] = each.mean(dim=-1).tolist()
            columns[f"{name}, {way}, {_('median')}"] = middle(each).tolist()
    return columns


def largest(values: Tensor) -> float:
    """The end of a scale from 0."""
    return float(torch.nan_to_num(values).max()) or 1.0
