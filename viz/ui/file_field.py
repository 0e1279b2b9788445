"""A file that a visitor gives: sent, pasted, by its path on this machine, or by its name at Hugging Face."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.data.inspection import LIMIT, read_content
from model.message import Message
from model.text.tokenizer import clean
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal
from viz.state import permissions
from viz.state.permissions import Permission
from viz.state.session import choose
from viz.ui import fields

Way = Literal["file", "paste", "path", "hub"]
WAYS = {"file": Message("A file"), "paste": Message("Pasted text"), "path": Message("A path")}
LONGEST = {"paste": 1_000_000, "path": 4000, "hub": 200}  # characters that a field takes


@dataclass(frozen=True)
class Content:
    """Content of a file field, in this session's memory only. name: of the file; empty where it has none."""

    data: bytes
    name: str


@dataclass(frozen=True, kw_only=True)
class FileField:
    """Ways to give a file.

    key: what the keys of its widgets begin with. labels: of the field of each way that there is. suffixes: of files
    that are sent. largest: their megabytes. several: more than one. examples: in an empty field.
    """

    key: str
    labels: Mapping[Way, str]
    suffixes: Sequence[str] = ("tsv", "csv", "txt")
    largest: int = LIMIT >> 20
    several: bool = False
    examples: Mapping[str, str] = field(default_factory=dict)

    def ways(self) -> list[Way]:
        """Ways that this visitor may use: a path only where whoever asks sits at this machine."""
        allowed: dict[Way, Callable[[], bool]] = {
            "file": lambda: permissions.may(Permission.UPLOADS),
            "paste": lambda: True,
            "path": lambda: permissions.may_name_paths(st.context.headers.to_dict()),
            "hub": lambda: permissions.may(Permission.HUB),
        }
        return [way for way in self.labels if allowed[way]()]

    def key_of(self, way: Way) -> str:
        return f"{self.key}_{way}"

    def draw(self, way: Way, place: DeltaGenerator, on_change: Callable[[], None] | None = None, again: int = 0) -> Any:
        """The field of one way; gives what is in it. again: another number empties the field for files."""
        key, label = self.key_of(way), self.labels[way]
        if way == "file":
            fields.in_words()
            return place.file_uploader(
                label,
                self.suffixes,
                accept_multiple_files=self.several,
                key=f"{key}{again or ''}",
                max_upload_size=self.largest,
                on_change=on_change,
            )
        more: dict[str, Any] = {"key": key, "max_chars": LONGEST[way], "persist_state": "session"}
        more["on_change"] = on_change
        if way == "paste":
            return place.text_area(label, height=120, placeholder="source\ttarget", **more)
        return place.text_input(label, placeholder=self.examples.get(way, ""), **more)

    def content(self, place: DeltaGenerator) -> Content | None:
        """A choice of the ways and the field of the one that is chosen; gives what was given last in that way."""
        ways = self.ways()
        way: Any = choose(_("From"), ways, ways[0], f"{self.key}_from", WAYS.__getitem__, place)
        if refused := permissions.refused(Permission.UPLOADS):
            place.caption(refused)
        empty = not self.draw(way, place, partial(self._take, way))
        if refusal := self._last("refused").get(way):
            place.error(as_sentence(refusal))
        content: Content | None = self._last("content").get(way)
        if content is not None and way == "file" and empty:
            place.caption(_("{name}, which was given before, still counts.").format(name=literal(content.name)))
        return content

    def _last(self, what: str) -> dict[str, Any]:
        """Last content or refusal, by the way it was given."""
        return st.session_state.get(f"{self.key}_{what}") or {}

    def _take(self, way: Way) -> None:
        if way not in self.ways():
            return
        content, refusal = None, ""
        try:
            content = content_of(way, st.session_state.get(self.key_of(way)))
        except ValueError as error:
            refusal = translate_error(error)
        for what, value in (("content", content), ("refused", refusal)):
            every = {**self._last(what), way: value}
            st.session_state[f"{self.key}_{what}"] = {each: known for each, known in every.items() if known} or None


def content_of(way: Way, value: Any) -> Content | None:
    """Content of a field; None where it is empty.

    Raises:
        ValueError: it is a path of what cannot be read.
    """
    if way == "file":
        return None if value is None else Content(value.getvalue(), value.name)
    text = str(value or "")
    if way == "paste":
        text = clean(text)
        return Content(text.encode(), "") if text.strip() else None
    path = Path(os.path.expanduser(text.strip().strip("\"'")))
    return Content(read_content(path), path.name) if text.strip() else None
