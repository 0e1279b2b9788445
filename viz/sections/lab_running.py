"""An experiment of the laboratory while it runs: begun by a button, seen growing, stopped, begun again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import streamlit as st

from model.experiments.runner import Report, Running
from viz.i18n import catalogue
from viz.i18n.catalogue import _
from viz.i18n.errors import said
from viz.i18n.format import as_sentence
from viz.state.workbench import Key

EVERY = 0.5  # seconds between two looks
Result = TypeVar("Result")


@dataclass(frozen=True)
class Kept:
    """What runs, or has run, and the settings it was begun with."""

    settings: Hashable
    running: Running[Any]


def experiment(
    key: str,
    settings: Hashable,
    make: Callable[[], Iterator[Report[Result]]],
    draw: Callable[[Result], None],
    *,
    begin: str,
    forecast: str,
    alone: bool = True,
    before: Callable[[], None] | None = None,
    at_once: bool = False,
) -> None:
    """A button that begins it, its progress, and what it has found so far, in the place where this is called.

    settings: what `make` was made of: with others, the results are still shown, and said to be of those before.
    draw: the result so far, again and again while it grows. begin: the button's words. forecast: how long it will
    take, in words. before: draws in the results' place while there are none. at_once: it begins of itself, and again
    with other settings: for what takes a second or two.
    """
    kept: Kept | None = st.session_state.get(key)
    if at_once and (kept is None or kept.settings != settings):
        _begin(key, settings, make, alone)
        kept = st.session_state[key]
    going = kept is not None and not kept.running.ended

    def look() -> None:
        catalogue.use(st.session_state[Key.LANGUAGE])
        now: Kept | None = st.session_state.get(key)
        if (now is not None and not now.running.ended) != going:
            st.rerun()  # it has begun or ended: the looking does too
        newest = now.running.look() if now else None
        row = st.container(horizontal=True, vertical_alignment="center", key=f"{key}_row")
        with row:
            if not (at_once and now and now.running.status == "finished"):
                controls(key, settings, make, now, begin, forecast, alone)
        if now and newest:
            if now.settings != settings:
                st.caption(_("These are the results of the settings before."))
            draw(newest.result)
        elif before is not None:
            before()

    st.fragment(look, run_every=EVERY if going else None)()


def controls(
    key: str,
    settings: Hashable,
    make: Callable[[], Iterator[Report[Any]]],
    kept: Kept | None,
    begin: str,
    forecast: str,
    alone: bool,
) -> None:
    if kept is None or kept.running.ended:
        st.button(begin, type="primary" if kept is None else "secondary", key=f"{key}_begin",
                  on_click=lambda: _begin(key, settings, make, alone))  # fmt: skip
        if kept is None or kept.settings != settings:
            st.caption(forecast, width="content")
        elif kept.running.status == "failed":
            st.error(as_sentence(said(kept.running.message)))
        elif kept.running.status == "stopped":
            st.caption(_("Stopped: what is shown was found until then."), width="content")
        return
    st.button(_("Stop"), key=f"{key}_stop", on_click=kept.running.stop)
    newest = kept.running.look()
    st.progress(newest.share if newest else 0.0, progress_words(kept.running))


def progress_words(running: Running[Any]) -> str:
    if running.status == "waiting":
        return _("waits for another experiment on this machine")
    left = running.seconds_left
    return _("begins") if left is None else _("{seconds} s left").format(seconds=f"{max(1.0, left):.0f}")


def _begin(key: str, settings: Hashable, make: Callable[[], Iterator[Report[Any]]], alone: bool) -> None:
    before: Kept | None = st.session_state.get(key)
    if before is not None:
        before.running.stop()
    st.session_state[key] = Kept(settings, Running(make, alone=alone))
