"""Choices of all pages: as a step of a lesson leaves them, and as the visitor had them before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import streamlit as st

from viz.pages.lessons import trained_state
from viz.state.address import BOUND
from viz.state.position_override import PositionSetting
from viz.state.sampling_sliders import TEMPERATURE, TOP_K, TOP_P, slider_values
from viz.state.session import Key, Parameter, Session

if TYPE_CHECKING:
    from viz.state.pin import Pin

HIDE = "hide"  # in the address: names of controls that are hidden while a lesson is open
TRAINED = (trained_state.Part.NAME, trained_state.Part.STEP, "training_least")
SLIDERS = (TEMPERATURE, TOP_K, TOP_P)
# Parameters that are no choice of a page.
PLACED = (*PositionSetting, "changes", Key.MODEL, Key.SOURCE, Key.TARGET, *Parameter, HIDE, *TRAINED, *SLIDERS)
FORM = ("draft", "kind", "preset", "training_data")  # of the form of a new model, which the visitor fills in


def choice_names() -> Sequence[str]:
    """Names of the choices that a step decides, of all pages."""
    from model.lessons.choices import CHOICES

    return [name for name in CHOICES if name not in PLACED and name not in FORM]


@dataclass
class PageChoices:
    """Choices by their names, None: by default; values of sliders, what was typed into instruments, and the pin."""

    values: dict[str, str | None] = field(default_factory=dict)
    sliders: dict[str, float] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    pin: Pin | None = None
    differing: bool = False

    @classmethod
    def of(cls, session: Session) -> PageChoices:
        """Choices of a session as they are now."""
        names, address = choice_names(), session.address.everything()
        values = {name: address.get(name) for name in names}
        values |= {name: st.session_state[name] for name in BOUND if name in values and name in st.session_state}
        sliders = {name: st.session_state[name] for name in SLIDERS if name in st.session_state}
        memory = {name: session.memory[name] for name in names if name in session.memory}
        return cls(values, sliders, memory, session.pin, session.differing)

    def give(self, session: Session) -> None:
        """Make them the session's. In a callback, or before widgets are drawn."""
        clear_choices(session)
        st.session_state.update(slider_values({}) | self.sliders)
        session.memory.update(self.memory)
        session.pin = self.pin
        session.differ(self.differing)
        session.address.set_choices(self.values)


def clear_choices(session: Session) -> None:
    """All choices of all pages as by default, and nothing pinned. In a callback, or before widgets are drawn."""
    names = dict.fromkeys(choice_names())
    for key in [key for key in st.session_state if str(key).partition(" ")[0] in names]:
        del st.session_state[key]
    for name in names:
        session.memory.pop(name, None)
    if session.pin is not None:
        session.release()
    session.address.set_choices(names)
