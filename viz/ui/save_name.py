"""The name that something is saved under: one that is free, and why another is refused."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import count
from pathlib import Path

import streamlit as st

from viz.i18n.catalogue import _
from viz.i18n.format import literal
from viz.state import checkpoints, permissions, training
from viz.state.checkpoints import bundled_names, saved_names
from viz.state.permissions import Permission
from viz.state.session import current_session

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def free_name(name: str) -> str:
    """`name` where no model has it yet, else with the first number that makes it another."""
    taken = {*bundled_names(), *saved_names(), *checkpoints.own_names(current_session())}
    return next(each for number in count(1) if (each := name if number == 1 else f"{name}-{number}") not in taken)


def saved_as(name: str, folder: Path) -> str:
    """Sentence that it was saved; and where, for whoever sits at this machine."""
    if permissions.may_name_paths(st.context.headers.to_dict()):
        return _("Saved as {name}, in {folder}: it is in the list of models.").format(name=name, folder=folder)
    return _("Saved as {name}: it is in the list of models.").format(name=name)


def refused(name: str, replace: bool, taken: Collection[str] = ()) -> str:
    """Reason why a model cannot be saved under this name; empty if it can. taken: by what this session has opened."""
    if refusal := permissions.refused(Permission.SAVING):
        return refusal
    if not NAME.fullmatch(name):
        return _("A name has 1 to 64 letters, digits, - and _, and begins with a letter or a digit.")
    if name in bundled_names() or name == training.ENTRY:
        return _("{name} is the name of a bundled model: choose another one.").format(name=literal(name))
    if name in taken:
        return _("A model of this name is opened in this session: choose another one.")
    if name in saved_names() and not replace:
        return _("There is a saved model of this name: choose another one, or replace it.")
    return ""
