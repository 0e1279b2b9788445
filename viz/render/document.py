"""Document: views in one HTML file that needs no server and no network, as a saved page has them (saved_page.js)."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from viz.components.registry import Component
from viz.components.view import View
from viz.web.modules import linked

STYLE = Path(__file__).parent / "document.css"
TALL = 700  # CSS pixels of a window that a figure in a notebook counts on
HIGH = 480  # of its frame, where that cannot learn how high its figures are
SAVED = "frame/saved_page.js"  # mounts the views


@dataclass(frozen=True)
class DrawnView:
    """Bytes of a view, and the component that draws them. alt: what stands in its place where no script runs."""

    key: str
    component: Component
    data: bytes
    alt: str = ""

    @classmethod
    def of(cls, view: View, before: str = "") -> DrawnView:
        """The view, by its key behind `before`."""
        caption = getattr(view, "caption", None)
        return cls(f"{before}{view.key}", view.component, view.data, "" if caption is None else caption.name)

    def place(self) -> str:
        """Element in which it is drawn."""
        style, alt = self.component.style.replace("</", "<\\/"), html.escape(self.alt)
        shadow = f'<template shadowrootmode="open"><style>{style}</style><p>{alt}</p></template>'
        return f'<div class="view" data-view="{html.escape(self.key)}">{shadow}</div>'


@dataclass(frozen=True)
class Document:
    """Document in a language. body: its HTML, in which every view has its `place`. views: what is drawn there.

    choices: by a click, views' bytes by their keys, see `viz.state.saved_page`. more: data of further modules, by their
    paths; each exports `begin(data)`. film: of a training, for the views that follow one. tall: CSS pixels of the
    window that a figure may count on, where the frame around the document is as high as what is in it.
    """

    title: str
    body: str
    views: Sequence[DrawnView]
    language: str = "en"
    choices: Iterable[tuple[str, str, bytes]] = ()
    more: Mapping[str, Any] = field(default_factory=dict)
    film: Mapping[str, Any] | None = None
    style: str = ""
    words: Mapping[str, str] = field(default_factory=dict)
    tall: int = 0

    def html(self) -> str:
        """One file; no script of it runs but ours, by its hash, and it asks nobody for anything."""
        numbers, script = embedded(self._numbers()), self._script()
        if re.search("</script|<!--", script, re.IGNORECASE):
            raise ValueError("a component's script would end the file's")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src 'sha256-{digest}'"
        style = (STYLE.read_text("utf-8") + self.style).replace("</", "<\\/")
        tall = f' data-tall="{self.tall}"' if self.tall else ""
        return (
            f'<!DOCTYPE html>\n<html lang="{html.escape(self.language)}"{tall}><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{html.escape(self.title)}</title><style>{style}</style></head><body>{self.body}"
            f'<script type="application/json" id="vitrine-numbers">{numbers}</script><script>{script}</script>'
            "</body></html>\n"
        )

    def framed(self) -> str:
        """The document in a frame of its own, whose styles and scripts meet none of a notebook's."""
        page = html.escape(self.html())
        look = f"width: 100%; height: {HIGH}px; border: 0; resize: vertical; background: transparent"
        return f'<iframe srcdoc="{page}" style="{look}"></iframe>'

    def _numbers(self) -> dict[str, Any]:
        choices: dict[str, dict[str, str]] = {}
        for click, key, data in self.choices:
            choices.setdefault(click, {})[key] = base64.b64encode(data).decode()
        views = [
            {"key": each.key, "name": each.component.name, "bytes": base64.b64encode(each.data).decode()}
            for each in self.views
        ]
        return {
            "views": views,
            "choices": choices,
            "words": dict(self.words),
            "more": dict(self.more),
            "film": self.film,
        }

    def _script(self) -> str:
        names = dict.fromkeys(each.component.name for each in self.views)
        modules = linked([*(f"{name}.js" for name in names), SAVED, *self.more])
        shows = ", ".join(f'{json.dumps(name)}: modules["{name}.js"].default' for name in names)
        more = ", ".join(f"{json.dumps(path)}: modules[{json.dumps(path)}].begin" for path in self.more)
        return (
            f'"use strict";\n(() => {{\n{modules}\nmodules["{SAVED}"].showAgain({{ {shows} }}, {{ {more} }});\n}})();\n'
        )


def embedded(value: Any) -> str:
    """JSON that no reader of HTML takes for the end of its element."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub("[<>&\u2028\u2029]", lambda letter: f"\\u{ord(letter[0]):04x}", text)
