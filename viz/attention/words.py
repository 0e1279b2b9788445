"""What the page of attention calls its choices and numbers."""

from __future__ import annotations

import math

from viz.i18n.catalogue import _
from viz.i18n.format import significant


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


METRIC_SIGNS = {
    "entropy": "H",
    "distance": "D",
    "previous": "P",
    "first": "F",
    "special": "S",
    "diagonal": "=",
    "induction": "I",
}


def metric_number(name: str, value: float, difference: bool = False) -> str:
    """The number as it stands beside a head; a difference has a sign."""
    if math.isnan(value):
        return f"{METRIC_SIGNS[name]} –"
    text = f"{round(value, 2) + 0.0:+.2f}" if difference else f"{value:.2f}"  # + 0.0: no −0.00
    return f"{METRIC_SIGNS[name]} {text.replace('-', '−')}"


def metric_caption(name: str, cross: bool) -> str:
    """What the number on the thumbnails is, and in which unit."""
    if cross:
        return {
            "entropy": _("H = entropy in nats"),
            "distance": _("D = mean |p(i) − j| in keys, p(i) the query's place when both texts are equally long"),
            "previous": _("P = weight on the key before p(i), the query's place when both texts are equally long"),
            "first": _("F = weight on the first key"),
            "special": _("S = weight on special tokens"),
            "diagonal": _(
                "= is the weight on the key nearest to p(i), the query's place when both texts are equally long"
            ),
            "induction": _("I needs a text that looks at itself"),
        }[name]
    return {
        "entropy": _("H = entropy in nats"),
        "distance": _("D = mean |i − j| in tokens"),
        "previous": _("P = weight on the token before"),
        "first": _("F = weight on the first key"),
        "special": _("S = weight on special tokens"),
        "diagonal": _("= is the weight on the token itself"),
        "induction": _("I = weight on earlier tokens right after the same token (an induction head)"),
    }[name]


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
