"""An experiment of the laboratory while it runs: begun by a button, seen growing, stopped, begun again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import streamlit as st

from model.experiments.attention_cost import Room, Sizes
from model.experiments.runner import Report, Running
from model.experiments.timing import Machine, Times
from model.inference.text_model import TextModel
from viz.i18n import catalogue
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, bytes_text, significant
from viz.state.session import Key
from viz.ui.fields import Field, number_field
from viz.ui.parts import plot_words

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
            st.error(as_sentence(translate_error(kept.running.message)))
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


# What the figures of the laboratory's costs share: they are of no trace.


def header(name: str, alt: str, file: str, stamp: str, csv: Sequence[str], more: Mapping[str, Any]) -> dict[str, Any]:
    """What the header of every plot has; stamp: what was measured, so that another drawing is known."""
    return {"name": name, "alt": f"{name}: {alt}", "file": file, "stamp": stamp, "words": plot_words(*csv), **more}


def machine_words(machine: Machine) -> str:
    """Device, precision, threads and library of products."""
    threads = _("1 thread") if machine.threads == 1 else _("{count} threads").format(count=machine.threads)
    parts = [machine.device, machine.dtype]
    if machine.device.startswith("CPU"):
        parts.append(threads)
    parts.append(_("time of this thread alone") if machine.cpu_time else _("time by the clock"))
    if machine.library:
        parts.append(_("products by {library}").format(library=machine.library))
    return " · ".join(parts)


def duration(seconds: float) -> str:
    """With the unit that gives few digits."""
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{significant(seconds * factor)} {unit}"
    return f"{significant(seconds)} s"


def times_columns(times: Times) -> dict[str, float | int]:
    return {
        _("median, ms"): 1e3 * times.median,
        _("lower quartile, ms"): 1e3 * times.low,
        _("upper quartile, ms"): 1e3 * times.high,
        _("runs"): times.runs,
    }


def percent(share: float) -> str:
    return f"{significant(100 * share)} %"


# How each experiment of the laboratory begins: what tutorials say, and beside it what is true whatever is measured.


def show_claim(said: str, truth: str) -> None:
    left, right = st.columns(2, gap="medium")
    left.markdown(f"**{_('Tutorials say:')}** {said}")
    right.markdown(f"**{_('More exactly:')}** {truth}")


# What the laboratory's costs share: fields that begin with the sizes of the loaded model, and with another model
# again; a measurement that is begun where it fits into memory.

Found = TypeVar("Found")
MODEL = "cost_model"  # whose sizes the fields of each view began with


def sizes_of(model: TextModel, view: str, fields: Sequence[Field]) -> Mapping[str, int] | None:
    """The number in each field, by its key; None while one of them holds none."""
    known = st.session_state.setdefault(MODEL, {})
    if known.setdefault(view, model.name) != model.name:
        known[view] = model.name
        for field in fields:
            st.session_state[field.key] = field.default
    places = st.columns(max(3, len(fields)), gap="medium")
    given = {field.key: number_field(place, field) for field, place in zip(fields, places, strict=False)}
    if not all(given.values()):
        return None
    return {key: int(values[0]) for key, values in given.items()}


def measuring(
    key: str,
    sizes: Sizes,
    length: int,
    found: Room,
    measure: Callable[[Sizes, int], Iterator[Report[Found]]],
    draw: Callable[[Found], None],
    before: Callable[[], None],
    forecast: str,
) -> None:
    """The experiment, or why it cannot be and what is known without it. found: of the largest it measures."""
    kept: Kept | None = st.session_state.get(key)
    going = kept is not None and not kept.running.ended  # what it takes meanwhile is not free
    if found.enough or going:
        settings = (sizes, length)
        make = partial(measure, *settings)
        experiment(key, settings, make, draw, begin=_("Measure"), forecast=forecast, before=before)
        return
    sentence = (
        _(
            "n = {n} needs about {needed} of memory, and {free} are free: choose n up to {longest}, or make another "
            "number smaller."
        )
        if found.longest
        else _("n = {n} needs about {needed} of memory, and {free} are free: make the other numbers smaller.")
    )
    needed, free = bytes_text(found.needed), bytes_text(found.free)
    st.error(sentence.format(n=f"{length:,}", needed=needed, free=free, longest=f"{found.longest:,}"))
    before()
