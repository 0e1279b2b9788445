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


def _typed(session: Session, lesson: Lesson, state: State) -> Texts | None:
    """Texts in the fields, where they are others than those of a state; else None. A target that a button has let the
    model write is no other one.
    """
    source, target = texts_of(state)
    if source is None:
        source = texts.first_source(session.model) if session.traced_input else ""
    with session.texts.lock:
        now = session.texts.typed.get(Key.SOURCE, source), session.texts.typed.get(Key.TARGET, "")
    wanted = tuple(each.replace("\n", texts.LINE_BREAK) for each in (source, target))
    if now == wanted or not now[0].strip():
        return None
    own = Key.TARGET in session.texts.by_hand or st.session_state.get(OWN, {}).get(_key(lesson, state)) == now
    return now if own or now[0] != wanted[0] else None


def forget() -> None:
    """Another visit of a lesson begins."""
    st.session_state.pop(OWN, None)


def keep(session: Session, lesson: Lesson, state: State) -> None:
    """Note what was typed at a step of this state, before another one is opened. What a click on a page has written is
    of that step alone.
    """
    known: dict[tuple[str, str, str | None, str], Texts] = st.session_state.setdefault(OWN, {})
    now = _typed(session, lesson, state)
    if now is None:
        known.pop(_key(lesson, state), None)
    elif session.texts.by_hand:
        known.pop(_key(lesson, state), None)  # the latest is the last
        known[_key(lesson, state)] = now


def show(lesson: Lesson, state: State) -> None:
    """Put the visitor's own texts into the fields, where he has typed any in the place of this state's."""
    own: Texts | None = st.session_state.get(OWN, {}).get(_key(lesson, state))
    if own is not None:
        _write(own)


def _write(own: Texts) -> None:
    texts.write(Key.SOURCE, own[0])
    texts.write(Key.TARGET, own[1])


def _of_other_steps(lesson: Lesson, state: State) -> Texts | None:
    """Latest texts that were typed for the state's model in the place of other texts of the lesson."""
    model = _key(lesson, state)[:2]
    own = [each for key, each in st.session_state.get(OWN, {}).items() if key[:2] == model]
    return own[-1] if own else None


def note(session: Session, lesson: Lesson, state: State) -> str:
    """Sentence that says that the visitor's own text is there; "" where it is the lesson's."""
    if session.traced_input is None or _typed(session, lesson, state) is None:
        return ""
    return _("Here is your own text: the questions are about it, the numbers of the step about the lesson's.")


def line(session: Session, lesson: Lesson, state: State) -> None:
    """Line that says whose text is there, with the way to the other: the lesson's, or the one that was typed at steps
    with another text; none where nothing was typed.
    """
    if session.traced_input is None:
        return
    if words := note(session, lesson, state):
        label, act = _("Lesson's text"), partial(give_back, lesson, state)
    elif (own := _of_other_steps(lesson, state)) is not None:
        words = _("This step has a text of its own.")
        label, act = _("Your text"), partial(take, lesson, state, own)
    else:
        return
    row = st.container(key="lesson_own_text", horizontal=True, vertical_alignment="center")
    row.caption(words)
    row.button(label, key="lesson_text", on_click=act)


def take(lesson: Lesson, state: State, own: Texts) -> None:
    """Put the visitor's texts of other steps in the place of this state's. In a callback."""
    st.session_state.setdefault(OWN, {})[_key(lesson, state)] = own
    _write(own)


def give_back(lesson: Lesson, state: State) -> None:
    """Put the lesson's texts into the fields again. In a callback."""
    session = current_session()
    st.session_state.get(OWN, {}).pop(_key(lesson, state), None)
    source, target = texts_of(state)
    texts.write(Key.SOURCE, texts.first_source(session.model) if source is None else source)
    texts.write(Key.TARGET, target)
