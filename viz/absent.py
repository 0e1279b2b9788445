"""What a model of others does not have, said where a page would show it."""

from __future__ import annotations

from collections.abc import Iterator

import streamlit as st

from model.errors import AbsentError
from model.hosted.reasons import Reason
from viz.i18n import _


def reason_words(reason: str) -> str:
    """Why a quantity does not exist, in the user's language."""
    return {
        Reason.OUTSIDE: _(
            "This model computes its attention by code of its own: only its weights can be seen, not the steps to them."
        ),
        Reason.STEPS: _(
            "This model's attention takes a step that is not known here: its weights can be seen, not the steps to "
            "them."
        ),
        Reason.PARALLEL: _(
            "In this model attention and feed-forward read the same stream side by side: there is none between them."
        ),
        Reason.UNITS: _(
            "This model's feed-forward network is of another form than activation(x W₁) W₂, gated or not: "
            "its units cannot be told apart."
        ),
        Reason.FLOW: _("In this model no module was found that computes exactly this: it is not shown."),
        Reason.EMBEDDING: _(
            "What enters this model's first layer is not simply the sum of a token's row and a position's."
        ),
        Reason.WIDTH: _(
            "The matrix over the vocabulary is not as wide as this model's stream: something stands between them."
        ),
        Reason.OUTPUT: _("This model has no logits: it was opened without an output for words."),
    }[Reason(reason)]


def absent_words(absent: AbsentError) -> str:
    """The reason, with the name of what is missing."""
    return f"{reason_words(absent.reason)} (`{absent.name}`)"


def telling(drawing: Iterator[None]) -> Iterator[None]:
    """A page in its parts; where it needs what the model does not have, this is said in place of the rest."""
    try:
        yield from drawing
    except AbsentError as absent:
        st.info(absent_words(absent))
        yield from (None, None, None)
