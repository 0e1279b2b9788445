"""The line "What am I looking at?" of the page of masks."""

from __future__ import annotations

from typing import Any

from model.analysis.masking import Batch, fills, future_change, orders
from model.capture.interventions import ChangedMask
from model.capture.trace import ATTENTION_PATHS, AttentionKind
from model.network.masks import Mask
from model.network.transformer import Network
from viz.i18n.catalogue import _
from viz.ui.parts import classes, explanation
from viz.ui.plots import scores_formula

MEASURING: dict[str, Any] = {"order": orders, "numbers": fills, "future": future_change, "batch": Batch}


def explain(key: str, network: Network, kind: AttentionKind, experiment: str, changed: bool) -> None:
    """For the mask, what it makes of a head, and the experiment below. changed: whether the model is."""
    attention = network.get_submodule(ATTENTION_PATHS[kind].format(0))
    explanation(
        key,
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


# What the page of masks calls its choices.


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
