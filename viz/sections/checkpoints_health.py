"""The health of a checkpoint: what is wrong with its weights, each finding with its tensor and its number."""

from __future__ import annotations

from viz.sections.checkpoints_measuring import Measured
from viz.sections.checkpoints_subjects import Subject
from viz.workbench import Workbench


def show(bench: Workbench, subject: Subject, found: Measured) -> None:
    """Findings in groups; a click chooses the tensor, which is shown large below."""
