"""The page of attention in words: formulas, papers, the code that ran; and why something is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from model.analysis import heads as numbers
from model.analysis.combining import COMBINATIONS
from model.analysis.maps import Maps, Quantity
from model.attention import Masked, MultiHeadAttention, Scaled, Scores, Weights
from viz.attention.shown import Shown, Wish
from viz.i18n import _
from viz.parts import explanation
from viz.workbench import Selection


def explain(key: str, wish: Wish) -> None:
    """The line "What am I looking at?" for what the controls say."""
    formulas = [r"\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}} + M\right)V"]
    ran: list[Any] = [MultiHeadAttention, Scores, Scaled, Masked, Weights, getattr(numbers, wish.metric)]
    if wish.quantity != Quantity.WEIGHT:
        formulas.append(r"\lVert \alpha_{ij}\, v_j \rVert, \qquad \lVert \alpha_{ij}\, v_j W^O \rVert")
        ran.append(Maps.weighted)
    if wish.combination == "rollout":
        formulas.append(r"\tilde A_L \cdots \tilde A_1, \qquad \tilde A = \tfrac12 W + \tfrac12 I")
    if wish.combination != "head":
        ran.append(COMBINATIONS[wish.combination])
    text = _(
        "Vaswani et al., *Attention Is All You Need*, section 3.2, equation 1. Each thumbnail is one head. "
        "A row is a query: how it divides its attention over the keys; the row adds up to 1. "
        "A hatched cell is masked: M is −∞ there. In cross-attention the queries come from the target, "
        "the keys and values from the source. The numbers beside the heads are means over the queries, always of the "
        "weights. ‖w·v‖ and ‖w·v·Wᴼ‖ say how much a key gives, not how much it is looked at (Kobayashi et al., 2020); "
        "rollout follows the weights through the layers, residuals included (Abnar & Zuidema, 2020). "
        "This is the code that has just run:"
    )
    explanation(key, formulas, text, *ran)


def refusal(shown: Shown, heads: Sequence[tuple[int, int]]) -> str:
    """Why there is no large figure; empty where there is one."""
    combination = shown.wish.combination
    if combination == "rollout" and shown.wish.kind == "cross":
        return _("Rollout multiplies the maps of one text layer by layer; cross-attention joins two: choose another.")
    if combination != "head" and not heads:
        return _("No head is left to combine: widen the choice under Heads.")
    return ""


def missing(shown: Shown, chosen: Selection) -> str:
    """What the pinned trace lacks; empty where it lacks nothing."""
    if shown.comparison is None:
        return ""
    if shown.pinned is None:
        return _("The pinned trace has no such attention, or another number of heads: nothing to compare with.")
    if chosen.layer >= shown.pinned.layers:
        return _("The pinned model has only {count} layers: nothing to compare with here.").format(
            count=shown.pinned.layers
        )
    return ""
