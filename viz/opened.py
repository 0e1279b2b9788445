"""What this session has opened beside what is here for all: uploads, paths, names at Hugging Face."""

from __future__ import annotations

import secrets
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from viz.opening import Place, places, unused
from viz.workbench import Workbench

if TYPE_CHECKING:
    from model.opened import Opened, OpenedSessions


class Part(StrEnum):
    """Names in the session state; the first is a parameter of the address bar too."""

    SESSION = "opened"  # a reload finds again what was opened
    KEY = "opened_key"


@st.cache_resource(show_spinner=False)
def sessions() -> OpenedSessions:
    """Those of this process."""
    from model.opened import OpenedSessions

    return OpenedSessions()


@st.cache_resource(show_spinner=False, scope="session", on_release=lambda key: sessions().leave(key))
def _window(key: str) -> str:
    """A window on what was opened under this key, until it is closed."""
    sessions().enter(key)
    return key


def opened(bench: Workbench) -> Opened | None:
    """What this session has opened, found again by the address after a reload; nothing, if it has opened nothing."""
    known = st.session_state.get(Part.KEY)
    key = known or st.query_params.get(Part.SESSION, "")
    found = sessions().get(key) if key else None
    if found:
        _window(key)
        if not known:
            _know(bench, key)
    return found


def begin(bench: Workbench) -> Opened:
    """The same, for something to be added."""
    found = opened(bench)
    if found is None:
        key = secrets.token_urlsafe(12)
        found = sessions().begin(key)
        _window(key)
        _know(bench, key)
    return found


def _know(bench: Workbench, key: str) -> None:
    st.session_state[Part.KEY] = key
    bench.say(Part.SESSION, key)


def own_places(bench: Workbench) -> list[Place]:
    """What only this session sees."""
    found = opened(bench)
    return [Place(name, path, "opened") for name, path in found.places.items()] if found else []


def own_names(bench: Workbench) -> list[str]:
    """Their names."""
    return [place.name for place in own_places(bench)]


def all_places(bench: Workbench) -> list[Place]:
    """Everything that this session can look at."""
    return places(own_places(bench))


def add(bench: Workbench, name: str, path: Path) -> str:
    """Put a path into this session's list, once; gives the name that it has there."""
    for place in own_places(bench):
        if place.path == path:
            return place.name
    name = unused(name, (place.name for place in all_places(bench)))
    begin(bench).places[name] = path
    return name


def remove(bench: Workbench, name: str) -> bool:
    """Take it out of this session's list; whether it was there."""
    found = opened(bench)
    return bool(found and found.places.pop(name, None))
