"""How far something is, as a bar with words."""

from __future__ import annotations

from viz.components.registry import component, pack
from viz.components.view import PackedView, View

_progress = component("progress")


def progress(key: str, share: float | None, text: str) -> View:
    """share: of it that is done, from 0 to 1; None where nobody knows."""
    known = None if share is None else min(1.0, max(0.0, share))
    return PackedView(_progress, key, pack({"share": known, "text": text}))
