"""A teacher's view and those who follow it: what a session publishes of its page, and what another takes over.

A follower's script runs where the teacher's page, model or choices become others; what is typed and chosen in between
comes by the channel, as the bytes that the teacher's own window was sent. Where only the texts are others, the script
waits until the teacher's hands rest: thirty scripts cost more than all that they type.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import streamlit as st

from viz.components.view import View
from viz.frame.lead import KEY as LEAD
from viz.i18n import catalogue
from viz.i18n.catalogue import _
from viz.pages.lessons.joining import CLASS, JOIN, forget
from viz.pages.lessons.page_choices import TRAINED
from viz.pages.lessons.steps import Part
from viz.protocol import NO_MESSAGE, read_screen
from viz.state import shown_model, training
from viz.state.class_sessions import (
    CLASS_SESSIONS,
    FRAMES,
    Picture,
    Seat,
    TeacherView,
    is_open,
    seat_of,
    size_of,
)
from viz.state.position_override import PositionSetting
from viz.state.session import DIFFERENCES, PINNED, Key, Parameter, Session
from viz.state.snapshot import Snapshot
from viz.state.what_if import CHANGES

if TYPE_CHECKING:
    from viz.frame.page_layout import PageLayout
    from viz.protocol import TeacherScreen

STRIP = "class_session"  # key of the line above the page
HARMLESS = ("about", "again")  # clicks that change nothing which is shown
OWN = {
    Key.LANGUAGE,
    Key.MODEL,
    JOIN,
    CLASS,
    "opened",
    "draft",
    *TRAINED,
}  # parameters that are nobody else's
LEISURE = 3.0  # seconds without news from the teacher, after which the script draws what it alone draws of a text
BY_CHANNEL = {Key.SOURCE, Key.TARGET, CHANGES, DIFFERENCES[0], *PINNED, *Parameter}  # which a snapshot has
PLAIN = (str, int, float, list)  # values of controls that another session can be given


# Following, by the script.


def follow(session: Session, names: Sequence[str], page: str) -> None:
    """Take over the teacher's page, model and choices, before the controls are drawn. names: of models here."""
    seat = seat_of(session)
    if seat is None and session.seat is not None:
        session.notice = _("The class session has ended.")
        forget(session)
    if seat is None or seat.teaches or not seat.follows or (view := seat.room.view) is None:
        return
    seat.problem = ""
    seat.drawn = view.run, view.layout
    if view.model == training.ENTRY and (run := view.parameters.get(training.RUN)):
        if session.training.run != run:
            seat.own_run = seat.own_run or training.own_key(session)
        session.training.run = run
        session.address.set(training.RUN, run)
        names = [*names, training.ENTRY] if training.training(session) else names
    if seat.own_run:
        training.trainings().get(seat.own_run)  # it is looked after until it is shown again
    if view.model not in names:
        sentence = _(
            "The teacher shows {name}, a model that is open to the teacher alone; the next one is shown again."
        )
        seat.problem = sentence.format(name=view.model)
        return
    if view.page != page:
        parameters = {name: each for name, each in st.query_params.to_dict().items() if name != Key.MODEL}
        st.switch_page(f"viz/pages/{view.page}/page.py", query_params=parameters)
    if seat.layout != view.layout:
        take_choices(session, view)


def take_choices(session: Session, view: TeacherView) -> None:
    """The teacher's choices become this session's: those in the address, and those of the controls."""
    if view.model != st.session_state.get(Key.MODEL):
        shown_model.forget_refusal()
        st.session_state[Key.MODEL] = view.model  # the list of models is drawn behind this: nothing is drawn again
    with session.texts.lock:
        session.texts.by_model.pop(view.model, None)
    before = {name for name in st.query_params.to_dict() if name not in OWN | BY_CHANNEL | {training.RUN}}
    for name in before | view.parameters.keys():
        session.address.set(name, view.parameters.get(name))
    for name, value in view.choices.items():
        session.address.pending_choices[name] = value
    for name, field in view.fields.items():
        if st.session_state.get(name) != field:
            st.session_state[name] = field
    if any(name in view.parameters or name in before for name in PositionSetting):
        session.override = None
    view.snapshot.give(session)


def take_texts(session: Session, stage: PageLayout) -> None:
    """Texts, trace and pin of the teacher, before a page is drawn; its lock is held."""
    seat = seat_of(session)
    if seat is None or seat.teaches or not seat.follows or seat.problem or (view := seat.room.view) is None:
        return
    if seat.drawn == (view.run, view.layout):
        view.snapshot.give(session)
        view.snapshot.share(session, stage.model)


def page_drawn(session: Session, stage: PageLayout) -> None:
    """The script has drawn the page: a teacher's is published, and a follower is what the teacher was. Its lock is
    held.
    """
    seat = seat_of(session)
    if seat is None:
        return
    if seat.teaches:
        publish_page(session, stage, seat)
    elif seat.follows and seat.drawn:
        seat.run, seat.layout = seat.drawn
        seat.texts = Snapshot.of(session).texts


# Publishing.


def publish_page(session: Session, stage: PageLayout, seat: Seat) -> None:
    """The whole page, as the script has drawn it."""
    snapshot, model = Snapshot.of(session), str(st.session_state.get(Key.MODEL) or "")
    address = st.query_params.to_dict()
    mine = OWN if model == training.ENTRY else OWN | {training.RUN}
    parameters = {str(name): each for name, each in address.items() if name not in mine | BY_CHANNEL}
    choices = {name: each for name, each in session.address.widget_values.items() if name not in OWN}
    fields = fields_of(parameters.keys() - choices.keys())
    layout = stage.page, model, parameters, choices, fields
    run = layout, snapshot.texts_and_choices(), session.training.step
    if seat.room.leader != session.token and run == seat.drawn and is_open(seat.room.leader):
        return  # another window of the teacher leads
    before, seat.drawn = seat.drawn, run
    pictures = pictures_of([view for key, view in session.views.items() if is_picture(session, key)])

    def changed(view: TeacherView | None) -> TeacherView:
        number, layouts, runs, soon = (view.number, view.layout, view.run, view.soon) if view else (0, 0, 0, 0)
        layouts += view is None or before is None or before[0] != layout
        runs += view is None or before != run
        if view is None or before is None or without_texts(before) != without_texts(run):
            soon = runs
        counts = number + 1, layouts, runs, soon
        return TeacherView(*counts, stage.page, model, parameters, choices, fields, snapshot, pictures)

    CLASS_SESSIONS.publish(session, changed)


def without_texts(run: tuple[Any, tuple[object, ...], object]) -> tuple[object, ...]:
    """What a run of the script was of, but for the texts."""
    layout, (_texts, *choices), step = run
    return layout, choices, step


def fields_of(names: Iterable[str]) -> dict[str, Any]:
    """Values of controls that are called as these parameters of the address are."""
    wanted = set(names)
    return {
        str(key): each
        for key, each in st.session_state.items()
        if str(key).partition(" ")[0] in wanted and isinstance(each, PLAIN) and not isinstance(each, bool)
    }


def publish(session: Session, views: Sequence[View], whole: bool, acted: bool) -> None:
    """Pictures that the channel has drawn in a teacher's window; its lock is held, and it is the current session.

    whole: all of them. acted: he has typed or clicked, and not only a training moved.
    """
    seat = seat_of(session)
    if seat is None or not views:
        return
    if not seat.teaches:
        return share(session, seat, views)
    if not acted and seat.room.leader != session.token and is_open(seat.room.leader):
        return
    pictures = pictures_of([view for view in views if is_picture(session, view.key)])
    snapshot = Snapshot.of(session)

    def changed(view: TeacherView | None) -> TeacherView | None:
        if view is None or (session.stage is not None and view.page != session.stage.page):
            return None  # the script says first what the page is
        if not whole:
            mixed = {name: {**each, **pictures.get(name, {})} for name, each in view.pictures.items()}
            return replace(view, number=view.number + 1, pictures=mixed, at=time.monotonic())
        return replace(view, number=view.number + 1, snapshot=snapshot, pictures=pictures, at=time.monotonic())

    CLASS_SESSIONS.publish(session, changed)


def share(session: Session, seat: Seat, views: Sequence[View]) -> None:
    """What a follower has drawn in another language is for all who read it, if it is what the teacher shows."""
    view = seat.room.view
    if view is None or catalogue.language() in view.pictures or not is_as_taught(session, seat, view):
        return
    pictures = pictures_of([each for each in views if is_picture(session, each.key)])
    CLASS_SESSIONS.share(seat.room, catalogue.language(), view.number, pictures[catalogue.language()])


def is_as_taught(session: Session, seat: Seat, view: TeacherView) -> bool:
    """True if a follower's session has nothing else than the teacher's: whatever its browser has sent."""
    if not seat.follows or seat.layout != view.layout or seat.run < view.soon:
        return False
    if session.stage is None or session.stage.page != view.page or session.stage.model is not view.snapshot.base:
        return False
    own = session.address.widget_values
    same_choices = all(own.get(name, chosen) == chosen for name, chosen in view.choices.items())
    same_address = all(session.address.get(name) == each for name, each in view.parameters.items())
    more = session.address.names() - view.parameters.keys() - OWN - BY_CHANNEL - {training.RUN}
    same_rest = view.snapshot.texts_and_choices() == Snapshot.of(session).texts_and_choices()
    return same_choices and same_address and not more and same_rest


def is_picture(session: Session, key: str) -> bool:
    """True if a view is of the page, or its tokens or first line: and not a field, or the training's box."""
    return key in session.followed or key in (Key.TOKENS, LEAD)


def pictures_of(views: Iterable[View]) -> dict[str, Mapping[str, Picture]]:
    """Pictures of this session's language; none where they are too large to be kept."""
    pictures = {}
    for view in views:
        acts = {name: getattr(act, "func", act) for name, act in view.acts.items()}
        live = tuple(name for name, act in acts.items() if getattr(act, "live", False))
        pictures[view.key] = Picture(view.key, view.data, live)
    return {catalogue.language(): pictures if size_of(pictures) <= FRAMES else {}}


# Following, by the channel.


class SharedView(View):
    """A picture that another window was sent, for this one; a click on it is for this session's own view."""

    def __init__(self, session: Session, picture: Picture) -> None:
        self.key, self.data = picture.key, picture.data
        own = session.views.get(picture.key)
        self.acts = own.acts if own is not None else {}


def mark(session: Session) -> tuple[object, object] | None:
    """What a window has to be sent, compared with what it was: of the teacher's view, and of the line above the page;
    None: nothing.
    """
    seat: Seat | None = session.seat
    if seat is None:
        return None
    room = seat.room
    if seat.teaches:
        return (), (room.news, room.changes, room.ended)
    view = room.view if seat.follows else None
    counts = (view.number, view.run, len(view.pictures), seat.run, seat.layout) if view else ()
    return counts, (room.changes, room.ended, seat.follows, seat.problem)


def is_script_due(session: Session) -> bool:
    """True if the script has drawn less of a teacher's page than there is, and is waited for no longer: at once, where
    more than the texts is new, or a question is before the class, whose answers are of them.
    """
    following = teacher_view(session)
    if following is None or following[0].run == following[1].run:
        return False
    seat, view = following
    return seat.run < view.soon or Part.LESSON in view.parameters or time.monotonic() - view.at >= LEISURE


def teacher_view(session: Session) -> tuple[Seat, TeacherView] | None:
    """What this session follows, if it does."""
    seat = seat_of(session)
    if seat is None or seat.teaches or not seat.follows or (view := seat.room.view) is None:
        return None
    return seat, view


def shared_views(session: Session, pictures: Mapping[str, Picture]) -> list[View]:
    """The teacher's pictures, as views of this session."""
    return [SharedView(session, each) for each in pictures.values()]


def is_mine_to_draw(seat: Seat, view: TeacherView, language: str) -> bool:
    """True if this session draws the view in its language: for all who read that, or, where they cannot share it, for
    itself.
    """
    if language in view.pictures:
        return True
    return CLASS_SESSIONS.claim(seat.room, language, view.number)


def screen(session: Session) -> TeacherScreen | None:
    """What a teacher presents to this session, if it follows one."""
    seat = seat_of(session)
    return None if seat is None or seat.teaches or not seat.follows else seat.room.screen


def accept_click(session: Session, key: str, name: str, value: object) -> bool:
    """A click by the channel, as it comes: who follows and clicks something of the page looks around alone. True if no
    turn is needed to answer it.
    """
    if key == STRIP and name == "screen":
        with suppress(*NO_MESSAGE):
            CLASS_SESSIONS.put_screen(session, read_screen(value))
        return True
    if key == STRIP and name == "follows":
        CLASS_SESSIONS.follow(session, bool(value))
    elif name not in HARMLESS and is_picture(session, key):
        let_go(session)
    return False


def let_go(session: Session) -> None:
    """Look around alone from now on: something was typed or clicked here."""
    CLASS_SESSIONS.follow(session, False)


def presence(session: Session) -> None:
    """A window of this session has opened its channel, or closed it."""
    if (seat := seat_of(session)) is not None:
        seat.had_channel = True
        CLASS_SESSIONS.count_again(seat.room)
