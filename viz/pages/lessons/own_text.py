"""Texts that the visitor types while a lesson is open: they stay at every step of the same model and texts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from model.training.demonstration import DEMONSTRATIONS
from viz.i18n.catalogue import _
from viz.state import texts
from viz.state.session import Key, Session, current_session

if TYPE_CHECKING:
    from model.lessons.lesson import Lesson
    from model.lessons.state import State

OWN = "lesson_texts"  # in the session state: source and target, by the model and the texts that they took the place of
Texts = tuple[str, str]


def texts_of(state: State) -> tuple[str | None, str]:
    """Texts that a state shows; None for a source: the one that its model begins with."""
    first = DEMONSTRATIONS[state.trained[0]].text if state.trained else None
    return state.parameters.get(Key.SOURCE, first), state.parameters.get(Key.TARGET, "")


def _key(lesson: Lesson, state: State) -> tuple[str, str, str | None, str]:
    model = state.trained[0] if state.trained else state.parameters.get(Key.MODEL, lesson.model)
    return lesson.name, model, *texts_of(state)


def _typed(session: Session, state: State) -> Texts | None:
    """Texts in the fields, where they are others than those of a state; else None."""
    source, target = texts_of(state)
    if source is None:
        source = texts.first_source(session.model) if session.traced_input else ""
    with session.texts.lock:
        now = session.texts.typed.get(Key.SOURCE, source), session.texts.typed.get(Key.TARGET, "")
    wanted = tuple(each.replace("\n", texts.LINE_BREAK) for each in (source, target))
    return None if now == wanted or not now[0].strip() else now


def forget() -> None:
    """Another visit of a lesson begins."""
    st.session_state.pop(OWN, None)


def keep(session: Session, lesson: Lesson, state: State) -> None:
    """Note what was typed at a step of this state, before another one is opened. What a click on a page has written is
    of that step alone.
    """
    known: dict[tuple[str, str, str | None, str], Texts] = st.session_state.setdefault(OWN, {})
    now = _typed(session, state)
    if now is None:
        known.pop(_key(lesson, state), None)
    elif session.texts.by_hand:
        known[_key(lesson, state)] = now


def show(lesson: Lesson, state: State) -> None:
    """Put the visitor's own texts into the fields, where he has typed any in the place of this state's."""
    own: Texts | None = st.session_state.get(OWN, {}).get(_key(lesson, state))
    if own is not None:
        texts.write(Key.SOURCE, own[0])
        texts.write(Key.TARGET, own[1])


def line(session: Session, lesson: Lesson, state: State) -> None:
    """Line that says whose text is there, with the way back to the lesson's; none where it is the lesson's."""
    if session.traced_input is None or _typed(session, state) is None:
        return
    row = st.container(key="lesson_own_text", horizontal=True, vertical_alignment="center")
    row.caption(_("Here is your own text."))
    act, words = partial(give_back, lesson, state), _("Questions are about your text; the step speaks of the lesson's")
    row.button(_("Lesson's text"), key="lesson_text", type="tertiary", on_click=act, help=words)


def give_back(lesson: Lesson, state: State) -> None:
    """Put the lesson's texts into the fields again. In a callback."""
    session = current_session()
    st.session_state.get(OWN, {}).pop(_key(lesson, state), None)
    source, target = texts_of(state)
    texts.write(Key.SOURCE, texts.first_source(session.model) if source is None else source)
    texts.write(Key.TARGET, target)
