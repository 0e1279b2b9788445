"""Data of the user's own: an upload or a pasted text, what was found in it, and the rows that cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.data.inspection import LIMIT, Fault, FileContents, Usable, decode, inspect, usable
from model.data.readers import SOURCE, TARGET
from model.data.sources import Data
from model.network.config import Kind
from model.text.tokenizer import clean
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal
from viz.state import permissions
from viz.state.permissions import Permission
from viz.state.session import current_session
from viz.ui import fields

NAME = "data of one's own"  # on the model card: a file's name is nobody's business
PREVIEW = 5  # rows
WIDEST = 200  # characters of a cell in the preview
CELL = 24  # characters of a column's name on the screen
FOUND = "found"  # as the delimiter: find out


class Part(StrEnum):
    """Names in the session state."""

    CONTENT = "own_content"
    FILE = "own_file"
    PASTED = "own_pasted"
    DELIMITER = "own_delimiter"
    TITLED = "own_titled"
    SOURCE = "own_source"
    TARGET = "own_target"
    INSPECTED = "own_inspected"
    USABLE = "own_usable"


@dataclass(frozen=True)
class Content:
    """What was given, in this session's memory only. place: the key of the field that has it."""

    data: bytes
    place: str


def show(place: DeltaGenerator, kind: Kind, share: Callable[[], int]) -> Data | None:
    """Upload or paste, then what was found; gives what can be learned from, or nothing, which it says."""
    _ask(place)
    content: Content | None = st.session_state.get(Part.CONTENT)
    if content is None:
        return None
    file, pasted = (st.session_state.get(part) for part in (Part.FILE, Part.PASTED))
    if note := which_counts(content, file is not None, bool(str(pasted or "").strip())):
        place.caption(note)
    words = {FOUND: _("found by itself"), "\t": _("tab"), ",": ",", ";": ";", "": _("none: a text")}
    left, right = place.columns(2, gap="small", vertical_alignment="bottom")
    delimiter = left.selectbox(
        _("Between columns"),
        list(words),
        format_func=lambda name: words[name],
        key=Part.DELIMITER,
        persist_state="session",
    )
    try:
        asked = None if delimiter == FOUND else delimiter
        found = current_session().cached(Part.INSPECTED, (content, asked), lambda: inspect(content.data, asked))
    except ValueError as error:
        place.error(as_sentence(translate_error(error)))
        return None
    if not found.delimiter and kind != "encoder-decoder":
        text = current_session().cached(Part.USABLE, (content,), lambda: decode(content.data)[0])
        if kind == "encoder-only":
            report(place, found, usable(found, (0,), titled=False))
        else:
            sentence = _("A text without columns, read in its order: {lines} lines, {characters} characters.")
            place.caption(sentence.format(lines=f"{len(found.records):,}", characters=f"{len(text):,}"))
            list_faults(place, found.faults)
        return Data(NAME, text=text, validation_percent=share())
    wanted = 1 if kind == "encoder-only" else 2
    if found.width < wanted:
        place.error(_("No columns were found: rows need a source and a target, with a tab, a comma or ; between them."))
        report(place, found, Usable((), found.faults, 0))
        return None
    titled = right.toggle(_("The first row names the columns"), value=found.titled, key=f"{Part.TITLED}{found.titled}")
    columns = _columns(place, found, titled, wanted)
    chosen = current_session().cached(Part.USABLE, (found, columns, titled), lambda: usable(found, columns, titled))
    report(place, found, chosen)
    preview(place, found, titled)
    if not chosen.texts:
        if any(fault.reason == "encoding" for fault in chosen.faults):
            place.error(_("No row can be used: save the file as UTF-8."))
        else:
            place.error(_("No row can be used: choose other columns, or another sign between them."))
        return None
    if kind == "encoder-only":
        return Data(NAME, text="\n".join(text for (text,) in chosen.texts), validation_percent=share())
    return Data(NAME, tuple(chosen.pairs), validation_percent=share())


def _ask(place: DeltaGenerator) -> None:
    fields.in_words()
    upload, paste = place.columns(2, gap="small")
    if told := permissions.refused(Permission.UPLOADS):
        upload.caption(told)
    else:
        upload.file_uploader(
            _("TSV, CSV or text in UTF-8, at most {size} MB").format(size=LIMIT >> 20),
            ["tsv", "csv", "txt"],
            key=Part.FILE,
            max_upload_size=LIMIT >> 20,
            on_change=_take,
            args=(Part.FILE, Part.PASTED),
        )
    paste.text_area(
        _("or paste it here"),
        key=Part.PASTED,
        height=92,
        max_chars=1_000_000,
        on_change=_take,
        args=(Part.PASTED, Part.FILE),
        placeholder="source\ttarget",
        persist_state="session",
    )


def _take(first: Part, other: Part) -> None:
    """What was given last counts while it is there, and then what is in the other field. After a reload the field for
    a file is empty, but the file is still there.
    """
    before: Content | None = st.session_state.get(Part.CONTENT)
    kept = before if before and before.place == other == Part.FILE else None
    st.session_state[Part.CONTENT] = _given(first) or _given(other) or kept


def which_counts(content: Content, file: bool, pasted: bool) -> str:
    """Which of two counts; empty where there is one. file, pasted: whether their fields hold something."""
    if content.place == Part.PASTED:
        return _("The pasted text counts, for it came last; empty its field, and the file does.") if file else ""
    if not pasted:
        return ""
    if not file:
        return _("A file that was given before counts, and not this text: change the text to learn from it.")
    return _("The file counts, for it came last; take it away, and the pasted text does.")


def _given(place: Part) -> Content | None:
    held = st.session_state.get(place)
    if place == Part.FILE:
        return None if held is None else Content(held.getvalue(), place)
    text = clean(str(held or ""))
    return Content(text.encode(), place) if text.strip() else None


def _columns(place: DeltaGenerator, found: FileContents, titled: bool, wanted: int) -> tuple[int, ...]:
    """Which columns are the source and the target."""
    titles = column_names(found, titled)
    lower = [title.lower() for title in titles]
    usual = [lower.index(name) if titled and name in lower else at for at, name in enumerate((SOURCE, TARGET))]
    labels = [_("Source"), _("Target")] if wanted == 2 else [_("Text")]
    if found.width == wanted:
        return tuple(usual[:wanted])
    chosen = []
    parts = zip(place.columns(wanted, gap="small"), labels, usual, (Part.SOURCE, Part.TARGET), strict=False)
    for cell, label, index, key in parts:
        chosen.append(
            cell.selectbox(
                label, range(found.width), index=index, format_func=titles.__getitem__, key=f"{key}{found.width}"
            )
        )
    return tuple(chosen)


def column_names(found: FileContents, titled: bool) -> list[str]:
    """What the first row calls them, each once; else their numbers."""
    first = found.records[0].cells if titled and found.records else ()
    named = [
        (first[at].strip()[:CELL] if at < len(first) else "") or _("column {number}").format(number=at + 1)
        for at in range(found.width)
    ]
    return [f"{name} ({at + 1})" if named.count(name) > 1 else name for at, name in enumerate(named)]


def report(place: DeltaGenerator, found: FileContents, chosen: Usable) -> None:
    """How many rows there are, and those that cannot be used."""
    words = {"\t": _("tab"), "": _("nothing")}
    place.caption(
        _(
            "Between columns: {delimiter} · columns: {columns} · rows to learn from: {usable} · duplicates left out: "
            "{duplicates} · empty lines: {blank} · rows in error: {faults}"
        ).format(
            delimiter=words.get(found.delimiter, literal(found.delimiter)),
            columns=found.width,
            usable=f"{len(chosen.texts):,}",
            duplicates=f"{chosen.duplicates:,}",
            blank=f"{found.blank:,}",
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


def preview(place: DeltaGenerator, found: FileContents, titled: bool) -> None:
    """The first rows, as they were cut into columns."""
    rows = found.records[int(titled) :][:PREVIEW]
    cut = [[cell[:WIDEST] for cell in row.cells[: found.width]] for row in rows]
    cells = [[*row, *[""] * (found.width - len(row))] for row in cut]
    table = pd.DataFrame(cells, columns=column_names(found, titled), index=[row.number for row in rows], dtype=str)
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
