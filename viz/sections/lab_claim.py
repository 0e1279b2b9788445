"""How each experiment of the laboratory begins: what tutorials say, and beside it what is true whatever is measured."""

from __future__ import annotations

import streamlit as st

from viz.i18n.catalogue import _


def show_claim(said: str, truth: str) -> None:
    left, right = st.columns(2, gap="medium")
    left.markdown(f"**{_('Tutorials say:')}** {said}")
    right.markdown(f"**{_('More exactly:')}** {truth}")
