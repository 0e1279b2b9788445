"""Fields for a table of texts of the user's own: what stands between its columns, which of them count, its rows."""

from __future__ import annotations

import pandas as pd
from streamlit.delta_generator import DeltaGenerator

from model.data.inspection import Fault, FileContents, Usable, inspect, usable
from model.data.readers import SOURCE, TARGET
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal
from viz.state.session import current_session
from viz.ui.file_field import Content

PREVIEW = 5  # rows
WIDEST = 200  # characters of a cell in the preview
CELL = 24  # characters of a column's name on the screen
FOUND = "found"  # as the delimiter: find out


def read_file(place: DeltaGenerator, key: str, content: Content) -> tuple[FileContents, DeltaGenerator] | None:
    """Rows of a file, cut as is chosen, and the place beside that choice; None where a sentence refuses it.

    key: what the keys of all fields begin with.
    """
    left, right = place.columns(2, gap="small", vertical_alignment="bottom")
    delimiter = choose_delimiter(left, f"{key}_delimiter")
    try:
        made_of = (content, delimiter)
        return current_session().cached(f"{key}_inspected", made_of, lambda: inspect(content.data, delimiter)), right
    except ValueError as error:
        place.error(as_sentence(translate_error(error)))
        return None


def read_rows(
    place: DeltaGenerator,
    places: tuple[DeltaGenerator, DeltaGenerator],
    key: str,
    contents: FileContents,
    wanted: int,
    sentence: str,
) -> Usable | None:
    """Rows of as many columns as are wanted; None where there is none, which is said.

    places: of the choice whether the first row names the columns, and of the first rows. sentence: of `report`.
    """
    if contents.width < wanted:
        place.error(_("No columns were found: rows need a source and a target, with a tab, a comma or ; between them."))
        report(place, contents, Usable((), contents.faults, 0), sentence)
        return None
    label = _("The first row names the columns")
    titled = places[0].toggle(label, value=contents.titled, key=f"{key}_titled{contents.titled}")
    columns = choose_columns(place, contents, titled, wanted, (f"{key}_source", f"{key}_target"))
    made_of = (contents, columns, titled)
    chosen: Usable = current_session().cached(f"{key}_usable", made_of, lambda: usable(contents, columns, titled))
    report(place, contents, chosen, sentence)
    preview(places[1], contents, titled)
    if not chosen.texts:
        encoding = any(fault.reason == "encoding" for fault in chosen.faults)
        other = _("No row can be used: choose other columns, or another sign between them.")
        place.error(_("No row can be used: save the file as UTF-8.") if encoding else other)
        return None
    return chosen


def choose_delimiter(place: DeltaGenerator, key: str) -> str | None:
    """Chosen delimiter of columns, empty for none; None: it is to be found out."""
    words = {FOUND: _("found by itself"), "\t": _("tab"), ",": ",", ";": ";", "": _("none: a text")}
    delimiter = place.selectbox(
        _("Between columns"),
        list(words),
        format_func=lambda name: words[name],
        key=key,
        persist_state="session",
    )
    return None if delimiter == FOUND else delimiter


def choose_columns(
    place: DeltaGenerator, contents: FileContents, titled: bool, wanted: int, keys: tuple[str, str]
) -> tuple[int, ...]:
    """Numbers of the source's and the target's column. keys: of the two fields, which are drawn where there is a
    choice.
    """
    titles = column_names(contents, titled)
    lower = [title.lower() for title in titles]
    usual = [lower.index(name) if titled and name in lower else at for at, name in enumerate((SOURCE, TARGET))]
    labels = [_("Source"), _("Target")] if wanted == 2 else [_("Text")]
    if contents.width == wanted:
        return tuple(usual[:wanted])
    chosen = []
    parts = zip(place.columns(wanted, gap="small"), labels, usual, keys, strict=False)
    for cell, label, index, key in parts:
        chosen.append(
            cell.selectbox(
                label, range(contents.width), index=index, format_func=titles.__getitem__, key=f"{key}{contents.width}"
            )
        )
    return tuple(chosen)


def column_names(contents: FileContents, titled: bool) -> list[str]:
    """Names of the columns from the first row, each once; else their numbers."""
    first = contents.records[0].cells if titled and contents.records else ()
    named = [
        (first[at].strip()[:CELL] if at < len(first) else "") or _("column {number}").format(number=at + 1)
        for at in range(contents.width)
    ]
    return [f"{name} ({at + 1})" if named.count(name) > 1 else name for at, name in enumerate(named)]


def report(place: DeltaGenerator, contents: FileContents, chosen: Usable, sentence: str) -> None:
    """Number of rows, and those that cannot be used. sentence: with the names of all numbers."""
    words = {"\t": _("tab"), "": _("nothing")}
    place.caption(
        sentence.format(
            delimiter=words.get(contents.delimiter, literal(contents.delimiter)),
            columns=contents.width,
            usable=f"{len(chosen.texts):,}",
            duplicates=f"{chosen.duplicates:,}",
            blank=f"{contents.blank:,}",
            faults=f"{len(chosen.faults):,}",
        )
    )
    list_faults(place, chosen.faults)


def list_faults(place: DeltaGenerator, faults: tuple[Fault, ...]) -> None:
    """The rows that cannot be used, each with its line."""
    if faults:
        place.caption(_("These rows cannot be used and are left out:"))
        table = pd.DataFrame([_fault(each) for each in faults])
        table.columns = [_("line"), _("why"), _("begins with")]
        place.dataframe(table, hide_index=True, height=min(230, 38 + 35 * len(table)))


def preview(place: DeltaGenerator, contents: FileContents, titled: bool) -> None:
    """The first rows, as they were cut into columns."""
    rows = contents.records[int(titled) :][:PREVIEW]
    cut = [[cell[:WIDEST] for cell in row.cells[: contents.width]] for row in rows]
    cells = [[*row, *[""] * (contents.width - len(row))] for row in cut]
    table = pd.DataFrame(cells, columns=column_names(contents, titled), index=[row.number for row in rows], dtype=str)
    table.index.name = _("line")
    place.dataframe(table, height=38 + 35 * len(rows))


def _fault(fault: Fault) -> tuple[int, str, str]:
    return fault.number, fault_words(fault.reason), fault.beginning


def fault_words(reason: str) -> str:
    return {
        "encoding": _("not UTF-8"),
        "quote": _("a quote is not closed, or stands inside a cell"),
        "columns": _("a column is missing"),
        "empty": _("a cell is empty"),
    }[reason]
