"""Vitrine, as `streamlit run app.py` starts it."""

from viz.frame.app import main

main()
