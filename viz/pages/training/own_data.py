"""Data of the user's own: an upload or a pasted text, what was found in it, and the rows that cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.data.inspection import LIMIT, Usable, decode, inspect, usable
from model.data.sources import Data
from model.network.config import TWO_STACKS, Kind
from model.text.tokenizer import clean
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence
from viz.state import permissions
from viz.state.permissions import Permission
from viz.state.session import current_session
from viz.ui import fields
from viz.ui.text_table import choose_columns, choose_delimiter, list_faults, preview, report

NAME = "data of one's own"  # on the model card: a file's name is nobody's business


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
    left, right = place.columns(2, gap="small", vertical_alignment="bottom")
    asked = choose_delimiter(left, Part.DELIMITER)
    try:
        found = current_session().cached(Part.INSPECTED, (content, asked), lambda: inspect(content.data, asked))
    except ValueError as error:
        place.error(as_sentence(translate_error(error)))
        return None
    if not found.delimiter and kind not in TWO_STACKS:
        text = current_session().cached(Part.USABLE, (content,), lambda: decode(content.data)[0])
        if kind == "encoder-only":
            report(place, found, usable(found, (0,), titled=False), learnt_sentence())
        else:
            sentence = _("A text without columns, read in its order: {lines} lines, {characters} characters.")
            place.caption(sentence.format(lines=f"{len(found.records):,}", characters=f"{len(text):,}"))
            list_faults(place, found.faults)
        return Data(NAME, text=text, validation_percent=share())
    wanted = 1 if kind == "encoder-only" else 2
    if found.width < wanted:
        place.error(_("No columns were found: rows need a source and a target, with a tab, a comma or ; between them."))
        report(place, found, Usable((), found.faults, 0), learnt_sentence())
        return None
    titled = right.toggle(_("The first row names the columns"), value=found.titled, key=f"{Part.TITLED}{found.titled}")
    columns = choose_columns(place, found, titled, wanted, (Part.SOURCE, Part.TARGET))
    chosen = current_session().cached(Part.USABLE, (found, columns, titled), lambda: usable(found, columns, titled))
    report(place, found, chosen, learnt_sentence())
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


def learnt_sentence() -> str:
    """Of `report`, where there is something to learn from."""
    return _(
        "Between columns: {delimiter} · columns: {columns} · rows to learn from: {usable} · duplicates left out: "
        "{duplicates} · empty lines: {blank} · rows in error: {faults}"
    )


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
