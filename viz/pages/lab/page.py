"""The laboratory: what tutorials say of the Transformer, measured here and now, or worked by hand."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.inference.text_model import TextModel
from viz.i18n.catalogue import _
from viz.pages.lab import scaling, similarity, softmax, statements, worked_example
from viz.state.session import choose
from viz.ui.parts import Views, foreign_code

# Part arithmetic of the laboratory: what can be computed by hand, and what follows from it.

ARITHMETIC = {
    "example": worked_example.experiment,
    "similarity": similarity.experiment,
    "softmax": softmax.experiment,
    "scaling": scaling.experiment,
}


def arithmetic_section(model: TextModel, row: DeltaGenerator) -> Views:
    """One of its claims; what is not shown is not computed."""
    name = choose(_("Claim"), list(ARITHMETIC), "example", "arithmetic", claim_name, row)
    return ARITHMETIC[name](model).show()


def claim_name(name: str) -> str:
    return {
        "example": _("Worked example"),
        "similarity": _("Dot product or cosine"),
        "softmax": _("Softmax and temperature"),
        "scaling": _("Why 1/√d_k"),
    }[name]


SECTIONS = {"statements": statements.section, "arithmetic": arithmetic_section}


def page(model: TextModel) -> Views:
    """One of its sections, each in the parts of a page; what is not shown is not computed."""
    foreign_code.set(())  # here our own code computes, whatever model is loaded
    row = st.container(horizontal=True, vertical_alignment="center")
    name = choose(_("Part"), list(SECTIONS), "statements", "lab_part", section_name, row)
    return SECTIONS[name](model, row)


def section_name(name: str) -> str:
    return {"statements": _("Fifty statements"), "arithmetic": _("By hand")}[name]
