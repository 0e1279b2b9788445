"""What the laboratory's costs share: fields that begin with the sizes of the loaded model, and with another model
again; a measurement that is begun where it fits into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import streamlit as st

from model.experiments.attention_cost import Room, Sizes
from model.experiments.runner import Report
from model.inference.model import Inspectable
from viz.i18n.catalogue import _
from viz.i18n.format import bytes_text
from viz.sections.lab_running import Kept, experiment
from viz.ui.fields import Field, number_field

Found = TypeVar("Found")
MODEL = "cost_model"  # whose sizes the fields of each view began with


def sizes_of(lens: Inspectable, view: str, fields: Sequence[Field]) -> Mapping[str, int] | None:
    """The number in each field, by its key; None while one of them holds none."""
    known = st.session_state.setdefault(MODEL, {})
    if known.setdefault(view, lens.name) != lens.name:
        known[view] = lens.name
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
