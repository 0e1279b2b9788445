"""Open a checkpoint: from the list, a folder, an upload, a path, a name at Hugging Face."""

from __future__ import annotations

from viz.workbench import Workbench


def show(bench: Workbench) -> None:
    """Draw this part of the page."""
