"""Words of the page Feed-forward: what its views, orders and quantities are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.message import Message
from model.network.layers import FeedForward, GatedFeedForward
from viz.i18n.catalogue import _

if TYPE_CHECKING:
    from model.network.config import TransformerConfig, Units

UNIT_VIEWS = ("unit", "token", "layer", "apart", "load")  # the last of a mixture of experts only
ORDERS = ("strength", "weakness", "number")


def unit_view(view: str) -> str:
    return {
        "unit": _("This unit"),
        "token": _("This token"),
        "layer": _("The layer"),
        "apart": _("By position"),
        "load": _("Load"),
    }[view]


def order_name(order: str) -> str:
    return {
        "strength": _("strongest first"),
        "weakness": _("weakest first"),
        "number": _("by number"),
    }[order]


def unit_quantity(quantity: str) -> Message:
    """Name of the quantity that is recorded of a unit."""
    return {
        "gated": Message("gate × linear"),
        "activation": Message("activation"),
        "linear": Message("linear"),
        "hidden": Message("before activation"),
    }[quantity]


# Formulas of a unit.

GATED = ("swiglu", "geglu", "geglu-tanh")
FUNCTIONS = {
    "relu": r"\mathrm{ReLU}",
    "gelu": r"\mathrm{GELU}",
    "silu": r"\mathrm{SiLU}",
    "swiglu": r"\mathrm{Swish}",
    "geglu": r"\mathrm{GELU}",
}


def is_gated(units: Units) -> bool:
    return units.activation in GATED or not units.activation


def unit_formula(config: TransformerConfig, units: Units, quantity: str) -> str:
    """A quantity of the units of a layer."""
    function = FUNCTIONS.get(units.activation.partition("-")[0], "a")
    if is_gated(units):
        parts = {"hidden": "xW", "linear": "xV", "activation": rf"{function}(xW)"}
        return parts.get(quantity, rf"{function}(xW) \otimes xV")
    hidden = "xW_1" + (" + b_1" if config.bias else "")
    return hidden if quantity == "hidden" else rf"{function}({hidden})"


def layer_class(units: Units) -> type[FeedForward]:
    return GatedFeedForward if is_gated(units) else FeedForward
