"""Address bar of a window, as far as choices stand in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import streamlit as st

from viz.state.serving import by_channel

# Parameters that Streamlit's widgets are bound to: they alone may write them.
BOUND = (
    *("bases", "lengths", "compared", "widths", "dimension", "k", "place"),
    *("temperature", "top_k", "top_p", "checkpoint", "compare_a", "compare_b", "health_beside", "w_rows", "w_columns"),
)


@dataclass
class Address:
    """Choices that are put into the address bar, from the script and from the channel alike.

    widget_values: what `choose` gave last, by its key, for who has no widgets to ask. pending_choices: choices that a
    click elsewhere makes, by their keys, until their control is drawn; None: as by default.
    """

    widget_values: dict[str, str] = field(default_factory=dict)
    pending_choices: dict[str, str | None] = field(default_factory=dict)
    _wanted: dict[str, str | None] = field(default_factory=dict)  # None: taken out
    _present: dict[str, str] = field(default_factory=dict)  # as the script last saw it

    def set(self, name: str, value: str | None) -> None:
        """Put a choice into the address bar, or take it out; it stays so when another page is opened.

        All else too: the browser may ask for the next run with the address from before a choice, which is on its way.
        """
        self._wanted[name] = value
        if not by_channel():  # the next run of the script does it
            self.sync()

    def set_choices(self, choices: Mapping[str, str | None]) -> None:
        """Make these choices, whichever page has their controls; None: as by default."""
        for name, value in choices.items():
            self.widget_values.pop(name, None)
            self.pending_choices[name] = value
            if name not in BOUND and self.get(name) != value:
                self.set(name, value)

    def take(self, name: str) -> bool:
        """True, once, if this choice was made elsewhere since its control was drawn; the address has it."""
        was_pending = name in self.pending_choices
        self.pending_choices.pop(name, None)
        return was_pending

    def forget(self, name: str) -> None:
        """Take a choice out of the address bar, of a page that was left; an address that has it again means it."""
        self._wanted.pop(name, None)
        st.query_params.pop(name, None)

    def sync(self) -> None:
        """Give the address bar all that was set and that it lacks, or has not taken out."""
        for name, value in list(self._wanted.items()):
            if value is None:
                st.query_params.pop(name, None)
            elif st.query_params.get(name) != value:
                st.query_params[name] = value
        self._present = st.query_params.to_dict()

    def everything(self) -> dict[str, str]:
        """All that is in the address bar, or will be."""
        present = dict(self._present if by_channel() else st.query_params.to_dict())
        return {name: value for name, value in (present | self._wanted).items() if value is not None}

    def names(self) -> frozenset[str]:
        """Names that have a value in the address bar, or will have one."""
        every = {name: self.get(name) for name in {*self._wanted, *self._present}}
        return frozenset(name for name, value in every.items() if value is not None)

    def get(self, name: str) -> str | None:
        """Value of this name in the address bar, or the one that it will have."""
        if not by_channel():
            return st.query_params.get(name)
        return self._wanted[name] if name in self._wanted else self._present.get(name)
