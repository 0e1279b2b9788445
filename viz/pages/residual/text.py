"""Words of the page Norms and residual: what its views and quantities are called."""

from __future__ import annotations

from viz.i18n.catalogue import _

RESIDUAL_VIEWS = ("norms", "stream", "forms", "batch", "placement", "dropout", "gradients")


def residual_view(view: str) -> str:
    return {
        "norms": _("Norms"),
        "stream": _("Residual stream"),
        "forms": _("Forms of LayerNorm"),
        "batch": _("LayerNorm, BatchNorm"),
        "placement": _("Pre-norm, post-norm"),
        "dropout": _("Dropout"),
        "gradients": _("Gradients"),
    }[view]
