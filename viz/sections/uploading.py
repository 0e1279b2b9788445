"""The field for files, in the language of the page."""

from __future__ import annotations

import streamlit as st

from viz import i18n
from viz.i18n import _

BUTTON = '[data-testid="stFileUploaderDropzone"] button p'


def in_words() -> None:
    """Streamlit's field for files says its one word in English: this puts ours in its place."""
    if i18n.language() != "en":
        word = _("Upload")
        st.html(
            f'<style>{BUTTON} {{ font-size: 0; }} {BUTTON}::after {{ content: "{word}"; font-size: 1rem; }}</style>'
        )
