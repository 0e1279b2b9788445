"""Part costs of the laboratory: time, operations, parameters and memory of attention, counted and measured."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.inference.model import Inspectable
from viz.i18n.catalogue import _
from viz.sections import lab_growth, lab_heads, lab_tying
from viz.state.workbench import choose
from viz.ui.parts import Views, nothing

COSTS = {
    "growth": lab_growth.show,
    "heads": lab_heads.show_heads,
    "ways": lab_heads.show_ways,
    "tying": lab_tying.show,
}


def costs_section(lens: Inspectable, row: DeltaGenerator) -> Views:
    """Nothing here depends on the text: all stays as it is while the user types."""
    name = choose(_("Claim"), list(COSTS), "growth", "cost", cost_name, row)
    COSTS[name](lens)
    label = _("Dropout: Norms and residual")
    st.page_link("viz/pages/residual/page.py", label=label, query_params={"residual_view": "dropout"})
    return nothing


def cost_name(name: str) -> str:
    return {
        "growth": "O(n² d)",
        "heads": _("h heads or one"),
        "ways": _("Narrow or wide heads"),
        "tying": _("One matrix"),
    }[name]
