"""What was shown before a lesson began: it is put away, and comes back at the lesson's end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import streamlit as st

from model.capture.interventions import AttentionChange
from viz.i18n.catalogue import _
from viz.i18n.format import in_turn
from viz.pages.lessons import trained_state
from viz.pages.lessons.page_choices import PageChoices
from viz.state import shown_model, training
from viz.state.position_override import PositionSetting
from viz.state.session import DEFAULT_SELECTION, Key, Selection, Session

BEFORE = "lesson_before"  # in the session state
FIELDS = (Key.SOURCE, Key.TARGET)


@dataclass
class Before:
    """Model, texts, selection, changes, choices, positions and training of before. model: "" where a lesson came first
    of all.

    typed: texts by their fields. by_model: those of models that were not shown. run: key of the training
    that is paused meanwhile; "": none.
    """

    model: str = ""
    typed: dict[str, str] = field(default_factory=dict)
    by_model: dict[str, tuple[str, str]] = field(default_factory=dict)
    selection: Selection = field(default_factory=lambda: Selection(**DEFAULT_SELECTION))
    changes: tuple[AttentionChange, ...] = ()
    positions: dict[str, str | None] = field(default_factory=dict)
    run: str = ""
    choices: PageChoices = field(default_factory=PageChoices)


def remember(session: Session) -> None:
    """Remember what is shown, unless a lesson is open already."""
    if BEFORE in st.session_state:
        return
    with session.texts.lock:
        typed, others = dict(session.texts.typed), dict(session.texts.by_model)
    positions = {str(each): session.address.get(each) for each in PositionSetting}
    st.session_state[BEFORE] = Before(
        st.session_state.get(Key.MODEL, "") if session.runs else "",
        typed if session.runs else {},
        others,
        replace(session.selection),
        tuple(session.what_if.changes),
        positions,
        training.own_key(session),
        PageChoices.of(session) if session.runs else PageChoices(),
    )


def look_after(session: Session) -> None:
    """Keep the training of before from being freed while the lesson is open."""
    before: Before | None = st.session_state.get(BEFORE)
    if before is not None and before.run and before.run != session.training.run:
        training.trainings().get(before.run)


def sentence(session: Session) -> str:
    """Words on what was put away; "" where nothing of it was the reader's own."""
    before: Before | None = st.session_state.get(BEFORE)
    words = []
    if before is not None and any(before.typed.values()):
        words.append(_("Your own text comes back when the lesson ends."))
    if before is not None and before.run and before.run != session.training.run:
        words.append(_("Your training is paused until then."))
    return in_turn(*words)


def give_back(session: Session, lesson_model: str) -> None:
    """Show what was shown before the lesson. In a callback."""
    before: Before = st.session_state.pop(BEFORE, None) or Before()
    ended = trained_state.end(session)
    if before.run:
        session.training.run = before.run
        session.address.set(training.RUN, before.run)
    if not before.model and not ended:  # a lesson came first: what it has shown last stays
        return
    name = before.model or lesson_model
    if name == training.ENTRY and training.training(session) is None:
        name = lesson_model
    if name != st.session_state.get(Key.MODEL):
        shown_model.let_go()
        shown_model.show(name)
    with session.texts.lock:
        session.texts.by_model = dict(before.by_model)
        given = session.texts.by_model.pop(name, None)
        own = dict(before.typed)
        if name != before.model and given is not None:  # the training of before is no more
            own = {str(each): text for each, text in zip(FIELDS, given, strict=True)}
        session.texts.typed = own
        if session.traced_input is not None and session.model.name != name and Key.SOURCE in own:
            session.texts.by_model[name] = own[Key.SOURCE], own.get(Key.TARGET, "")  # also one that it cannot read
        for key in FIELDS:
            session.texts.edits[key] = session.texts.edits.get(key, 0) + 1
    selection = before.selection
    session.select(layer=selection.layer, head=selection.head, query=selection.query)
    session.restore()
    session.change(before.changes)
    for setting, value in before.positions.items():
        session.address.set(setting, value)
    session.override = None
    before.choices.give(session)
