"""Purpose of 1/√d_k: entropy and gradients against d_k, with random vectors and in the loaded model."""

from __future__ import annotations

import math
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

import torch

from model.analysis.attention_maps import Maps
from model.analysis.head_metrics import entropy
from model.analysis.predictions import derivative_norm
from model.capture.trace import AttentionKind, Trace
from model.experiments.engines import scaling
from model.experiments.engines.scaling import BothWays, against_width, both_ways
from model.experiments.experiment import Outcome
from model.experiments.index import experiments
from model.inference.text_model import TextModel
from model.message import Message
from model.network.attention import Scaled, Scores, Weights
from model.runtime.errors import require
from viz.figures.figure import About
from viz.i18n.catalogue import _
from viz.i18n.errors import unless_absent
from viz.i18n.format import in_turn, literal, significant, significant_alike
from viz.pages.lab.experiment import Findings, Instrument, Live, Measurement
from viz.pages.lab.head_choice import choose_head, head_panels, mean, title_row
from viz.pages.lab.outcome import statement_words, words
from viz.pages.lab.statements import measurement
from viz.render.view import FigureView, view
from viz.state.pin import cached_for_pin
from viz.state.session import Session, attention_kinds, choose_attention, current_session

if TYPE_CHECKING:
    from torch import Tensor


CARD = experiments()["scaled-scores"]  # the measurement on random vectors
TENTH = 0.1


class Part(StrEnum):
    """Names in the session state."""

    HEADS = "scaling_heads"
    MOVES = "scaling_moves"
    FOUND = "scaling_found"


def experiment(model: TextModel) -> Instrument:
    """Entropy and gradients against d_k with and without 1/√d_k, and the loaded model's heads both ways."""
    return Instrument(
        key="scaling",
        claim=statement_words(CARD),
        truth=literal(words(CARD.truth)),
        parts=[partial(of_random_vectors, model), partial(in_model, model)],
        widths=(3, 2),
        plain=_(
            "The wider a head is, the larger its scores become by chance, and the softmax then puts everything on one"
            " token. Dividing by √d_k keeps them in the range where it can still learn."
        ),
        formulas=[
            r"q, k \sim N(0, I_{d_k}) \;\Rightarrow\; \mathrm{Var}(q \cdot k) = d_k",
            r"\frac{\partial w}{\partial s} = \mathrm{diag}(w) - ww^\top, \qquad "
            r"\frac{\partial L}{\partial q} = f\,K^\top \frac{\partial w}{\partial s}\,V(wV - y)/d_k, \quad "
            r"f = 1 \text{ or } 1/\sqrt{d_k}",
        ],
        explanation=_(
            "The more channels query and key have, the larger are their dot products, until the softmax gives one key "
            "all the weight and hardly learns. Dividing by √d_k keeps the scores of one size at every width. "
            "Vaswani et al., section 3.2.1 and footnote 4: the dot product of two random vectors has variance d_k, so "
            "that without the factor the scores grow with √d_k and the softmax saturates. For each d_k, 8 sets of n "
            "keys and 64 queries are drawn; L is half the mean squared error of the head's output against a random "
            "one. The factor also multiplies the gradient on its way to the query, so that leaving it out makes that "
            "larger as long as the softmax is not saturated. In the model, the same queries and keys are taken with "
            "the factor and without; masks and positions stay. This is the code that has just run:"
        ),
        code=(Scores, Scaled, Weights, scaling.attend, against_width, derivative_norm, entropy, both_ways),
    )


QUANTITIES = {
    "entropy": r"H = -\sum_j w_j \ln w_j",
    "derivative": r"\left\lVert \frac{\partial w}{\partial s} \right\rVert_F, \quad "
    r"\frac{\partial w}{\partial s} = \mathrm{diag}(w) - ww^\top",
}


def about_heads(quantity: str) -> About:
    """Explanation of the maps of the loaded model's heads."""
    sentence = {
        "entropy": Message(
            "Each cell is a head of this model: how evenly it divides its weights, with 1/√d_k and without."
        ),
        "derivative": Message(
            "Each cell is a head of this model: how much its softmax can move, with 1/√d_k and without."
        ),
    }[quantity]
    return About(
        sentence,
        [QUANTITIES[quantity]],
        [both_ways],
        meaning=Message("Without it scores grow with d_k, and fewer keys get a weight."),
    )


# Random vectors.


def of_random_vectors(model: TextModel) -> Measurement[Outcome] | None:
    title_row("random", _("Random queries and keys, each channel from N(0, 1)"))
    return measurement("scaling", CARD, model, embedded=True)


# The loaded model.


def in_model(model: TextModel) -> Live:
    kind = choose_attention(attention_kinds(model.network), title_row("loaded", _("In the loaded model")))
    return Live(lambda: of_model(current_session(), kind), numbers=False)


def of_model(session: Session, kind: AttentionKind) -> Findings:
    """Findings on the loaded model's heads, and their maps.

    Raises:
        MissingQuantityError: the model does not show its scores.
    """
    inputs, pin = session.inputs, session.pin
    trace = inputs.trace
    own = current_session().cached(Part.FOUND, (trace, kind), lambda: heads_of(trace, kind))
    pinned = None
    if pin is not None and pin.trace.attention_paths(kind):
        pinned, _lacking = unless_absent(
            lambda: cached_for_pin(pin, "heads", (kind,), lambda: heads_of(pin.trace, kind))
        )
    maps = Maps(trace, kind)
    chosen = session.fit_selection(maps.layers, maps.heads, maps.queries)

    def both(values: Tensor, title: str, quantity: str, key: str) -> list[FigureView]:
        named: dict[str, Tensor] = {Message("without 1/√d_k"): values[0], Message("with 1/√d_k"): values[1]}
        top = float(torch.nan_to_num(values).max()) or 1.0
        place, about = (chosen.layer, chosen.head), about_heads("entropy" if key == Part.HEADS else "derivative")
        return [view(key, head_panels(inputs, named, title, quantity, top, place, key, about), cell=choose_head)]

    rows = [
        both(own.entropy, Message("Mean entropy of the weights, nats"), Message("entropy (nats)"), Part.HEADS),
        both(own.derivative, Message("Median derivative of the softmax"), "‖∂w/∂s‖", Part.MOVES),
    ]
    return Findings([model_verdict(own, pinned)], rows)


def heads_of(trace: Trace, kind: AttentionKind) -> BothWays:
    maps = Maps(trace, kind)
    require(trace.network, f"{maps.paths[0]}.query", f"{maps.paths[0]}.scores")
    return both_ways(maps)


def model_verdict(own: BothWays, pinned: BothWays | None) -> str:
    """The heads' entropy and derivative with the factor and without, on this text."""
    entropies = [mean(each) for each in own.entropy]
    typical = [float(each.nanmedian()) for each in own.derivative]
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
    off, on = significant_alike(*entropies[:2])
    text = sentence.format(
        d_k=own.d_k,
        factor=significant(own.factor),
        on=on,
        off=off,
        derivative=significant(typical[1]),
        other=significant(typical[0]),
        verdict=verdict,
    )
    if pinned is not None:
        values = significant_alike(*(mean(each) for each in pinned.entropy))
        text = in_turn(text, _("Pinned: {on} with, {off} without.").format(on=values[1], off=values[0]))
    return text
