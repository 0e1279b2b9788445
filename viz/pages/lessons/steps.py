"""Steps of a lesson: the state of the one that is opened becomes the session's, and ends with the lesson."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

import streamlit as st

from model.training.demonstration import DEMONSTRATIONS
from viz.pages.lessons import before, own_text, trained_state
from viz.pages.lessons.page_choices import HIDE, PLACED, TRAINED, clear_choices
from viz.pages.lessons.progress import forget_progress
from viz.pages.lessons.shelf import lesson_named
from viz.state import shown_model, texts
from viz.state.opened_page import open_page
from viz.state.position_override import PositionSetting
from viz.state.sampling_sliders import slider_values
from viz.state.session import DEFAULT_SELECTION, Key, Parameter, Session, current_session

if TYPE_CHECKING:
    from model.lessons.lesson import Lesson
    from model.lessons.state import State


class Part(StrEnum):
    """Names in the session state; the first two are parameters of the address bar."""

    LESSON = "lesson"
    STEP = "step"
    PANEL = "lesson_panel"
    ACTS = "lesson_acts"
    PLACE = "lesson_place"


def open_step(lesson: Lesson, number: int) -> None:
    """Show a step, and its state on its page. In a callback, or before widgets are drawn."""
    session = current_session()
    before.remember(session)
    st.session_state.pop(Part.PLACE, None)
    if session.address.get(Part.LESSON) == lesson.name:
        own_text.keep(session, lesson, state_of(lesson, number_of(lesson, session.address.get(Part.STEP))))
    else:
        own_text.forget()
        forget_progress()
    session.address.set(Part.LESSON, lesson.name)
    session.address.set(Part.STEP, str(number + 1))
    state = state_of(lesson, number)
    clear_choices(session)  # what the visitor, or another step, has chosen is no choice of this one
    apply_state(session, lesson, state)
    own_text.show(lesson, state)
    open_page(state.page)
    session.rerun_requested = True


def state_of(lesson: Lesson, number: int) -> State:
    """State of a step: its own, or that of the last step before it that has one."""
    return [step.state for step in lesson.steps[: number + 1] if step.state is not None][-1]


def apply_state(session: Session, lesson: Lesson, state: State) -> None:
    """Model, texts, selection, changes and choices of a state; texts and changes that it leaves out are as at first."""
    given = state.parameters
    if state.trained:
        train = trained_state.train_at_least if state.keeps_training else trained_state.train_to
        train(session, *state.trained)
        source = given.get(Key.SOURCE, DEMONSTRATIONS[state.trained[0]].text)
        texts.write(Key.SOURCE, source)
        texts.write(Key.TARGET, given.get(Key.TARGET, ""))
    else:
        show_texts(session, given.get(Key.MODEL, lesson.model), given)
    session.select(**DEFAULT_SELECTION | {each.value: int(given[each]) for each in Parameter if each in given})
    session.query_side = ""  # nobody has chosen a token: a page that asks for a side has the state's
    if state.changes:
        session.change(state.changes)
    else:
        session.restore()
    for setting in PositionSetting:
        session.address.set(setting, given.get(setting))
    session.override = None
    session.address.set(HIDE, given.get(HIDE))
    st.session_state.update(slider_values(given))
    session.address.set_choices({name: value for name, value in given.items() if name not in PLACED})


def show_texts(session: Session, name: str, given: Mapping[str, str]) -> None:
    """The model of this name, with these texts; one that is left out is as at first."""
    for each in TRAINED:
        session.address.set(each, None)
    if name != st.session_state.get(Key.MODEL):
        shown_model.let_go()
        shown_model.show(name)
    with session.texts.lock:
        session.texts.by_model.pop(name, None)
    for key in (Key.SOURCE, Key.TARGET):
        texts.write(key, given.get(key, ""))
        if key not in given:
            session.texts.typed.pop(key, None)


def begin(session: Session) -> None:
    """Open the step that the address of a new window asks for; what else it says of model and texts counts."""
    name = st.query_params.get(Part.LESSON)
    if session.runs:
        return
    if not name or (lesson := lesson_named(name)) is None:
        trained_state.begin(session)
        return
    before.remember(session)
    number = number_of(lesson, st.query_params.get(Part.STEP))
    if set(st.query_params) <= {Part.LESSON, Part.STEP, Key.LANGUAGE}:
        open_step(lesson, number)
    else:
        session.address.set(Part.LESSON, lesson.name)
        session.address.set(Part.STEP, str(number + 1))
        session.texts.by_hand.update({Key.SOURCE, Key.TARGET} & set(st.query_params))
        trained_state.begin(session)


def number_of(lesson: Lesson, text: str | None) -> int:
    """Step of a lesson that an address has, from 0; the first where it has none."""
    number = int(text) if text and text.isascii() and text.isdigit() and len(text) < 4 else 1
    return max(0, min(number, len(lesson.steps)) - 1)


def close(lesson: Lesson) -> None:
    """End the lesson: what it had put away comes back, beside the list of lessons."""
    session = current_session()
    for name in (Part.LESSON, Part.STEP, HIDE):
        session.address.set(name, None)
    before.give_back(session, lesson.model)
    open_page("lessons")
    session.rerun_requested = True
