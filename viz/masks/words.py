"""What the page of masks calls its choices."""

from __future__ import annotations

from viz.i18n.catalogue import _


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
