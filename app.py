"""Vitrine: `streamlit run app.py` serves this application, whose script is this very file."""

import os

import streamlit as st

# Before torch is read: its threads sleep while they wait; spinning ones take the processor from the others.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if __name__ == "__main__":
    from viz.frame.app import main

    main()
else:
    from viz.frame.failure import tell_failure
    from viz.frame.server import MIDDLEWARE, ROUTES, prepared

    app = st.App(__file__, routes=ROUTES, middleware=MIDDLEWARE, lifespan=prepared, on_script_error=tell_failure)
