"""Tokens and positions: what the tokens are, what positions are, and both in the loaded model."""

from __future__ import annotations

from model.inference.text_model import TextModel
from viz.i18n.catalogue import _
from viz.pages.positions import applied, laboratory, order, tokens
from viz.state.session import choose
from viz.ui.choice_row import choice_row
from viz.ui.parts import Views

SECTIONS = {
    "tokens": tokens.section,
    "laboratory": laboratory.section,
    "applied": applied.section,
    "order": order.section,
}


def page(model: TextModel) -> Views:
    """One of four sections, each in the parts of a page; what is not shown is not computed."""
    with choice_row("positions") as row:
        name = choose(_("Part"), list(SECTIONS), "tokens", "part", section_name, row.place)
        return SECTIONS[name](model, row)


def section_name(name: str) -> str:
    return {
        "tokens": _("Tokens"),
        "laboratory": _("Position curves"),
        "applied": _("In this model"),
        "order": _("Without positions"),
    }[name]
