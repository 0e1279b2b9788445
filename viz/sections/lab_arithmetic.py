"""Part arithmetic of the laboratory: what can be computed by hand, and what follows from it."""

from __future__ import annotations

from streamlit.delta_generator import DeltaGenerator

from model.inference.model import Inspectable
from viz.i18n.catalogue import _
from viz.sections import lab_example, lab_scaling, lab_similarity, lab_softmax
from viz.state.workbench import choose
from viz.ui.parts import Views

ARITHMETIC = {
    "example": lab_example.section,
    "similarity": lab_similarity.section,
    "softmax": lab_softmax.section,
    "scaling": lab_scaling.section,
}


def arithmetic_section(lens: Inspectable, row: DeltaGenerator) -> Views:
    """One of its claims; what is not shown is not computed."""
    name = choose(_("Claim"), list(ARITHMETIC), "example", "arithmetic", claim_name, row)
    return ARITHMETIC[name](lens)


def claim_name(name: str) -> str:
    return {
        "example": _("Worked example"),
        "similarity": _("Dot product or cosine"),
        "softmax": _("Softmax and temperature"),
        "scaling": _("Why 1/√d_k"),
    }[name]
