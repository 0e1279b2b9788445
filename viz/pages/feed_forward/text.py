"""Words of the page Feed-forward: what its views, orders and quantities are called."""

from __future__ import annotations

from viz.i18n.catalogue import _

UNIT_VIEWS = ("unit", "token", "layer", "apart", "load")  # the last of a mixture of experts only
ORDERS = ("strength", "number")


def unit_view(view: str) -> str:
    return {
        "unit": _("This unit"),
        "token": _("This token"),
        "layer": _("The layer"),
        "apart": _("Position by position"),
        "load": _("Load"),
    }[view]


def order_name(order: str) -> str:
    return {"strength": _("strongest first"), "number": _("by number")}[order]


def unit_quantity(quantity: str) -> str:
    """What is recorded of a unit."""
    return {
        "gated": _("gate × linear"),
        "activation": _("activation"),
        "linear": _("linear"),
        "hidden": _("before activation"),
    }[quantity]
