"""The page of masks in words: the line "What am I looking at?", and what is behind the "?" of each figure."""

from __future__ import annotations

from typing import Any

from model.analysis.comparison import Comparison, divergence, weight_changes
from model.analysis.masking import Batch, fills, future_change, orders
from model.capture.interventions import ChangedMask
from model.capture.trace import ATTENTION_PATHS, AttentionKind, Trace
from model.message import Message
from model.network.masks import Mask
from model.network.transformer import Network
from viz.figures.figure import About
from viz.i18n.catalogue import _
from viz.ui.parts import classes, explanation
from viz.ui.plots import scores_formula

MEASURING: dict[str, Any] = {"order": orders, "numbers": fills, "future": future_change, "batch": Batch}


def explain(key: str, network: Network, kind: AttentionKind, experiment: str, changed: bool) -> None:
    """For the mask, what it makes of a head, and the experiment below. changed: whether the model is."""
    attention = network.get_submodule(ATTENTION_PATHS[kind].format(0))
    explanation(
        key,
        _(
            "A mask says which tokens a token may look at: a decoder must not see the words that it has yet to write,"
            " and nobody should look at padding. Change it here, and see at once which weights and predictions move."
        ),
        [
            rf"\mathrm{{softmax}}\left({scores_formula(attention)} + M\right), \quad M_{{ij}} \in \{{0, -\infty\}}",
            r"\tfrac12 \sum_j |w_j - w'_j| \qquad \mathrm{KL}(p' \,\|\, p) = \sum p' \ln \frac{p'}{p}",
        ],
        _(
            "Vaswani et al., *Attention Is All You Need*, sections 3.1 and 3.2.3: the causal mask of the decoder, −∞ "
            "before softmax. Of padding, which must be masked in all attentions, the paper says nothing. A window is "
            "of Beltagy et al., 2020, section 3.1. Filled cells may be looked at, "
            "hatched ones not; framed ones were changed here. The model is changed from outside: every page then shows "
            "the changed model until it is restored. This is the code that has just run:"
        ),
        *(Mask, *([ChangedMask] if changed else []), *classes(attention), MEASURING[experiment]),
    )


# Explanations behind the "?" of each figure.


def about_mask(trace: Trace, path: str) -> About:
    sentence = Message(
        "Filled: this query, a row, may look at this key, a column; hatched: it may not. A frame is a change."
    )
    mask = trace.mask(path)
    own = mask.original if isinstance(mask, ChangedMask) else mask
    formulas = [r"M_{ij} = 0 \text{ (filled)}, \quad M_{ij} = -\infty \text{ (hatched)}"]
    formulas += [r"\text{causal: } j \le i"] if own.causal else []
    formulas += [rf"\text{{window: }} |i - j| < {own.window}"] if own.window is not None else []
    return About(
        sentence,
        formulas,
        [type(own), *([ChangedMask] if mask is not own else [])],
        meaning=Message("A causal mask is a staircase: no token sees what comes after it."),
    )


def about_flow(trace: Trace, path: str) -> About:
    attention = trace.attention_at(path)
    sentence = Message(
        "One head from its scores to its output: the mask is added, softmax makes weights, they sum the values."
    )
    formulas = [rf"W = \mathrm{{softmax}}\left({scores_formula(attention)} + M\right)", "O = WV"]
    return About(
        sentence,
        formulas,
        [type(attention)],
        meaning=Message(
            "A hidden score is −∞ before softmax, so its weight is exactly 0, and the others share what it would have"
            " had."
        ),
    )


def about_where(against_pin: bool) -> About:
    """Explanation of the heads whose weights moved, by the change or from the pinned ones."""
    sentence = Message("A row is a layer, a column a head: how much of its weights moved to other keys, 0 none, 1 all.")
    meaning = Message("A head whose rows have no changed cell, and whose input is as before, does not move.")
    if against_pin:
        return About(sentence, [MOVED + r", \quad w' \text{ pinned}"], [Comparison], meaning)
    return About(sentence, [MOVED + r", \quad w' \text{ before}"], [weight_changes], meaning)


def about_predictions(against_pin: bool) -> About:
    sentence = Message("How far the prediction at each token, p, is from the one before the change, p′.")
    if against_pin:
        sentence = Message("How far the prediction at each token, p, is from the pinned one, p′.")
    return About(
        sentence,
        [r"\mathrm{KL}(p' \,\|\, p) = \sum_v p'_v \ln \frac{p'_v}{p_v}"],
        [divergence],
        meaning=Message("It is 0 where nothing that this token reads has changed."),
    )


def about_tops(trace: Trace, against_pin: bool) -> About:
    sentence = Message("The tokens that are most probable at this position, before the change and now.")
    if against_pin:
        sentence = Message("The tokens that are most probable at this position, pinned and now.")
    return About(
        sentence,
        [r"p_v = \frac{e^{z_v}}{\sum_u e^{z_u}}"],
        [type(trace.module("output"))],
        meaning=Message("Where another one comes first, the text would go on otherwise."),
    )


def about_order() -> About:
    sentence = Message("This head's weights with the mask before softmax, as it belongs, and with two masks after it.")
    formulas = [
        r"\mathrm{softmax}(s + M)_{ij}",
        r"\mathrm{softmax}(s)_{ij} + M_{ij}",
        r"\mathrm{softmax}(s)_{ij}\, \mathbb{1}[M_{ij} = 0]",
    ]
    return About(
        sentence,
        formulas,
        [orders],
        meaning=Message("Only in the first do the rows add up to 1 and hidden keys get nothing."),
    )


def about_batch() -> About:
    sentence = Message(
        "Where each text of the batch may look: padding, with which it is as long as the longest, is hidden."
    )
    formula = (
        r"M_{b,i,j} = 0 \text{ if the rules let } i \text{ see } j \text{ and } j \text{ of text } b "
        r"\text{ is no padding, else } -\infty"
    )
    return About(
        sentence, [formula], [Mask], meaning=Message("So a text gives the same numbers alone and beside a longer one.")
    )


def about_future() -> About:
    sentence = Message(
        "How far each position's logits move when one token becomes another: causal, none before it moves."
    )
    return About(
        sentence,
        [r"\max_v \left| z_{t,v}(x) - z_{t,v}(x') \right|"],
        [future_change],
        meaning=Message("Without the mask the model would read the answer that it is to predict."),
    )


MOVED = r"\frac{1}{n} \sum_i \tfrac12 \sum_j |w_{ij} - w'_{ij}|"


# Names of the page's choices.


def scope_name(name: str) -> str:
    return {"all": _("all heads"), "layer": _("this layer"), "head": _("this head")}[name]


def rule_name(name: str) -> str:
    return {"causal": _("causal"), "padding": _("padding")}[name]


def experiment_name(name: str) -> str:
    return {
        "order": _("Mask before or after softmax"),
        "numbers": _("−∞ or −1e9"),
        "future": _("A changed future"),
        "batch": _("A padded batch"),
    }[name]
