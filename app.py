"""Vitrine: `streamlit run app.py` serves this application, whose script is this very file."""

import streamlit as st

if __name__ == "__main__":
    from viz.frame.app import main

    main()
else:
    from viz.frame.server import MIDDLEWARE, ROUTES, prepared

    app = st.App(__file__, routes=ROUTES, middleware=MIDDLEWARE, lifespan=prepared)
