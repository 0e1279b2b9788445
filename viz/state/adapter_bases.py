"""The model that an adapter changes: chosen by the user, found where the adapter says, or of that name in the list."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import streamlit as st

from viz.state import permissions

if TYPE_CHECKING:
    from viz.state.checkpoints import CheckpointEntry


def base_of(place: CheckpointEntry, here: Sequence[CheckpointEntry], hints: str = "") -> Path | None:
    """The folder of an adapter's base; None: it is no adapter, or one that is not merged.

    here: everything that can be looked at. hints: a text of `LoadHints`, which may name the base.

    Raises:
        ValueError: an `AdapterBaseError` that names the base: it is not here.
    """
    from model.checkpoints.adapter_base import base_missing, path_of_base
    from model.checkpoints.load_hints import LoadHints
    from viz.state.checkpoints import given_hints

    entry = place.listed()
    if entry.base is None:
        return None
    chosen = LoadHints.read(hints).base
    named = chosen or entry.base
    others = [each for each in here if each.path != place.path]
    if chosen and (base := next((each for each in others if each.name == chosen), None)):
        return base.path
    own = place.origin == "opened" or (chosen is not None and hints != given_hints(place.name))
    if may_be_anywhere(own) and (found_path := path_of_base(place.path, named, None if chosen else entry.revision)):
        return found_path
    last = PurePosixPath(named.replace("\\", "/")).name
    base = next((each for each in others if last and last in (each.name, each.path.name)), None)
    if base is None:
        raise base_missing(place.name, entry.family, named)
    return base.path


def may_be_anywhere(visitors: bool) -> bool:
    """True if a base may lie outside the list. visitors: a visitor has brought the adapter, or named the base."""
    return not visitors or permissions.may_name_paths(st.context.headers.to_dict())


def possible_bases(here: Sequence[CheckpointEntry]) -> list[str]:
    """Names of the models that an adapter may change: those of Hugging Face."""
    listed = {place.name: place.listed() for place in here}
    return [
        name
        for name, entry in listed.items()
        if entry.format == "Hugging Face" and entry.computes and not entry.problem
    ]
