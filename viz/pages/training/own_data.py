"""Data of the user's own: a file or a pasted text, what was found in it, and the rows that cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from streamlit.delta_generator import DeltaGenerator

from model.data.inspection import LIMIT, decode, usable
from model.data.sources import Data
from model.network.config import TWO_STACKS, Kind
from viz.i18n.catalogue import _, ngettext
from viz.state.session import current_session
from viz.ui.file_field import FileField, Way
from viz.ui.text_table import list_faults, read_file, read_rows, report

NAME = "data of one's own"  # on the model card: a file's name is nobody's business


KEY = "own"  # prefix of all fields' keys


class Part(StrEnum):
    """Names in the session state that a draft keeps."""

    CONTENT = "own_content"
    PASTED = "own_paste"
    DELIMITER = "own_delimiter"


def data_field() -> FileField:
    """Ways to give the data."""
    labels: dict[Way, str] = {
        "file": _("TSV, CSV or text in UTF-8, at most {size} MB").format(size=LIMIT >> 20),
        "paste": _("Pasted text"),
        "path": _("Its path on this machine"),
    }
    return FileField(key=KEY, labels=labels, examples={"path": "/home/me/pairs.tsv"})


def show(place: DeltaGenerator, kind: Kind, share: Callable[[], int]) -> Data | None:
    """The ways to give them, then what was found; gives what can be learned from, or nothing, which it says."""
    content = data_field().content(place)
    if content is None:
        return None
    read = read_file(place, KEY, content)
    if read is None:
        return None
    contents, beside = read
    if not contents.delimiter and kind not in TWO_STACKS:
        text = current_session().cached(f"{KEY}_text", (content,), lambda: decode(content.data)[0])
        if kind == "encoder-only":
            report(place, contents, usable(contents, (0,), titled=False), learnt_sentence())
        else:
            lines = len(contents.records)
            sentence = ngettext(
                "A text without columns, read in its order: {count} line, {characters} characters.",
                "A text without columns, read in its order: {count} lines, {characters} characters.",
                lines,
            )
            place.caption(sentence.format(count=f"{lines:,}", characters=f"{len(text):,}"))
            list_faults(place, contents.faults)
        return Data(NAME, text=text, validation_percent=share())
    wanted = 1 if kind == "encoder-only" else 2
    chosen = read_rows(place, (beside, place), KEY, contents, wanted, learnt_sentence())
    if chosen is None:
        return None
    if kind == "encoder-only":
        return Data(NAME, text="\n".join(text for (text,) in chosen.texts), validation_percent=share())
    return Data(NAME, tuple(chosen.pairs), validation_percent=share())


def learnt_sentence() -> str:
    """Sentence for `report`, where there is something to learn from."""
    return _(
        "Between columns: {delimiter} · columns: {columns} · rows to learn from: {usable} · duplicates left out: "
        "{duplicates} · empty lines: {blank} · rows in error: {faults}"
    )
