"""One row of a page's first choices; the rest stand behind "More"."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz.i18n.catalogue import _
from viz.state.session import choose, current_session

MORE, OPEN = "more", "open"  # parameter of the address bar, and its value while the rest is open, on whatever page


@dataclass
class ChoiceRow:
    """place: of the first choices. rest: of the others; None while they are hidden. changed: of each of these, whether
    it is another than by default.
    """

    place: DeltaGenerator
    rest: DeltaGenerator | None
    changed: list[bool] = field(default_factory=list)

    def choose(self, label: str, options: Sequence[str], default: str, key: str, words: Callable[[str], str]) -> str:
        """A choice behind "More"; see `session.choose`."""
        chosen = choose(label, options, default, key, words, self.rest)
        self.changed.append(chosen != default)
        return chosen


@contextmanager
def choice_row(name: str) -> Iterator[ChoiceRow]:
    """The row, with the button at its right upper corner, if it has a rest; that stands below it. name: of the page or
    its part.
    """
    is_open = current_session().address.get(MORE) == OPEN
    whole = st.container(key=f"choices_{name}_with_more", horizontal=True)
    place = whole.container(key=f"choices_{name}", horizontal=True, vertical_alignment="center")
    others = st.container(key=f"rest_{name}", horizontal=True, vertical_alignment="center")
    row = ChoiceRow(place, others if is_open else None)
    yield row
    if not row.changed:
        return
    count = sum(row.changed)
    words = _("More · {count} changed").format(count=count) if count else _("More")
    icon = ":material/expand_less:" if is_open else ":material/expand_more:"
    whole.button(words, key=f"more_{name}", icon=icon, icon_position="right", on_click=_turn)


def _turn() -> None:
    """Show the rest, or hide it."""
    address = current_session().address
    address.set(MORE, None if address.get(MORE) == OPEN else OPEN)
