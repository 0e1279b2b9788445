"""What pages are built from: explanation, data table, names for files and screens."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from viz import i18n
from viz.i18n import _
from viz.workbench import Key

if TYPE_CHECKING:
    from pandas import DataFrame
    from streamlit.delta_generator import DeltaGenerator
    from streamlit.elements.lib.mutable_expander_container import ExpanderContainer

    from model import Inspectable, Trace
    from viz.components.views import Mount


# What a page draws of the model as it is now, in two parts: all is packed, and then mounted.
Views = Callable[["Inspectable"], Iterator[None]]

ARRANGED = "arranged"  # the fragment with the places and controls of a page
LINES, SOURCE = 22, 440  # of code: longer ones scroll in a place of so many pixels


def _language() -> str:
    """What this session speaks; English where there is none, as in a thread of its own."""
    alone = get_script_run_ctx(suppress_warning=True) is None
    return "en" if alone else str(st.session_state.get(Key.LANGUAGE, "en"))


i18n.follow(_language)

# Classes of a model that is run by the code of others, in this run of the script; none where our own code runs.
theirs: ContextVar[tuple[Any, ...]] = ContextVar("theirs", default=())


def arrange_again() -> NoReturn:
    """The page's controls are drawn anew too. For callbacks of what stands among its views, as their last act."""
    st.rerun(ARRANGED)


def nothing(_lens: Inspectable) -> Iterator[None]:
    """The views of a page that has said why it has none."""
    yield


def mount(parts: Iterable[tuple[DeltaGenerator, Mount]]) -> None:
    """What is packed, each in its place."""
    for place, show in parts:
        with place:
            show()


def explanation(key: str, formulas: Sequence[str], text: str, *ran: Any) -> None:
    """The line "What am I looking at?": formulas, a text with the paper's section, the source of what has just run."""
    explained = folded(key, _("What am I looking at?"))
    if not explained.open:
        return
    with explained:
        for formula in formulas:
            st.latex(formula)
        st.markdown(text)
        if others := theirs.get():
            st.caption(_("This model is run by transformers' own code, not by ours. This is a layer of it:"))
        code = "\n".join(inspect.getsource(part) for part in others or ran)
        st.code(code, language="python", height=SOURCE if code.count("\n") > LINES else "content")


def folded(key: str, title: str) -> ExpanderContainer:
    """A place that the user opens; `.open` says whether it is.

    Drawn with the page's controls, before the views: after them it costs the browser another round of rendering.
    """
    return st.expander(title, key=key, on_change="rerun")


def data_table(
    key: str,
    table: Callable[[], DataFrame],
    file: str,
    title: str | None = None,
    place: ExpanderContainer | None = None,
) -> None:
    """The numbers behind a page's views, computed when the user opens them, with a CSV of them all.

    place: where there is one already, see `folded`.
    """
    data = place or folded(key, title or _("Data"))
    if not data.open:
        return
    with data:
        frame = table()
        st.dataframe(frame, height=280)
        csv = frame.to_csv(index=False).encode("utf-8-sig")
        st.download_button("CSV", csv, f"{file}.csv", "text/csv", key=f"{key}_csv")


def stamp(trace: Trace) -> str:
    """What a component says it has painted."""
    return " ".join(trace.source_tokens)


def plot_words(*columns: str) -> dict[str, Any]:
    """Words that every plot needs; columns: of its CSV."""
    return {
        "masked": _("masked"),
        "missing": _("this token is not in the pinned text"),
        "download": _("Download"),
        "csv": list(columns),
    }


def outcome(how: str, sentence: str) -> None:
    """What came of something that was asked for. how: "good" or "wrong"."""
    {"good": st.success, "wrong": st.error}[how](sentence)
