"""Figures: plain values that know no Streamlit, no session, no language and no pin; `viz.render` draws them."""
