"""Read a checkpoint: its tensors, what they measure, its heads, its health."""

from __future__ import annotations

from viz.workbench import Workbench


def show(bench: Workbench) -> None:
    """Draw this part of the page."""
