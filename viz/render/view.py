"""Figures on a page: drawn for the visitor of the current session, with what a click on them does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from viz.components.view import Answer, View, live
from viz.figures.figure import About, Caption, Figure
from viz.i18n.catalogue import language
from viz.render.grouping import first_of
from viz.render.reader import Reader
from viz.render.render import render
from viz.render.renderer import Axes
from viz.state.session import Session, current_session
from viz.state.token_groups import merged

if TYPE_CHECKING:
    from pandas import DataFrame


def reader_of(session: Session) -> Reader:
    """The visitor of a session, as a reader of figures."""
    return Reader(language(), merged(session), session.differing)


class FigureView(View):
    """A figure with a key of its own. answers: what a click does, by the names of what can be clicked; where pieces are
    shown as one, it is given their first token.

    It is packed when it is made and mounted when it is called: a page makes all its views before it mounts the first,
    so that the browser gets everything at once and paints it in one frame.
    """

    def __init__(self, key: str, figure: Figure, answers: Mapping[str, Answer | None]) -> None:
        answered = {name: answer for name, answer in answers.items() if answer is not None}
        self.key = key
        self._rendered = render(figure, reader_of(current_session()), answered)
        self.component, self.drawn = self._rendered.component, self._rendered.figure  # as this visitor sees it
        self.caption = self.drawn.caption
        axes = self._rendered.axes
        acts = {
            name: _in_tokens(answered[name], name, axes) if name in answered else None for name in self._rendered.clicks
        }
        self.acts = acts | about_click(key, self.caption)
        self.data = self._rendered.data

    def table(self) -> DataFrame:
        """Numbers that are drawn, a line each."""
        return self._rendered.table()


def view(key: str, figure: Figure, /, **answers: Answer | None) -> FigureView:
    """The figure on this page, with what a click on each thing in it does."""
    return FigureView(key, figure, answers)


def _in_tokens(answer: Answer, click: str, axes: Mapping[str, Axes]) -> Answer:
    """The answer, given tokens in the place of groups; the channel gives it where it gives `answer`."""
    if not axes:
        return answer

    def answer_in_tokens(clicked: Any) -> None:
        of_panel = str(int(clicked["panel"])) if isinstance(clicked, Mapping) and "panel" in clicked else click
        for name, groups in axes.get(of_panel, {}).items():
            if name:
                clicked = {**clicked, name: first_of(groups, int(clicked[name]))}
            else:
                clicked = first_of(groups, int(clicked))
        answer(clicked)

    return live(answer_in_tokens) if is_live(answer) else answer_in_tokens


def to_first(answer: Answer, groups: Any) -> Answer:
    """The answer, given the first token of a group where the group is clicked."""
    return _in_tokens(answer, "", {"": {"": groups}})


def is_live(answer: Answer) -> bool:
    """True if only pictures change after this answer, so that the channel gives it."""
    return bool(getattr(getattr(answer, "func", answer), "live", False))


def about_click(key: str, caption: Caption) -> dict[str, Answer]:
    """Answer to a click on the "?" of a figure, among the others: the second one closes what the first has opened."""
    return {} if caption.about is None else {"about": partial(_explain, key, caption.about)}


def _explain(key: str, about: About, _when: float) -> None:
    session = current_session()
    session.explained = None if session.explained and session.explained[0] == key else (key, about)


class FigureTable(NamedTuple):
    """The table of a figure, and the name of its file."""

    file: str
    make: Callable[[], DataFrame]


def figure_tables(views: Iterable[View]) -> dict[str, FigureTable]:
    """Tables of the figures among these, by their names."""
    return {
        each.caption.name: FigureTable(each.caption.file, each.table) for each in views if isinstance(each, FigureView)
    }
