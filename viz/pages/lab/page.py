"""The laboratory: what tutorials say of the Transformer, measured here and now, or worked by hand."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.inference.text_model import TextModel
from model.message import Message
from viz.i18n.catalogue import _
from viz.pages.lab import scaling, similarity, softmax, statements, worked_example
from viz.state.session import choose, current_session
from viz.ui.parts import Views, foreign_code

# Part arithmetic of the laboratory: what can be computed by hand, and what follows from it.

ARITHMETIC = {
    "example": (Message("Worked example"), worked_example.experiment),
    "similarity": (Message("Dot product or cosine"), similarity.experiment),
    "softmax": (Message("Softmax and temperature"), softmax.experiment),
    "scaling": (Message("Why 1/√d_k"), scaling.experiment),
}


def arithmetic_section(model: TextModel, row: DeltaGenerator) -> Views:
    """One of its claims; what is not shown is not computed."""
    name = choose(_("Claim"), list(ARITHMETIC), "example", "arithmetic", lambda name: ARITHMETIC[name][0], row)
    return ARITHMETIC[name][1](model).show()


SECTIONS = {
    "statements": (Message("Statements"), statements.section),
    "arithmetic": (Message("By hand"), arithmetic_section),
}


def page(model: TextModel) -> Views:
    """One of its sections, each in the parts of a page; what is not shown is not computed."""
    foreign_code.set(())  # here our own code computes, whatever model is loaded
    row = st.container(key="choices_lab", horizontal=True, vertical_alignment="center")
    name = choose(_("Part"), list(SECTIONS), "statements", "lab_part", lambda name: SECTIONS[name][0], row)
    if name != "statements":
        current_session().address.forget(statements.STATEMENT)
    return SECTIONS[name][1](model, row)
