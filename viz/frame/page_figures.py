"""Figures of a page without a browser: drawn by the page's own code, for notebooks and for files."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING

from model.lessons.state import State
from viz.components.view import View
from viz.frame import drawing
from viz.frame.page_layout import PageLayout
from viz.i18n.catalogue import _, speaking
from viz.render.document import TALL, Document, DrawnView
from viz.render.view import FigureView
from viz.state import position_override, special_tokens, target_language
from viz.state.input_texts import InputTexts
from viz.state.saved_page import Choices
from viz.state.serving import serving
from viz.state.session import DEFAULT_SELECTION, DIFFERENCES, PINNED, Key, Parameter, Selection, Session, TracedInput
from viz.state.what_if import CHANGES, WhatIf

if TYPE_CHECKING:
    from model.capture.trace import Trace
    from model.inference.text_model import TextModel

# Controls are drawn for nobody here, of which Streamlit warns at each.
logging.getLogger("streamlit.runtime.scriptrunner_utils.script_run_context").setLevel(logging.ERROR)


@dataclass(frozen=True)
class PageFigures(Mapping[str, FigureView]):
    """Figures of a page by their keys, the nearest to the eyes first. input: that they are drawn of.

    choices: what clicks show, see `viz.state.saved_page`.
    """

    title: str
    views: dict[str, View]
    input: TracedInput
    language: str = "en"
    choices: Choices = field(default_factory=Choices)

    def __getitem__(self, key: str) -> FigureView:
        if key not in self._figures:
            raise KeyError(f"there is no figure {key!r} here: there are {', '.join(self._figures)}")
        return self._figures[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    @property
    def trace(self) -> Trace:
        return self.input.trace

    @cached_property
    def _figures(self) -> dict[str, FigureView]:
        return {str(key): view for key, view in self.views.items() if isinstance(view, FigureView)}

    def document(self, tall: int = 0) -> Document:
        """Document of all figures; tall: see `Document`."""
        drawn = [DrawnView.of(view) for view in self.views.values()]
        body = f'<div class="figures">{"".join(each.place() for each in drawn)}</div>'
        with speaking(self.language):
            words = saved_words()
        return Document(self.title, body, drawn, self.language, self.choices.views, words=words, tall=tall)

    def _repr_html_(self) -> str:
        return self.document(TALL).framed()


def saved_words() -> dict[str, str]:
    """Words of a file in place of those that a page has for clicks."""
    return {"click": _("press one to see it large"), "point": _("Point at a block, or tap it, to see its shapes.")}


def page_figures(model: TextModel, state: State, language: str = "en", *, choices: bool = False) -> PageFigures:
    """Figures of a state's page, as a browser at its address would show them of this model. choices: with what clicks
    show.

    Raises:
        ValueError: the model cannot read a text.
        MissingQuantityError: the page needs what the model does not have.
    """
    given = state.parameters
    session = new_session(given)
    with serving(session), speaking(language), session.lock:
        session.saving = int(choices)
        model = position_override.overridden(session, target_language.as_chosen(special_tokens.as_chosen(model)))
        drawn_by = import_module(f"viz.pages.{state.page}.page")
        stage = PageLayout(model, False, drawn_by.page(model), language, state.page)
        session.stage = stage
        pin(session, model, given)
        drawing.trace(session, stage)
        views: dict[str, View] = {}
        rest = drawing.views(
            session, stage, model, lambda placed: views.update((view.key, view) for _place, view in placed)
        )
        if choices and rest is not None:
            rest()
    return PageFigures(f"Vitrine · {model.name} · {state.page}", views, session.current, language, session.choices)


def new_session(given: Mapping[str, str]) -> Session:
    """Session of nobody, at an address with these parameters."""
    numbers = {each.value: int(given[each]) for each in Parameter if each in given}
    typed = {str(key): given[key] for key in (Key.SOURCE, Key.TARGET) if key in given}
    texts = InputTexts(typed, query_given=Parameter.QUERY in numbers)
    session = Session(Selection(**(DEFAULT_SELECTION | numbers)), WhatIf.read(given.get(CHANGES, "")), texts=texts)
    with serving(session):  # what stands in a visitor's address bar, where there is one, is not its own
        for name, value in given.items():
            session.address.set(name, value)
    return session


def pin(session: Session, model: TextModel, given: Mapping[str, str]) -> None:
    """Pin the trace that the parameters name, where it is of this model."""
    source, target, name = (given.get(each) for each in PINNED)
    if source is None or (name or model.name) != model.name:
        return
    changes, session.what_if = session.what_if, WhatIf()
    session.trace_input(model, source, target or "")
    session.pin, session.what_if = session.as_pin(), changes
    session.differing = given.get(DIFFERENCES[0]) == DIFFERENCES[1]
