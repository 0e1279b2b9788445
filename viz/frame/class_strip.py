"""The line of a class session above the page: code and answers for who teaches, the way back for who follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from viz.components.registry import component, pack
from viz.components.view import Answer, PackedView, View, live
from viz.frame import class_view
from viz.i18n.catalogue import _, ngettext
from viz.pages.lessons import joining
from viz.pages.lessons.class_bars import bars
from viz.state.class_sessions import CLASS_SESSIONS, Seat, seat_of
from viz.state.permissions import LOCAL
from viz.state.session import Session, current_session
from viz.ui.parts import frame_of, harmless
from viz.ui.qr import code_data

if TYPE_CHECKING:
    from pandas import DataFrame

_class_strip = component("frame/class_strip")

KEY = class_view.STRIP


def strip(session: Session) -> View | None:
    """The line, where this window teaches or follows."""
    seat = seat_of(session)
    if seat is None:
        return None
    if seat.teaches:
        return PackedView(_class_strip, KEY, pack(teacher_header(seat)), {"names": on_names, "end": on_end})
    acts: dict[str, Answer | None] = {"follows": on_follows, "name": on_name, "end": on_end}
    return PackedView(_class_strip, KEY, pack(follower_header(session, seat)), acts)


def views(session: Session) -> list[View]:
    """What the channel sends of a class session."""
    line = strip(session)
    return [*([line] if line else []), *bars(session)]


def teacher_header(seat: Seat) -> dict[str, Any]:
    room, count = seat.room, CLASS_SESSIONS.following(seat.room)
    following = ngettext("{count} follows", "{count} follow", count) if count else _("nobody follows yet")
    host = urlsplit(seat.link).hostname if seat.link else ""
    local = _("This address is known on this machine alone: others need one under which the server is known to them.")
    return {
        "role": "teacher",
        "code": room.code,
        "link": seat.link,
        "local": local if host in LOCAL else "",
        "qr": code_data(seat.link),
        "sentence": following.format(count=count),
        "problem": "",
        "names_wanted": room.names_wanted,
        "names": sorted(room.names.values(), key=str.lower),
        "name": "",
        "csv": harmless(answer_table(seat)).to_csv(index=False) if room.answers else "",
        "words": {
            "title": _("Class session"),
            "code": _("Code and link"),
            "enter": _("Open this address, or enter the code on the page Lessons:"),
            "answers": _("Answers"),
            "names": _("Ask for names"),
            "about": _("Answers are counted without names. Who is asked may give one, or none."),
            "nobody": _("Nobody has given a name yet."),
            "csv": _("Save answers as CSV"),
            "none": _("There are no answers yet."),
            "end": _("End session"),
            "ending": _("All of it is forgotten at once: code, names, answers."),
            "end_csv": _("Save CSV and end"),
            "end_now": _("End"),
        },
    }


def follower_header(session: Session, seat: Seat) -> dict[str, Any]:
    room = seat.room
    visitor = room.visitors.get(session.token, "")
    sentence = _("You follow the teacher.") if seat.follows else _("You look around by yourself.")
    return {
        "role": "follower" if seat.follows else "alone",
        "code": room.code,
        "link": "",
        "local": "",
        "qr": None,
        "sentence": sentence,
        "problem": seat.problem if seat.follows else "",
        "names_wanted": room.names_wanted,
        "names": [],
        "name": room.names.get(visitor, ""),
        "csv": "",
        "words": {
            "title": _("Class session"),
            "back": _("Back to the teacher"),
            "leave": _("Leave"),
            "name": _("Your name, if you like"),
        },
    }


def answer_table(seat: Seat) -> DataFrame:
    """Answers of the class: how many each, or, where names were asked for, whose."""
    columns: dict[str, list[Any]] = {name: [] for name in ("lesson", "step", "question", "answer", "right")}
    last: list[Any] = []
    room = seat.room
    for answers in list(room.answers.values()):
        pairs = [(value, room.names.get(each, "")) for each, value in list(answers.first.items())]
        counts = [
            (value, sum(other == value for other, _name in pairs)) for value in sorted({each for each, _n in pairs})
        ]
        for value, more in sorted(pairs) if room.names_wanted else counts:
            known = answers.right is not None and bool(answers.options)
            cells = (answers.lesson, answers.step, answers.sentence, answers.words(value))
            for name, cell in zip(columns, (*cells, str(int(value) == answers.right) if known else ""), strict=True):
                columns[name].append(cell)
            last.append(more)
    return frame_of({**columns, ("name" if room.names_wanted else "count"): last})


@live
def on_names(wanted: bool) -> None:
    CLASS_SESSIONS.want_names(current_session(), bool(wanted))


@live
def on_end(_when: float) -> None:
    joining.end_here(current_session())


@live
def on_follows(follows: bool) -> None:
    CLASS_SESSIONS.follow(current_session(), bool(follows))


@live
def on_name(name: str) -> None:
    CLASS_SESSIONS.give_name(current_session(), str(name))
