"""Keep a model: as a folder in the form of Hugging Face, as one .zip, with its card edited."""

from __future__ import annotations

from viz.workbench import Workbench


def show(bench: Workbench) -> None:
    """Draw this part of the page."""
