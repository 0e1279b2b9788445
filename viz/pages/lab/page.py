"""The laboratory: what tutorials say of the Transformer, measured here and now."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.inference.text_model import TextModel
from viz.i18n.catalogue import _
from viz.pages.lab import (
    attention_growth,
    head_cost,
    scaling,
    side_by_side,
    similarity,
    softmax,
    statements,
    weight_tying,
    worked_example,
)
from viz.pages.lab.side_by_side_text import claims
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


# Part costs of the laboratory: time, operations, parameters and memory of attention, counted and measured.

COSTS = {
    "growth": attention_growth.experiment,
    "heads": head_cost.heads_experiment,
    "ways": head_cost.ways_experiment,
    "tying": weight_tying.experiment,
}


def costs_section(model: TextModel, row: DeltaGenerator) -> Views:
    """Nothing here depends on the text: all stays as it is while the user types."""
    name = choose(_("Claim"), list(COSTS), "growth", "cost", cost_name, row)
    views = COSTS[name](model).show()
    label = _("Dropout: Norms and residual")
    st.page_link("viz/pages/residual/page.py", label=label, query_params={"residual_view": "dropout"})
    return views


def cost_name(name: str) -> str:
    return {
        "growth": "O(n² d)",
        "heads": _("h heads or one"),
        "ways": _("Narrow or wide heads"),
        "tying": _("One matrix"),
    }[name]


# Part trainings of the laboratory: what only a training can show.


def trainings_section(model: TextModel, row: DeltaGenerator) -> Views:
    names = {name: claim.name for name, claim in claims().items()}
    name = choose(_("Claim"), list(names), "norms", "lab_training", names.__getitem__, row)
    return side_by_side.experiment(name, model).show()


SECTIONS = {
    "statements": statements.section,
    "arithmetic": arithmetic_section,
    "costs": costs_section,
    "trainings": trainings_section,
}


def page(model: TextModel) -> Views:
    """One of its sections, each in the parts of a page; what is not shown is not computed."""
    foreign_code.set(())  # here our own code computes, whatever model is loaded
    row = st.container(horizontal=True, vertical_alignment="center")
    name = choose(_("Part"), list(SECTIONS), "statements", "lab_part", section_name, row)
    return SECTIONS[name](model, row)


def section_name(name: str) -> str:
    return {
        "statements": _("Fifty statements"),
        "arithmetic": _("By hand"),
        "costs": _("What it costs"),
        "trainings": _("Trained side by side"),
    }[name]
