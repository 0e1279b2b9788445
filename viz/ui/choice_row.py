"""One row of a page's first choices; the rest stand behind "More"."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz.i18n.catalogue import _
from viz.state.session import choose, current_session

MORE, OPEN = "more", "open"  # parameter of the address bar, and its value while the rest is shown, on whatever page


@dataclass
class ChoiceRow:
    """place: of the first choices. rest: of the others; None while they are hidden. changed: how many of these are not
    as they are by default.
    """

    place: DeltaGenerator
    rest: DeltaGenerator | None
    changed: int = 0

    def choose(self, label: str, options: Sequence[str], default: str, key: str, words: Callable[[str], str]) -> str:
        """A choice behind "More"; see `session.choose`."""
        return self.count(choose(label, options, default, key, words, self.rest), default)

    def count(self, chosen: str, default: str) -> str:
        """The choice, counted if it is not the default."""
        self.changed += chosen != default
        return chosen


@contextmanager
def choice_row(name: str) -> Iterator[ChoiceRow]:
    """The row, with the button at its end; the rest below it. name: of the page or its part."""
    shown = current_session().address.get(MORE) == OPEN
    place = st.container(key=f"choices_{name}", horizontal=True, vertical_alignment="center")
    others = st.container(key=f"rest_{name}", horizontal=True, vertical_alignment="center")
    row = ChoiceRow(place, others if shown else None)
    yield row
    words = _("More · {count} changed").format(count=row.changed) if row.changed else _("More")
    icon = ":material/expand_less:" if shown else ":material/expand_more:"
    place.button(words, key=f"more_{name}", icon=icon, icon_position="right", on_click=_turn)


def _turn() -> None:
    """Show the rest, or hide it."""
    address = current_session().address
    address.set(MORE, None if address.get(MORE) == OPEN else OPEN)
