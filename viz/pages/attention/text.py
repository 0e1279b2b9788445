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
from model.capture.trace import ATTENTION_PATHS, AttentionKind
from model.message import Message
from model.network.transformer import Network
from viz.figures.figure import About
from viz.i18n.catalogue import _
from viz.i18n.format import significant, significant_alike
from viz.i18n.messages import joined
from viz.pages.attention.view import HeadMaps, HeadSettings
from viz.state.session import Selection
from viz.ui.parts import classes, explanation
from viz.ui.plots import scores_formula


def explain(key: str, network: Network, wish: HeadSettings, below: str) -> None:
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
    explanation(
        key,
        _(
            "Each token divides its attention over the tokens that it may look at: a strong cell is where it looks "
            "most. A head is one such way of looking, and the model has many at once."
        ),
        formulas,
        text,
        *ran,
    )


def explain_alignment(key: str, attention: nn.Module) -> None:
    """Explanation of the one map of a recurrent network."""
    formulas = [
        r"e_{ij} = v^\top \tanh(W s_{i-1} + U h_j)",
        r"\alpha_{ij} = \frac{\exp e_{ij}}{\sum_k \exp e_{ik}}, \qquad c_i = \sum_j \alpha_{ij} h_j",
    ]
    text = _(
        "Bahdanau et al., *Neural Machine Translation by Jointly Learning to Align and Translate*, section 3.1. "
        "There is one attention with one head. A row is a target token: how the decoder's state before it divides its "
        "attention over the source; the row adds up to 1. This is the code that has just run:"
    )
    explanation(
        key,
        _(
            "Before it writes a word, the decoder looks over the whole source and decides how much of each word it "
            "needs. This is the attention of 2014, from which the Transformer comes."
        ),
        formulas,
        text,
        *classes(attention),
    )


def explain_importance(key: str) -> None:
    """Explanation of removing heads and comparing them."""
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
    explanation(
        key,
        _(
            "Take one head away and read the text again: if the predictions stay, the model can do without it. So "
            "each head gets a number that says how much this text needs it."
        ),
        formulas,
        text,
        HeadsRemoved,
        RemovedHead,
        Removals,
        likeness,
    )


# Explanations behind the "?" of each figure.


def about_map(head_maps: HeadMaps, layer: int) -> About:
    """Explanation of the large figure, for what it combines."""
    attention, combination = head_maps.trace.attention_at(head_maps.maps.paths[layer]), head_maps.wish.combination
    if combination == "rollout":
        sentence = Message("How much of each token has come to a row through all layers so far, residuals included.")
        formulas = [r"\tilde A_L \cdots \tilde A_1, \qquad \tilde A = \tfrac12 W + \tfrac12 I"]
        return About(
            sentence,
            formulas,
            [COMBINATIONS[combination]],
            meaning=Message("A strong column is a token whose content most of the text carries by now."),
        )
    sentence = Message(
        "How a query, a row, divides its attention over the keys, the columns: the weights of a row add up to 1, with "
        "what goes to a sink where there is one."
    )
    formulas = [rf"W = \mathrm{{softmax}}\left({scores_formula(attention)} + M\right)"]
    ran: list[Any] = [type(attention)]
    if head_maps.wish.quantity != Quantity.WEIGHT:
        sentence = Message("How long the vector is that a key, a column, gives to a query, a row.")
        formulas.append(r"\lVert w_{ij}\, v_j \rVert, \qquad \lVert w_{ij}\, v_j W^O_h \rVert")
        ran = [Maps.weighted]
    return About(
        sentence,
        formulas,
        [*ran, *([] if combination == "head" else [COMBINATIONS[combination]])],
        meaning=Message("A strong cell in a row is where that token gets most of what it takes over."),
    )


def about_grid(head_maps: HeadMaps) -> About:
    sentence = Message(
        "Every head's map, small: its queries are rows, its keys columns. The number beside it is {metric}.",
        metric=METRIC_TITLES[head_maps.wish.metric],
    )
    return About(
        sentence,
        [METRICS[head_maps.wish.metric]],
        [getattr(numbers, head_maps.wish.metric)],
        meaning=Message("Diagonals, columns and blocks are habits of a head; the same ones come back in other texts."),
    )


def about_steps(head_maps: HeadMaps, layer: int) -> About:
    attention = head_maps.trace.attention_at(head_maps.maps.paths[layer])
    sentence = Message(
        "From one query's scores to its output: scaled, masked, made weights, and the values added up by them."
    )
    formulas = [rf"w = \mathrm{{softmax}}\left({scores_formula(attention)} + M\right)", r"o = \sum_j w_j v_j"]
    return About(
        sentence,
        formulas,
        [type(attention)],
        meaning=Message(
            "Only the order of the scores and the gaps between them count: softmax makes the largest weight of the "
            "largest score."
        ),
    )


def about_vectors(head_maps: HeadMaps, layer: int) -> About:
    attention = head_maps.trace.attention_at(head_maps.maps.paths[layer])
    sentence = Message(
        "The vectors themselves: the query, all keys and values of this head, and what it adds to the stream."
    )
    formulas = [r"q = xW^Q_h, \quad K = XW^K_h, \quad V = XW^V_h, \quad o = \sum_j w_j v_j, \quad o\,W^O_h"]
    return About(
        sentence,
        formulas,
        [type(attention)],
        meaning=Message(
            "A key whose pattern follows the query's gets a high score; the values are mixed, and the mixture is "
            "written to the stream."
        ),
    )


# Formulas of a head's number; w is a query's row of weights, averaged over the n queries i.
METRICS = {
    "entropy": r"H = -\tfrac1n \sum_i \sum_j w_{ij} \ln w_{ij}",
    "distance": r"D = \tfrac1n \sum_i \frac{\sum_j w_{ij}\, |p(i) - j|}{\sum_j w_{ij}}",
    "previous": r"P = \tfrac1n \sum_i w_{i,\,p(i)-1}",
    "first": r"F = \tfrac1n \sum_i w_{i,0}",
    "special": r"S = \tfrac1n \sum_i \sum_{j\,\text{special}} w_{ij}",
    "diagonal": r"{=} = \tfrac1n \sum_i w_{i,\,p(i)}",
    "induction": r"I = \tfrac1n \sum_i \sum_{j < i,\; t_{j-1} = t_i} w_{ij}",
}


def refusal(head_maps: HeadMaps, heads: Sequence[tuple[int, int]]) -> str:
    """Reason why there is no large figure; empty where there is one."""
    combination = head_maps.wish.combination
    if combination == "rollout" and head_maps.wish.kind == "cross":
        return Message(
            "Rollout multiplies the maps of one text layer by layer; cross-attention joins two: choose another."
        )
    if combination != "head" and not heads:
        return Message("No head is left to combine: widen the choice under Heads.")
    return ""


def missing(head_maps: HeadMaps, chosen: Selection) -> str:
    """Sentence on what the pinned trace lacks; empty where it lacks nothing."""
    if head_maps.comparison is None:
        return ""
    if head_maps.pinned is None:
        return Message("The pinned trace has no such attention, or another number of heads: nothing to compare with.")
    if chosen.layer >= head_maps.pinned.layers:
        return Message(
            "The pinned model has only {count} layer: nothing to compare with here.",
            plural="The pinned model has only {count} layers: nothing to compare with here.",
            count=head_maps.pinned.layers,
        )
    return ""


def log_sentence(floor: float, differing: bool) -> Message:
    """Sentence on what a logarithmic scale does with small values, and with the sign of differences."""
    if differing:
        return Message("colours by the logarithm of a difference's size, none below {floor}", floor=significant(floor))
    return Message("colours by the logarithm, none below {floor}", floor=significant(floor))


# Names of the page's choices and numbers.


METRIC_SIGNS = {
    "entropy": "H",
    "distance": "D",
    "previous": "P",
    "first": "F",
    "special": "S",
    "diagonal": "=",
    "induction": "I",
}
METRIC_TITLES = {
    "entropy": Message("entropy"),
    "distance": Message("mean distance"),
    "previous": Message("weight on the previous token"),
    "first": Message("weight on the first token"),
    "special": Message("weight on special tokens"),
    "diagonal": Message("weight on the diagonal"),
    "induction": Message("induction"),
}


def metric_name(name: str) -> str:
    """A number of a head, with its sign on the thumbnails."""
    return joined(" · ", METRIC_SIGNS[name], METRIC_TITLES[name])


def metric_number(sign: str, value: float, difference: bool = False) -> str:
    """The number as it stands beside a head; a difference has a sign."""
    if math.isnan(value):
        return f"{sign} –"
    text = f"{round(value, 2) + 0.0:+.2f}" if difference else f"{value:.2f}"  # + 0.0: no −0.00
    return f"{sign} {text.replace('-', '−')}"


def metrics_of(kind: AttentionKind) -> list[str]:
    """Metrics that this kind of attention has: some are of a text that looks at itself."""
    return [name for name in numbers.METRICS if kind != "cross" or name not in ("previous", "diagonal", "induction")]


def metric_caption(name: str, cross: bool) -> str:
    """Name and unit of the number on the thumbnails."""
    if cross and name == "distance":
        return Message(
            "D = mean distance in keys from the counterpart, the key as far into the source as the query is into the "
            "target"
        )
    return {
        "entropy": Message("H = entropy in nats"),
        "distance": Message("D = mean distance in tokens, |i − j|"),
        "previous": Message("P = weight on the token before"),
        "first": Message("F = weight on the first key"),
        "special": Message("S = weight on special tokens"),
        "diagonal": Message("= is the weight on the token itself"),
        "induction": Message("I = weight on earlier tokens right after the same token (an induction head)"),
    }[name]


def quantity_name(name: str) -> str:
    """A quantity on its button."""
    return {"weight": Message("weight"), "value": "‖w·v‖", "output": "‖w·v·Wᴼ‖"}[name]


def order_name(name: str) -> Message:
    """Order of the heads: by layer, by a number of theirs from its highest, or from the lowest of the one shown."""
    if name in METRIC_TITLES:
        return Message("highest {number}", number=METRIC_TITLES[name])
    return {"layer": Message("sorted by layer"), "lowest": Message("lowest first")}[name]


def combination_name(name: str) -> str:
    return {
        "head": Message("one head"),
        "average": Message("average"),
        "maximum": Message("maximum"),
        "rollout": Message("rollout"),
    }[name]


def combination_title(name: str, count: int) -> Message:
    """The heading of a figure of several heads."""
    return {
        "average": Message("Average of {count} head", plural="Average of {count} heads", count=count),
        "maximum": Message("Maximum of {count} head", plural="Maximum of {count} heads", count=count),
        "rollout": Message("Rollout of {count} head", plural="Rollout of {count} heads", count=count),
    }[name]


def drawing_name(name: str) -> str:
    return {"map": Message("map"), "lines": Message("lines")}[name]


def bertviz_name(name: str) -> str:
    return {"head": Message("Head view"), "model": Message("Model view"), "neuron": Message("Neuron view")}[name]


def finding(quantity: str, query: str, key: str, value: float) -> Message:
    """Whom a query looks at most, and how much."""
    value_text = significant(value)
    if quantity == Quantity.WEIGHT:
        return Message("{query} looks at {key}: {weight}", query=query, key=key, weight=value_text)
    return Message("{key} gives most to {query}: {length}", query=query, key=key, length=value_text)


def changed_finding(quantity: str, query: str, key: str, before: float, now: float) -> Message:
    """Where a query's weight, or what a key gives to it, has changed most since the pin."""
    old, new = significant_alike(before, now)
    if quantity != Quantity.WEIGHT:
        return Message("{key} gives {query} {new}, pinned {old}", query=query, key=key, new=new, old=old)
    if now >= before:
        return Message("{query} looks more at {key}: {new}, pinned {old}", query=query, key=key, new=new, old=old)
    return Message("{query} looks less at {key}: {new}, pinned {old}", query=query, key=key, new=new, old=old)


def below_name(name: str) -> str:
    """Name of the section under the heads."""
    return {"steps": Message("One query, step by step"), "importance": Message("Importance of each head")}[name]


def trace_name(name: str) -> str:
    return {"current": Message("this trace"), "pinned": Message("the pinned one")}[name]
