"""The files that the page Checkpoints can look at: bundled, saved, and opened in this session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from viz.opened import all_places
from viz.workbench import workbench

if TYPE_CHECKING:
    from model.tensors import TensorInfo


@dataclass(frozen=True)
class Subject:
    """A checkpoint folder or a file of tensors, by the name that the user sees. given: on the command line."""

    name: str
    path: Path
    given: bool = False

    @property
    def changed(self) -> int:
        """When it was last changed."""
        return max(path.stat().st_mtime_ns for path in [self.path, *self.path.glob("*")])

    def table(self) -> list[TensorInfo]:
        """Its tensors, without their values.

        Raises:
            CheckpointError: it is damaged, or must not be read.
        """
        return _table(str(self.path), self.changed)


def subjects() -> list[Subject]:
    """Everything that can be looked at, whether or not it is a model."""
    return [
        Subject(place.name, place.path, place.origin == "given")
        for place in all_places(workbench())
        if place.path.exists()
    ]


@st.cache_resource(max_entries=8, show_spinner=False)
def _table(path: str, changed: int) -> list[TensorInfo]:
    from model.tensors import tensor_table

    return tensor_table(path)
