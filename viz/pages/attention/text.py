"""The page of attention in words: formulas, papers, the code that ran; and why something is not there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch import nn

from model.analysis import head_metrics as numbers
from model.analysis.attention_maps import COMBINATIONS, Maps, Quantity
from model.analysis.head_importance import Removals
from model.analysis.head_metrics import likeness
from model.capture.interventions import HeadsRemoved, RemovedHead
from model.capture.trace import ATTENTION_PATHS
from model.network.transformer import Network
from viz.figures.figure import About
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.pages.attention.view import HeadMaps, HeadView
from viz.state.session import Selection
from viz.ui.parts import classes, explanation
from viz.ui.plots import scores_formula


def explain(key: str, network: Network, wish: HeadView, below: str) -> None:
    """The line "What am I looking at?" for what the controls say. below: what stands under the heads."""
    if below == "importance":
        return explain_importance(key)
    attention = network.get_submodule(ATTENTION_PATHS[wish.kind].format(0))
    if network.kind == "recurrent":
        return explain_alignment(key, attention)
    scores = scores_formula(attention)
    formulas = [rf"\mathrm{{Attention}}(Q, K, V) = \mathrm{{softmax}}\left({scores} + M\right)V"]
    ran: list[Any] = [*classes(attention), getattr(numbers, wish.metric)]
    if wish.quantity != Quantity.WEIGHT:
        formulas.append(r"\lVert \alpha_{ij}\, v_j \rVert, \qquad \lVert \alpha_{ij}\, v_j W^O \rVert")
        ran.append(Maps.weighted)
    if wish.combination == "rollout":
        formulas.append(r"\tilde A_L \cdots \tilde A_1, \qquad \tilde A = \tfrac12 W + \tfrac12 I")
    if wish.combination != "head":
        ran.append(COMBINATIONS[wish.combination])
    text = _(
        "Vaswani et al., *Attention Is All You Need*, section 3.2, equation 1. Each thumbnail is one head. "
        "A row is a query: how it divides its attention over the keys; the row adds up to 1, with what goes to a "
        "sink where there is one. A hatched cell is masked: M is −∞ there. In cross-attention the queries come from "
        "the target, the keys and values from the source. The numbers beside the heads are means over the queries, "
        "always of the weights. ‖w·v‖ and ‖w·v·Wᴼ‖ say how much a key gives, not how much it is looked at "
        "(Kobayashi et al., 2020); rollout follows the weights through the layers, residuals included (Abnar & "
        "Zuidema, 2020). This is the code that has just run:"
    )
    explanation(key, formulas, text, *ran)


def explain_alignment(key: str, attention: nn.Module) -> None:
    """The same of the one map of a recurrent network."""
    formulas = [
        r"e_{ij} = v^\top \tanh(W s_{i-1} + U h_j)",
        r"\alpha_{ij} = \frac{\exp e_{ij}}{\sum_k \exp e_{ik}}, \qquad c_i = \sum_j \alpha_{ij} h_j",
    ]
    text = _(
        "Bahdanau et al., *Neural Machine Translation by Jointly Learning to Align and Translate*, section 3.1. "
        "There is one attention with one head. A row is a target token: how the decoder's state before it divides its "
        "attention over the source; the row adds up to 1. This is the code that has just run:"
    )
    explanation(key, formulas, text, *classes(attention))


def explain_importance(key: str) -> None:
    """The same of removing heads and comparing them."""
    formulas = [
        r"\mathrm{MHA}(x) = \sum_h \xi_h\, \mathrm{softmax}\left(\frac{Q_h K_h^\top}{\sqrt{d_k}} + M\right) V_h W^O_h",
        r"I_h = \mathcal{L}(\xi_h = 0) - \mathcal{L}, \qquad \mathrm{KL}(p \,\Vert\, p_{\xi_h = 0})",
        r"\sqrt{\mathrm{JS}}, \quad \mathrm{JS} = H\!\left(\tfrac{p+q}{2}\right) - \tfrac{H(p) + H(q)}{2}, "
        r"\qquad \cos(o_h W^O_h,\, o_{h'} W^O_{h'})",
    ]
    text = _(
        "Michel et al., *Are Sixteen Heads Really Better than One?*, 2019, sections 2.3 and 3.2: a head is removed "
        "when its weighted values are 0 before Wᴼ. Here each head is removed in turn, this text is read again, and "
        "L is the mean loss of its actual tokens, as on the page of predictions. KL says how far the prediction "
        "moves where it moves most. That a head can be spared alone does not mean that all such heads can be spared"
        " together. Two heads look alike when their rows are near (Clark et al., 2019, section 6, by the "
        "Jensen–Shannon divergence), and give alike when what they add to the stream points the same way (after the"
        " outputs' disagreement of Li et al., 2018). One text says little about a model: type others. This is the "
        "code that has just run:"
    )
    explanation(key, formulas, text, HeadsRemoved, RemovedHead, Removals, likeness)


# What stands behind the "?" of each figure.


def about_map(shown: HeadMaps, layer: int) -> About:
    """Of the large figure, for what it combines."""
    attention, combination = shown.trace.attention_at(shown.maps.paths[layer]), shown.wish.combination
    if combination == "rollout":
        sentence = _("How much of each token has come to a row through all layers so far, residuals included.")
        formulas = [r"\tilde A_L \cdots \tilde A_1, \qquad \tilde A = \tfrac12 W + \tfrac12 I"]
        return About(sentence, formulas, [COMBINATIONS[combination]])
    sentence = _(
        "How a query, a row, divides its attention over the keys, the columns: the weights of a row add up to 1, with "
        "what goes to a sink where there is one."
    )
    formulas = [rf"W = \mathrm{{softmax}}\left({scores_formula(attention)} + M\right)"]
    ran: list[Any] = [type(attention)]
    if shown.wish.quantity != Quantity.WEIGHT:
        sentence = _("How long the vector is that a key, a column, gives to a query, a row.")
        formulas.append(r"\lVert w_{ij}\, v_j \rVert, \qquad \lVert w_{ij}\, v_j W^O_h \rVert")
        ran = [Maps.weighted]
    return About(sentence, formulas, [*ran, *([] if combination == "head" else [COMBINATIONS[combination]])])


def about_grid(shown: HeadMaps) -> About:
    sentence = _("Every head's map, small: its queries are rows, its keys columns. The number beside it is {metric}.")
    title, formula = metric_parts(shown.wish.metric)[1], METRICS[shown.wish.metric]
    return About(sentence.format(metric=title), [formula], [getattr(numbers, shown.wish.metric)])


def about_steps(shown: HeadMaps, layer: int) -> About:
    attention = shown.trace.attention_at(shown.maps.paths[layer])
    sentence = _(
        "From one query's scores to its output: scaled, masked, made weights, and the values added up by them."
    )
    formulas = [rf"w = \mathrm{{softmax}}\left({scores_formula(attention)} + M\right)", r"o = \sum_j w_j v_j"]
    return About(sentence, formulas, [type(attention)])


def about_vectors(shown: HeadMaps, layer: int) -> About:
    attention = shown.trace.attention_at(shown.maps.paths[layer])
    sentence = _("The vectors themselves: the query, all keys and values of this head, and what it adds to the stream.")
    formulas = [r"q = xW^Q_h, \quad K = XW^K_h, \quad V = XW^V_h, \quad o = \sum_j w_j v_j, \quad o\,W^O_h"]
    return About(sentence, formulas, [type(attention)])


# Of the number of a head; w is a query's row of weights, averaged over the n queries i.
METRICS = {
    "entropy": r"H = -\tfrac1n \sum_i \sum_j w_{ij} \ln w_{ij}",
    "distance": r"D = \tfrac1n \sum_i \frac{\sum_j w_{ij}\, |p(i) - j|}{\sum_j w_{ij}}",
    "previous": r"P = \tfrac1n \sum_i w_{i,\,p(i)-1}",
    "first": r"F = \tfrac1n \sum_i w_{i,0}",
    "special": r"S = \tfrac1n \sum_i \sum_{j\,\mathrm{special}} w_{ij}",
    "diagonal": r"{=} = \tfrac1n \sum_i w_{i,\,p(i)}",
    "induction": r"I = \tfrac1n \sum_i \sum_{j < i,\; t_{j-1} = t_i} w_{ij}",
}


def refusal(shown: HeadMaps, heads: Sequence[tuple[int, int]]) -> str:
    """Why there is no large figure; empty where there is one."""
    combination = shown.wish.combination
    if combination == "rollout" and shown.wish.kind == "cross":
        return _("Rollout multiplies the maps of one text layer by layer; cross-attention joins two: choose another.")
    if combination != "head" and not heads:
        return _("No head is left to combine: widen the choice under Heads.")
    return ""


def missing(shown: HeadMaps, chosen: Selection) -> str:
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


def log_sentence(floor: float, differing: bool) -> str:
    """What a logarithmic scale does with small values, and with the sign of differences."""
    if differing:
        return _("colours by the logarithm of a difference's size, none below {floor}").format(floor=f"{floor:g}")
    return _("colours by the logarithm, none below {floor}").format(floor=f"{floor:g}")


# What the page of attention calls its choices and numbers.


def metric_name(name: str) -> str:
    """A number of a head, with its sign on the thumbnails."""
    return {
        "entropy": _("H · entropy"),
        "distance": _("D · mean distance"),
        "previous": _("P · weight on the previous token"),
        "first": _("F · weight on the first token"),
        "special": _("S · weight on special tokens"),
        "diagonal": _("= · weight on the diagonal"),
        "induction": _("I · induction"),
    }[name]


def metric_parts(name: str) -> tuple[str, str]:
    """The sign of a metric, and what it is called."""
    sign, _dot, title = metric_name(name).partition(" · ")
    return sign, title


def metric_number(sign: str, value: float, difference: bool = False) -> str:
    """The number as it stands beside a head; a difference has a sign."""
    if math.isnan(value):
        return f"{sign} –"
    text = f"{round(value, 2) + 0.0:+.2f}" if difference else f"{value:.2f}"  # + 0.0: no −0.00
    return f"{sign} {text.replace('-', '−')}"


def metric_caption(name: str, cross: bool) -> str:
    """What the number on the thumbnails is, and in which unit."""
    names = {
        "entropy": _("H = entropy in nats"),
        "first": _("F = weight on the first key"),
        "special": _("S = weight on special tokens"),
    }
    if cross:
        names |= {
            "distance": _("D = mean |p(i) − j| in keys, p(i) the query's place when both texts are equally long"),
            "previous": _("P = weight on the key before p(i), the query's place when both texts are equally long"),
            "diagonal": _(
                "= is the weight on the key nearest to p(i), the query's place when both texts are equally long"
            ),
            "induction": _("I needs a text that looks at itself"),
        }
    else:
        names |= {
            "distance": _("D = mean |i − j| in tokens"),
            "previous": _("P = weight on the token before"),
            "diagonal": _("= is the weight on the token itself"),
            "induction": _("I = weight on earlier tokens right after the same token (an induction head)"),
        }
    return names[name]


def quantity_name(name: str) -> str:
    """A quantity on its button."""
    return {"weight": _("weight"), "value": "‖w·v‖", "output": "‖w·v·Wᴼ‖"}[name]


def order_name(name: str) -> str:
    return {"layer": _("by layer"), "highest": _("highest"), "lowest": _("lowest")}[name]


def combination_name(name: str) -> str:
    return {"head": _("one head"), "average": _("average"), "maximum": _("maximum"), "rollout": _("rollout")}[name]


def combination_title(name: str, count: int) -> str:
    """The heading of a figure of several heads."""
    title = {
        "average": _("Average of {count} heads"),
        "maximum": _("Maximum of {count} heads"),
        "rollout": _("Rollout of {count} heads"),
    }[name]
    return title.format(count=count)


def drawing_name(name: str) -> str:
    return {"map": _("map"), "lines": _("lines")}[name]


def bertviz_name(name: str) -> str:
    return {"head": _("Head view"), "model": _("Model view"), "neuron": _("Neuron view")}[name]


def pair(query: str, key: str, value: float) -> str:
    """Who looks at whom, and how much."""
    return f"{query} → {key}  {significant(value)}"


def below_name(name: str) -> str:
    """What stands under the heads."""
    return {"steps": _("One query, step by step"), "importance": _("Importance of each head")}[name]


def trace_name(name: str) -> str:
    return {"current": _("this trace"), "pinned": _("the pinned one")}[name]
