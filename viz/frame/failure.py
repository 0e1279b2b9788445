"""What a visitor reads where the application itself has failed."""

from __future__ import annotations

import streamlit as st

from viz.i18n.catalogue import _
from viz.i18n.format import literal


def tell_failure(error: Exception) -> bool:
    """Sentence on an exception that nothing has caught, and a button that draws the page again. In the place of
    Streamlit's own box, which is English, and whose links lead to other machines; the log has where it came from.
    """
    sentence = _(
        "Vitrine itself has failed here ({name}): that is no fault of yours, and the server's log says where. The "
        "texts and choices are in the address: draw the page again, or reload it."
    )
    st.error(sentence.format(name=literal(type(error).__name__)))
    st.button(_("Draw the page again"), key="draw_again")
    return True
