"""Tokens and positions: what the tokens are, what positions are, and both in the loaded model."""

from __future__ import annotations

import streamlit as st

from model.inference.text_model import TextModel
from viz.i18n.catalogue import _
from viz.i18n.errors import reason_words
from viz.i18n.format import not_ours
from viz.pages.positions import applied, laboratory, order, tokens
from viz.state.session import choose
from viz.ui.choice_row import choice_row
from viz.ui.parts import Views, no_views

SECTIONS = {
    "tokens": tokens.section,
    "laboratory": laboratory.section,
    "applied": applied.section,
    "order": order.section,
}
WITH_OTHERS = ("applied", "order")  # sections that compute the model with other positions


def page(model: TextModel) -> Views:
    """One of four sections, each in the parts of a page; what is not shown is not computed."""
    with choice_row("positions") as row:
        name = choose(_("Part"), list(SECTIONS), "tokens", "part", section_name, row.place)
        if name in WITH_OTHERS and (reason := refusal(model)):
            st.info(reason)
            return no_views
        return SECTIONS[name](model, row)


def refusal(model: TextModel) -> str:
    """Reason why this model cannot be computed with other positions; "" if it can."""
    if not model.network.ours:
        return not_ours()
    why = model.network.missing.get("positions")
    return reason_words(why) if why else ""


def section_name(name: str) -> str:
    return {
        "tokens": _("Tokens"),
        "laboratory": _("Position curves"),
        "applied": _("In this model"),
        "order": _("Without positions"),
    }[name]
