"""Answers of a class to the question that is before it, as bars that grow while they come."""

from __future__ import annotations

from viz.components.registry import component, pack
from viz.components.view import PackedView, View
from viz.i18n.catalogue import _
from viz.state.class_sessions import CLASS_SESSIONS, seat_of
from viz.state.session import Session

_class_bars = component("pages/lessons/class_bars")

KEY = "class_bars"
MOST = 8  # bars: of more, those with most answers


def bars(session: Session) -> list[View]:
    """The bars, where this window teaches and a question is before the class."""
    seat = seat_of(session)
    if seat is None or not seat.teaches or (answers := seat.room.answers.get(seat.room.question)) is None:
        return []
    counts = answers.counts()
    if len(counts) > MOST:
        most = sorted(counts, key=lambda each: -each[1])[:MOST]
        counts = [each for each in counts if each in most and each[1]]
    total, following = len(answers.first), CLASS_SESSIONS.following(seat.room)
    words = _("{total} of {following} have answered").format(total=total, following=max(total, following))
    header = {"bars": [{"label": label, "count": count} for label, count in counts], "sentence": words}
    return [PackedView(_class_bars, KEY, pack(header))]
