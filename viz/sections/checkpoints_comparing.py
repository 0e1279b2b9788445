"""Compare checkpoints: what moved between two, and over the steps of a run."""

from __future__ import annotations

from viz.workbench import Workbench


def show(bench: Workbench) -> None:
    """Draw this part of the page."""
