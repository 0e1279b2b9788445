"""What this session has opened beside what is here for all: uploads, paths, names at Hugging Face."""

from __future__ import annotations

import secrets
from enum import StrEnum
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from viz.opening import Place, places, unused
from viz.workbench import Workbench

if TYPE_CHECKING:
    from model.checkpoints.uploads import Opened, OpenedSessions


class Part(StrEnum):
    """Names in the session state; the first is a parameter of the address bar too."""

    SESSION = "opened"  # a reload finds again what was opened
    KEY = "opened_key"


TOKEN = "_streamlit_xsrf"  # the cookie by which Streamlit knows a browser: "2|mask|masked token|time", in hexadecimal


@st.cache_resource(show_spinner=False)
def sessions() -> OpenedSessions:
    """Those of this process."""
    from model.checkpoints.uploads import OpenedSessions

    return OpenedSessions()


@st.cache_resource(show_spinner=False, scope="session", on_release=lambda key: sessions().leave(key))
def _window(key: str) -> str:
    """A window on what was opened under this key, until it is closed."""
    sessions().enter(key)
    return key


def opened(bench: Workbench) -> Opened | None:
    """What this session has opened, found again after a reload; nothing, if it has opened nothing.

    The address has the key, and a link may be copied: the key is good only in the browser that opened it, when no
    window shows it any more.
    """
    if Part.KEY not in st.session_state:
        key = st.query_params.get(Part.SESSION, "")
        _know(bench, key if key and sessions().take(key, browser()) else "")
    key = st.session_state[Part.KEY]
    found = sessions().get(key) if key else None
    if found:
        _window(key)
    return found


def browser() -> str:
    """What only the browser that asks knows, and keeps over a reload; empty where it takes no cookies."""
    try:
        _version, mask, masked, _time = st.context.cookies.get(TOKEN, "").strip("\"'").split("|")
        pairs = zip(bytes.fromhex(masked), cycle(bytes.fromhex(mask)), strict=False)
    except ValueError:
        return ""
    return bytes(one ^ other for one, other in pairs).hex()


def begin(bench: Workbench) -> Opened:
    """The same, for something to be added."""
    found = opened(bench)
    if found is None:
        key = secrets.token_urlsafe(12)
        found = sessions().begin(key, browser())
        _window(key)
        _know(bench, key)
    return found


def _know(bench: Workbench, key: str) -> None:
    st.session_state[Part.KEY] = key
    if key or Part.SESSION in st.query_params:
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
