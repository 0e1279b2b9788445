"""A progress bar with words."""

from __future__ import annotations

from viz.components.registry import component, pack
from viz.components.view import Answer, PackedView, View

_progress = component("web/progress")


def progress(key: str, share: float | None, text: str, button: tuple[str, Answer | None] = ("", None)) -> View:
    """share: of it that is done, from 0 to 1; None where nobody knows. text: empty where nothing is to be shown.

    button: its word, and what it does.
    """
    known = None if share is None else min(1.0, max(0.0, share))
    word, answer = button
    return PackedView(_progress, key, pack({"share": known, "text": text, "button": word}), {"press": answer})
