"""The application on models made for the benchmark of the head grid, which copies this file to a folder of its own,
beside `viz` and their `checkpoints`; it says in a file when a trace is there.
"""

from __future__ import annotations

import runpy
import time
from pathlib import Path

import streamlit as st

from viz.state.session import Session

HERE = Path(__file__).parent

if not hasattr(Session, "timed"):
    look = Session.trace_input

    def timed(self: Session, *arguments: object, **named: object) -> object:
        before = self.traced_input and self.trace
        trace = look(self, *arguments, **named)  # type: ignore[arg-type]
        if trace is not before:  # else the script has asked for what the channel has drawn
            (HERE / "traced").write_text(str(time.time()), encoding="ascii")
        return trace

    Session.trace_input = timed  # type: ignore[method-assign, assignment]
    Session.timed = True  # type: ignore[attr-defined]

if __name__ == "__main__":
    runpy.run_path("app.py", run_name="__main__")
else:
    from viz.frame.server import ROUTES, prepared

    app = st.App(__file__, routes=ROUTES, lifespan=prepared)
