"""How far something is, as a bar with words."""

from __future__ import annotations

from viz.components.registry import component, pack
from viz.components.view import PackedView, View

_progress = component("progress")


def progress(key: str, share: float, text: str) -> View:
    """share: of it that is done, from 0 to 1."""
    return PackedView(_progress, key, pack({"share": min(1.0, max(0.0, share)), "text": text}))
