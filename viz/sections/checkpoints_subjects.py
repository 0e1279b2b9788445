"""The files that the page Checkpoints can look at: bundled, saved, and opened in this session."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from viz.state.checkpoints import all_places
from viz.state.workbench import workbench

if TYPE_CHECKING:
    from model.checkpoints.tensors import TensorInfo


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


def nearest(name: str, found: Sequence[Subject]) -> str | None:
    """Of the others the one to compare with: of the same run folder, else of the same names and shapes, else of the
    same kind and width, which have most of their tensors in common; None where none is.
    """
    own = next((each for each in found if each.name == name), None)
    ranked = [(_nearness(own, each), each.name) for each in found if own is not None and each is not own]
    return max((each for each in ranked if each[0]), default=((), None), key=lambda each: each[0])[1]


def _nearness(one: Subject, other: Subject) -> tuple[float, ...]:
    """Larger is nearer; empty for no kin, or what cannot be read."""
    try:
        mine, theirs = ({(info.name, info.shape) for info in each.table()} for each in (one, other))
    except (ValueError, OSError):
        return ()
    common, more = len(mine & theirs), max(len(mine), len(theirs))
    if not common or 2 * common < more:
        return ()
    equal = mine == theirs
    alike = next((at for at, (a, b) in enumerate(zip(one.name, other.name, strict=False)) if a != b), 1000)
    return equal and one.path.parent == other.path.parent, equal, common / more, alike


def subjects() -> list[Subject]:
    """Everything that can be looked at, whether or not it is a model."""
    return [
        Subject(place.name, place.path, place.origin == "given")
        for place in all_places(workbench())
        if place.path.exists()
    ]


@st.cache_resource(max_entries=32, show_spinner=False)
def _table(path: str, changed: int) -> list[TensorInfo]:
    from model.checkpoints.tensors import tensor_table

    return tensor_table(path)
