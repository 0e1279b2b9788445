"""The laboratory: what tutorials say of the Transformer, measured here and now."""

from __future__ import annotations

import streamlit as st

from model.inference.model import Inspectable
from viz.i18n.catalogue import _
from viz.sections import lab_arithmetic, lab_costs, lab_trainings
from viz.state.workbench import choose
from viz.ui.parts import Views, theirs

SECTIONS = {
    "arithmetic": lab_arithmetic.arithmetic_section,
    "costs": lab_costs.costs_section,
    "trainings": lab_trainings.section,
}


def page(lens: Inspectable) -> Views:
    """One of its sections, each in the parts of a page; what is not shown is not computed."""
    theirs.set(())  # here our own code computes, whatever model is loaded
    row = st.container(horizontal=True, vertical_alignment="center")
    name = choose(_("Part"), list(SECTIONS), "arithmetic", "lab_part", section_name, row)
    return SECTIONS[name](lens, row)


def section_name(name: str) -> str:
    return {
        "arithmetic": _("By hand"),
        "costs": _("What it costs"),
        "trainings": _("Trained side by side"),
    }[name]
