"""Beginning, joining and leaving a class session: on the page Lessons, from the menu, and by a link."""

from __future__ import annotations

from typing import Any

import streamlit as st

from viz.i18n.catalogue import _
from viz.i18n.format import as_sentence
from viz.state import training
from viz.state.class_sessions import CLASS_SESSIONS, replica_code, seat_of
from viz.state.session import Session, current_session
from viz.web.modules import base_path

JOIN, CLASS = "join", "class"  # in the address: of who follows, and of who teaches
PROBLEM, ELSEWHERE = "class_problem", "class_elsewhere"  # in the session state: a sentence, a code
CODE = "class_code"  # the field's key


def open_here(session: Session) -> None:
    """Begin a class session that this window teaches. In a callback."""
    try:
        seat = CLASS_SESSIONS.open(session)
    except ValueError as error:
        session.notice = str(error)
        return
    seat.link = link_of(seat.room.code)
    session.address.set(CLASS, seat.room.code)


def join_here(session: Session, code: str) -> str:
    """Join the class session of this code; what hinders it, in a sentence. In a callback, or before widgets."""
    try:
        seat = CLASS_SESSIONS.join(session, code)
    except ValueError as error:
        st.session_state[ELSEWHERE] = replica_code(code)
        return str(error)
    session.address.set(JOIN, seat.room.code)
    return ""


def begin(session: Session) -> None:
    """Join, or go on to teach, the class session that the address of a new window names."""
    for name in (JOIN, CLASS):
        code = st.query_params.get(name)
        if session.runs or not code or session.seat is not None:
            continue
        try:
            seat = CLASS_SESSIONS.join(session, code, teaches=name == CLASS)
        except ValueError as error:
            st.session_state[PROBLEM] = str(error)
            session.address.set(name, None)
            continue
        seat.link = link_of(seat.room.code)
        session.address.set(CLASS if seat.teaches else JOIN, seat.room.code)
        session.address.set(JOIN if seat.teaches else CLASS, None)


def link_of(code: str) -> str:
    """Link by which others join, under the name by which this browser calls the server; empty where that is unknown."""
    url = str(st.context.url or "")
    scheme, sign, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}{base_path()}/?{JOIN}={code}" if sign else ""


def end_here(session: Session) -> None:
    """End the class session that this window teaches, or leave the one that it follows."""
    seat = session.seat
    CLASS_SESSIONS.end(session)
    CLASS_SESSIONS.leave(session)
    session.seat = seat
    forget(session)
    session.rerun_requested = True


def forget(session: Session) -> None:
    """Take a class session out of this window; a training of its own that was put away comes back."""
    seat, session.seat = session.seat, None
    for name in (JOIN, CLASS):
        session.address.set(name, None)
    if seat is not None and seat.own_run:
        session.training.run = seat.own_run
        session.address.set(training.RUN, seat.own_run)


# On the page Lessons.


def beginning(session: Session) -> None:
    """A button that begins a class session, and a field for the code of another's; nothing in one that goes on."""
    if seat_of(session) is not None:
        return
    with st.container(key="class_beginning", horizontal=True, vertical_alignment="center"):
        st.button(_("Begin a class session"), key="class_begin", on_click=open_here, args=(session,))
        label = _("Code of a class session")
        hidden: dict[str, Any] = {"placeholder": label, "label_visibility": "collapsed"}
        with st.container(key="class_joining", horizontal=True, vertical_alignment="center", width="content"):
            st.text_input(label, key=CODE, max_chars=40, width=200, on_change=join_by_code, **hidden)
            st.button(_("Join"), key="class_join", on_click=join_by_code)
    show_problem("class_code_problem")  # beside the field: the top of the page may be out of sight
    st.caption(_("Who joins follows what the teacher shows, and answers the questions of a lesson, without a name."))


def join_by_code() -> None:
    """Join by the code in the field."""
    code = str(st.session_state.get(CODE) or "").strip()
    if code and (problem := join_here(current_session(), code)):
        st.session_state[PROBLEM] = problem


def show_problem(key: str = "class_problem") -> None:
    """Why a class session could not be joined, and the way there where another replica holds it. key: of its place; the
    usual one is at the top, on a phone beside the button that opens the sidebar.
    """
    problem = st.session_state.pop(PROBLEM, "")
    if not problem:
        return
    place = st.container(key=key)
    place.warning(as_sentence(problem))
    if elsewhere := st.session_state.pop(ELSEWHERE, ""):
        place.link_button(_("Join it on its own server"), f"{base_path()}/?{JOIN}={elsewhere}")
