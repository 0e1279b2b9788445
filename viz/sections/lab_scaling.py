"""What 1/√d_k is for: entropy and gradients against d_k, with random vectors and in the loaded model."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import partial

import pandas as pd
import streamlit as st

from model.analysis.attention_maps import Maps
from model.analysis.head_metrics import entropy
from model.analysis.predictions import derivative_norm
from model.capture.trace import AttentionKind, Trace
from model.experiments import softmax
from model.experiments.softmax import Against, BothWays, against_width, both_ways
from model.inference.model import Inspectable
from model.network.attention import Scaled, Scores, Weights
from model.runtime.errors import require
from viz.components.plots import Mount
from viz.i18n.catalogue import _
from viz.i18n.errors import unless_absent
from viz.packing import lab_scaling as packing
from viz.packing.lab_head_panels import head_panels
from viz.sections.lab_claim import show_claim
from viz.sections.lab_running import Kept, experiment
from viz.sections.lab_selection import choose_head, choose_kind, heading
from viz.state.cache import of_pin, remembered
from viz.state.workbench import Workbench, workbench
from viz.ui.fields import Field, number_field
from viz.ui.parts import Views, data_table, explanation, folded, mount


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


def section(lens: Inspectable) -> Views:
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
        data = folded(Part.DATA, _("Data"))
    with right:
        kind = choose_kind(lens, heading(_("In the loaded model")))
        said, heads = st.container(), st.container()

    def views(_lens: Inspectable) -> Iterator[None]:
        found, lacking = unless_absent(lambda: of_model(workbench(), kind))
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
            data_table(Part.DATA, lambda: pd.DataFrame(packing.rows(report.result)), "d-k", place=data)

    return views


def show(found: Against) -> None:
    """The verdicts and the three charts of what has been computed so far."""
    derivative = packing.pack_norms(
        found, found.derivative, _("Derivative of the softmax"), "‖∂w/∂s‖", "derivative", Part.DERIVATIVE
    )
    gradient = packing.pack_norms(
        found, found.gradient, _("Gradient of a loss at the query"), "‖∂L/∂q‖", "gradient", Part.GRADIENT
    )
    st.text("\n".join(packing.verdicts(found)))
    packing.pack_entropy(found, Part.ENTROPY)()
    for place, made in zip(st.columns(2, gap="medium"), (derivative, gradient), strict=True):
        with place:
            made()


def of_model(bench: Workbench, kind: AttentionKind) -> tuple[str, list[Mount]]:
    """What is said of the loaded model's heads, and their maps.

    Raises:
        AbsentError: the model does not show its scores.
    """
    trace = bench.trace
    assert trace is not None
    found = remembered(Part.FOUND, (trace, kind), lambda: heads_of(trace, kind))
    pinned = None
    if bench.pin is not None and bench.pin.trace.attention_paths(kind):
        pin = bench.pin
        pinned, _lacking = unless_absent(lambda: of_pin(pin, "heads", (kind,), lambda: heads_of(pin.trace, kind)))
    maps = Maps(trace, kind)
    chosen = bench.fit_selection(maps.layers, maps.heads, maps.queries)
    place = chosen.layer, chosen.head
    drawn = (
        (found.entropy, _("Mean entropy of the weights, nats"), _("entropy (nats)"), Part.HEADS),
        (found.derivative, _("Median derivative of the softmax"), "‖∂w/∂s‖", Part.MOVES),
    )
    mounts = []
    for tensor, title, quantity, key in drawn:
        values = {_("without 1/√d_k"): tensor[0], _("with 1/√d_k"): tensor[1]}
        top = packing.largest(tensor)
        mounts.append(head_panels(trace, values, title, quantity, top, place, key, partial(choose_head, key)))
    return packing.model_verdict(found, pinned), mounts


def heads_of(trace: Trace, kind: AttentionKind) -> BothWays:
    maps = Maps(trace, kind)
    require(trace.model, f"{maps.paths[0]}.query", f"{maps.paths[0]}.scores")
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
        *(Scores, Scaled, Weights, softmax.attend, against_width, derivative_norm, entropy, both_ways),
    )
