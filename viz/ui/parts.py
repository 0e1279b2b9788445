"""Parts of pages: explanation, data table, names for files and screens."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from viz.components.view import View
from viz.i18n import catalogue
from viz.i18n.catalogue import _
from viz.i18n.format import as_sentence, formula_in_language, in_turn, literal, token_sign
from viz.i18n.messages import in_language
from viz.render.view import FigureTable, figure_tables
from viz.state.session import Key, Session, current_session
from viz.ui.symbols import latex_of, named_symbols

if TYPE_CHECKING:
    from pandas import DataFrame
    from streamlit.delta_generator import DeltaGenerator
    from streamlit.elements.lib.mutable_expander_container import ExpanderContainer
    from torch import nn

    from model.inference.text_model import TextModel


Placed = tuple["DeltaGenerator", "View"]
Rest = Callable[[], None]
# Views of what the session shows with their places, the nearest to the eyes first: in any thread, without widgets. What
# it returns draws what only the script can: sentences, tables, controls.
Drawing = Generator[Sequence[Placed], None, Rest | None]
Views = Callable[["TextModel"], Drawing]

SAVED_LINES = 400  # of the tables of an expander in a page file
FIGURE = "explained_figure"
LINES, SOURCE = 22, 440  # of code: longer ones scroll in a place of so many pixels


def _language() -> str:
    """Language of this session; English where there is none, as in a thread of its own."""
    alone = get_script_run_ctx(suppress_warning=True) is None
    return "en" if alone else str(st.session_state.get(Key.LANGUAGE, "en"))


catalogue.follow(_language)

# Classes of a model that is run by the code of others, in this run of the script; none where our own code runs.
foreign_code: ContextVar[tuple[Any, ...]] = ContextVar("theirs", default=())


def no_views(_model: TextModel) -> Drawing:
    """The views of a page that has said why it has none."""
    yield []
    return None


def mount(parts: Iterable[Placed]) -> None:
    """Each view in its place, by the script."""
    for place, show in parts:
        with place:
            show()


def explanation(key: str, plain: str, formulas: Sequence[str], text: str, *ran: Any, symbols: str = "") -> None:
    """The line "What am I looking at?": two plain sentences, formulas and their symbols, a text with the paper's
    section, the source of what has just run. Opened, it stands beside the page (frame.css).

    symbols: of these formulas, as in `About`; else those that are known by their shape.
    """
    explained = expander(key, _("What am I looking at?"))
    if not explained.open and not current_session().saving:
        return
    with explained:
        _explain(key, plain, formulas, symbols, text, ran)


def explain_figure(session: Session) -> None:
    """Explanation of the figure whose "?" was pressed, beside the page until it is closed or the figure is gone."""
    key, about = session.explained or ("", None)
    if key not in session.views or about is None or session.saving:
        session.explained = None
        return
    caption = getattr(session.views[key], "caption", None)  # drawn again, in another language perhaps
    about = getattr(caption, "about", None) or about

    def close() -> None:
        session.explained = None

    with st.container(key=f"{FIGURE}_explanation"):
        row = st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center")
        row.markdown(f"**{_('What am I looking at?')}**", width="content")
        row.button(_("Close"), key=f"{FIGURE}_close", type="tertiary", on_click=close)
        plain, symbols = in_turn(about.sentence, in_language(about.meaning)), in_language(about.symbols)
        _explain(FIGURE, plain, about.formulas, symbols, "", about.ran)


def _explain(key: str, plain: str, formulas: Sequence[str], symbols: str, text: str, ran: Sequence[Any]) -> None:
    st.container(key=f"{key}_plain").markdown(plain)
    for formula in formulas:
        for part in re.split(r",?\s*\\q?quad\s*", formula):  # below each other: the place is narrow
            st.latex(formula_in_language(part))
    parts = [re.split(r"[:：]\s*", each, maxsplit=1) for each in re.split(r"[;；]\s*", symbols)] if symbols else []
    lines = [f"${latex_of(symbol)}$: {literal(words)}" for symbol, words in parts]
    lines = lines or [f"${formula_in_language(latex)}$: {words}" for latex, words in named_symbols(formulas)]
    if lines:
        st.container(key=f"{key}_symbols").markdown("\n".join(f"- {line}" for line in lines))
    if text:
        st.markdown(text)
    _show_what_ran(ran)


def _show_what_ran(ran: Sequence[Any]) -> None:
    """The source of these; of a model that others' code runs, that stands in place of our network's classes."""
    network = [part for part in ran if _is_network(part)]
    if network and (others := foreign_code.get()):
        st.caption(_("This model is run by transformers' own code, not by ours. This is a layer of it:"))
        _show_source(others)
        ran = tuple(part for part in ran if part not in network)
        if ran:
            st.caption(_("And this is what looks into it:"))
    _show_source(ran)


def _is_network(part: Any) -> bool:
    from torch import nn

    return isinstance(part, type) and issubclass(part, nn.Module)


def _show_source(ran: Sequence[Any]) -> None:
    if code := "\n".join(inspect.getsource(part) for part in ran):
        st.code(code, language="python", height=SOURCE if code.count("\n") > LINES else "content", wrap_lines=True)


def classes(*modules: nn.Module) -> list[type]:
    """The classes of ours that these are made of, each once, in the order in which they stand."""
    every = [type(part) for module in modules for part in module.modules()]
    return list(dict.fromkeys(each for each in every if each.__module__.startswith("model.")))


def expander(key: str, title: str) -> ExpanderContainer:
    """A place that the user opens; `.open` says whether it is. What is in it is drawn for a page file too: it is closed
    there, and can be opened.

    Drawn with the page's controls, before the views: after them it costs the browser another round of rendering.
    """
    return st.expander(title, key=key, on_change="rerun")


def under_figures(explain: Callable[[], None], key: str) -> ExpanderContainer:
    """The line "What am I looking at?" and beside it the place of the data; on a phone they follow all figures."""
    explained, data = st.columns(2)
    with explained:
        explain()
    with data:
        return expander(key, _("Data"))


def data_table(
    key: str,
    table: Callable[[], DataFrame] | None,
    file: str,
    title: str | None = None,
    place: ExpanderContainer | None = None,
    parts: Iterable[Placed] = (),
    more: Mapping[str, Callable[[], DataFrame]] | None = None,
) -> None:
    """The numbers behind a page's views, computed when the user opens them, with a CSV of them all.

    table: of the whole page, where there is one. place: where one is already, see `expander`. parts: what the views
    draw. more: other tables by their names. The user chooses between the whole and each of these.
    """
    data = place or expander(key, title or _("Data"))
    saving = bool(current_session().saving)
    if not data.open and not saving:
        return
    tables = {_("Overview"): FigureTable(file, table)} if table else {}
    tables |= figure_tables(show for _place, show in parts)
    tables |= {
        name: FigureTable(f"{file}-{number}", make) for number, (name, make) in enumerate((more or {}).items(), 1)
    }
    with data:
        if saving:
            with st.container(key=f"saved_open_{key}") if data.open else nullcontext():  # which the page hides
                saved_tables(tables)
        if not data.open:
            return
        chosen = choose_table(f"{key}_of", tables) if len(tables) > 1 else next(iter(tables), None)
        if chosen is None:
            return
        frame = tables[chosen].make()
        widths = number_columns(frame).items()
        config = {name: st.column_config.NumberColumn(format="%.4g", width=wide) for name, wide in widths}
        st.dataframe(frame, height=280, hide_index=True, column_config=config)
        if has_space_marks(frame):
            st.caption(_("Tokens are written here as their tokenizer does: ▁ is a space."))
        csv = harmless(frame).to_csv(index=False).encode("utf-8-sig")
        st.download_button("CSV", csv, f"{tables[chosen].file}.csv", "text/csv", key=f"{key}_csv")


def has_space_marks(frame: DataFrame) -> bool:
    """True of a table in which a space is written as tokenizers do."""
    texts = (frame[name] for name in dict.fromkeys(frame.select_dtypes(exclude="number")))
    return any("▁" in str(cell) for each in texts for cell in each.to_numpy().flat)


def number_columns(frame: DataFrame) -> dict[str, int | None]:
    """Width in pixels of columns that are written with four digits on the screen: of fractions, for which Streamlit has
    four decimals. It measures a column by its first rows, and cuts a longer number below them at its left: 0.000006 to
    000006. So one with small numbers has room for the longest.
    """
    import numpy as np

    sizes = {str(name): np.abs(frame[name]) for name in frame.select_dtypes("float") if list(frame).count(name) == 1}
    sizes = {name: each[np.isfinite(each)] for name, each in sizes.items()}
    return {
        name: 110 if ((each > 0) & (each < 1e-3)).any() else None
        for name, each in sizes.items()
        if len(each) and each.max() < 1000
    }


def frame_of(columns: Mapping[str, Any]) -> DataFrame:
    """Table of these columns by their names, with the messages in it in the language in use."""
    import pandas

    return pandas.DataFrame(
        {
            in_language(name): [in_language(each) for each in values]
            if isinstance(values, list)
            else in_language(values)
            for name, values in columns.items()
        }
    )


def saved_tables(tables: Mapping[str, FigureTable]) -> None:
    """All these tables for a page file, whose reader has no server: so many lines together, and of a short text."""
    left = 0 if current_session().is_long else SAVED_LINES
    for name, table in tables.items():
        st.caption(literal(f"{name} · {table.file}"))
        frame = table.make() if left else None
        if frame is None or len(frame) > left:
            st.caption(_("Too many numbers for a saved page: Vitrine shows them."))
            continue
        left -= len(frame)
        html = frame.to_html(index=False, border=0, classes="saved_table", float_format="{:.6g}".format, na_rep="–")
        st.html(f'<div class="saved_table">{html}</div>')


FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with which a spreadsheet begins to compute


def harmless(frame: DataFrame) -> DataFrame:
    """The table with an apostrophe before texts that a spreadsheet would compute: tokens come from anybody's text."""
    texts = [name for name in frame.columns if frame[name].dtype == object or str(frame[name].dtype) == "str"]
    if not texts:
        return frame
    table = frame.copy()
    for name in texts:
        cells = table[name]
        table[name] = [f"'{each}" if isinstance(each, str) and each.startswith(FORMULA) else each for each in cells]
    return table


def choose_table(key: str, tables: Mapping[str, FigureTable]) -> str:
    """A list of tables. The chosen one stays so though its name, or numbers in its file's, change with the text; a view
    that has it not begins with its first.
    """
    names, files = list(tables), [re.sub(r"\d+", "", table.file) for table in tables.values()]
    before = st.session_state.get(f"{key}_before", (names, files))
    number = min(st.session_state.get(key, 0), len(before[0]) - 1)
    if before[1] != files:
        pairs = ((files, before[1]), (names, before[0]))
        number = next((each.index(old[number]) for each, old in pairs if old[number] in each), 0)
    st.session_state[key], st.session_state[f"{key}_before"] = number, (names, files)
    written = [token_sign(name) for name in names]
    return names[st.selectbox(_("Numbers of"), range(len(names)), format_func=written.__getitem__, key=key)]


def tell(key: str) -> None:
    """Show the outcome of a request, which the session state has under `key`: how, "good" or "wrong", and
    a sentence. Good news are told once and go; what is wrong stays until something else is asked for.
    """
    how, sentence, *_where = st.session_state.get(key) or ("", "")
    if how == "good":
        st.session_state[key] = None
        st.toast(as_sentence(sentence), icon=":material/check:", duration="long")
    elif how == "wrong":
        st.error(as_sentence(sentence))
