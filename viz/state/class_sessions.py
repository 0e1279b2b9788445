"""Class sessions: a teacher's view that a class follows, and its answers. One registry of them, in memory alone."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from model.runtime.locks import Lock
from viz.i18n.catalogue import _
from viz.state.permissions import seconds_kept
from viz.state.session import SESSIONS, Session

if TYPE_CHECKING:
    from model.runtime.ledger import Reservation
    from viz.protocol import TeacherScreen
    from viz.state.snapshot import Snapshot

REPLICA = "VITRINE_REPLICA"  # in the environment: a replica's name for the proxy before it, which leads by it
ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"  # without what is read as another: I, L, O, 0, 1
LETTERS = 6  # of a code, beside the name of its replica
MOST_SESSIONS, MOST_OWN, MOST_VISITORS, MOST_QUESTIONS = 20, 3, 200, 200  # of them, of one browser; of each
TRIES, ALL_TRIES, WINDOW = 10, 120, 60.0  # codes in vain, of a visitor and of all, in so many seconds
NAME = 40  # letters of a name
MEMORY = 8 << 20  # bytes that a class session is promised
FRAMES = 2 << 20  # bytes of the pictures of one language that it keeps: larger ones each draws himself
BUSY = 2.0  # seconds after which another may draw for those of his language


@dataclass(frozen=True)
class Picture:
    """Bytes of a view, as everybody of one language sees it. live: clicks that the channel answers."""

    key: str
    data: bytes
    live: tuple[str, ...]


@dataclass(frozen=True)
class TeacherView:
    """What a teacher shows.

    number: grows with everything that he does. layout: with the page, the model and the choices. run: with what the
    script alone draws. soon: the last run that those who follow need at once; behind it only the texts are others, and
    their script can wait. at: when it was shown. parameters: of the address. choices, fields: of controls, by their
    keys. snapshot: model, texts, their trace, what is chosen. pictures: by language.
    """

    number: int
    layout: int
    run: int
    soon: int
    page: str
    model: str
    parameters: Mapping[str, str]
    choices: Mapping[str, str]
    fields: Mapping[str, Any]
    snapshot: Snapshot
    pictures: Mapping[str, Mapping[str, Picture]] = field(default_factory=dict, repr=False)
    at: float = field(default_factory=time.monotonic)


@dataclass
class Answers:
    """First answers to one question: the number of an option, or a number, by visitor.

    lesson, step, sentence, options, right: as the teacher reads them; no option: a number is answered.
    """

    lesson: str
    step: int
    sentence: str
    options: tuple[str, ...]
    right: int | None
    first: dict[str, float] = field(default_factory=dict)

    def counts(self) -> list[tuple[str, int]]:
        """How often each option was chosen, or each number given, the smallest first."""
        count = Counter(self.first.values())
        if self.options:
            return [(option, count[place]) for place, option in enumerate(self.options)]
        return [(f"{value:g}", count[value]) for value in sorted(count)]

    def words(self, answer: float) -> str:
        """An answer as it is read."""
        return self.options[int(answer)] if self.options else f"{answer:g}"


@dataclass(eq=False)
class ClassSession:
    """A class session. owner: secret of the teacher's browser; empty where it has none. visitors: who has joined, by
    the tokens of their sessions: the hash of a browser, or the token again. answers: by question. news: grows with what
    the teacher is told, `changes` with what the visitors are. leader: token of the teacher's session that leads.
    screen: what its browser alone knows.
    """

    code: str
    owner: str
    promise: Reservation
    leader: str = ""
    view: TeacherView | None = None
    screen: TeacherScreen | None = None
    names_wanted: bool = False
    names: dict[str, str] = field(default_factory=dict)
    visitors: dict[str, str] = field(default_factory=dict)
    answers: dict[Hashable, Answers] = field(default_factory=dict)
    question: Hashable = None
    news: int = 0
    changes: int = 0
    ended: bool = False
    present: float = field(default_factory=time.monotonic)
    drawing: dict[str, tuple[int, float]] = field(default_factory=dict)  # by language: of which view, since when


@dataclass
class Seat:
    """Place of a session in a class session. run, layout, texts: of the teacher's view, that its script has drawn.
    drawn: what the run of the script that goes on is of; at a teacher, what the last one was of. problem: why the
    teacher's view cannot be shown here. link: by which others join. had_channel: its window has been seen, and may have
    gone. own_run: key of the training that is put away while a teacher's is watched.
    """

    room: ClassSession
    teaches: bool
    follows: bool = True
    run: int = 0
    layout: int = 0
    texts: tuple[str | None, ...] = ()
    drawn: Any = None
    problem: str = ""
    link: str = ""
    had_channel: bool = False
    own_run: str = ""


class ClassSessions:
    """Class sessions of this process, by their codes; from any thread. Its lock is held for a moment."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._rooms: dict[str, ClassSession] = {}
        self._lock, self._clock = Lock("class sessions"), clock
        self._tries: deque[tuple[float, str]] = deque(maxlen=ALL_TRIES)

    # Beginning and joining.

    def open(self, session: Session) -> Seat:
        """A new class session, which this session teaches.

        Raises:
            ValueError: it leads or follows one already, or there are as many as may be, or no memory for another.
        """
        from model.runtime.memory import ledger

        if seat_of(session) is not None:
            raise ValueError(_("End or leave the class session of this window first."))
        with self._lock:
            own = sum(room.owner == session.browser != "" for room in self._rooms.values())
        if own >= MOST_OWN:
            sentence = _("This browser teaches {count} class sessions already: end one of them first.")
            raise ValueError(sentence.format(count=own))
        promise = ledger().reserve("a class session", MEMORY)
        with self._lock:
            if len(self._rooms) < MOST_SESSIONS:
                room = ClassSession(self._new_code(), session.browser, promise, session.token, present=self._clock())
                self._rooms[spoken(room.code)] = room
                session.seat = seat = Seat(room, teaches=True)
                return seat
        promise.release()
        sentence = _("This server holds {count} class sessions, and no more: end one of them, or come again later.")
        raise ValueError(sentence.format(count=MOST_SESSIONS))

    def join(self, session: Session, code: str, teaches: bool = False) -> Seat:
        """A place in the class session of this code. teaches: in the teacher's own, where his browser comes back.

        Raises:
            ValueError: there is none with this code, it is full, or too many codes were tried.
        """
        visitor = session.browser or session.token
        with self._lock:
            self._require_few_tries(visitor)
            room = self._rooms.get(spoken(code))
            if room is None:
                self._tries.append((self._clock(), visitor))
                raise ValueError(unknown(code))
            if seat_of(session) is not None and session.seat.room is not room:
                raise ValueError(_("End or leave the class session of this window first."))
            if teaches and room.owner and room.owner == session.browser:
                session.seat = seat = Seat(room, teaches=True)
                return seat
            if len(room.visitors) >= MOST_VISITORS and session.token not in room.visitors:
                self._drop_gone(room)
            if len(room.visitors) >= MOST_VISITORS and session.token not in room.visitors:
                raise ValueError(_("{count} follow this class session, and no more can.").format(count=MOST_VISITORS))
            room.visitors[session.token] = visitor if session.browser else session.token
            room.news += 1
            session.seat = seat = Seat(room, teaches=False)
            return seat

    def _new_code(self) -> str:
        before = f"{replica_name()}-" if replica_name() else ""
        while True:
            code = before + "".join(secrets.choice(ALPHABET) for _letter in range(LETTERS))
            if spoken(code) not in self._rooms:
                return code

    def _require_few_tries(self, visitor: str) -> None:
        since = self._clock() - WINDOW
        while self._tries and self._tries[0][0] < since:
            self._tries.popleft()
        if len(self._tries) >= ALL_TRIES or sum(each == visitor for _when, each in self._tries) >= TRIES:
            raise ValueError(_("Too many codes were tried in vain: wait a minute, then try again."))

    @staticmethod
    def _drop_gone(room: ClassSession) -> None:
        for token in [token for token in room.visitors if token not in SESSIONS]:
            del room.visitors[token]

    # What a teacher does.

    def publish(self, session: Session, view: Callable[[TeacherView | None], TeacherView | None]) -> bool:
        """Show a teacher's view to those who follow. view: the new one, given the one of before; None: none."""
        seat = seat_of(session)
        if seat is None or not seat.teaches:
            return False
        with self._lock:
            changed = view(seat.room.view)
            if changed is None or seat.room.ended:
                return False
            seat.room.view, seat.room.leader = changed, session.token
        wake(seat.room)
        return True

    def put_screen(self, session: Session, screen: TeacherScreen) -> None:
        """Show those who follow what the leading window of the teacher presents, and where it points; the newest
        counts.
        """
        seat = seat_of(session)
        if seat is None or not seat.teaches:
            return
        with self._lock:
            if seat.room.ended or (seat.room.leader != session.token and is_open(seat.room.leader)):
                return
            seat.room.screen, seat.room.leader = screen, session.token
        wake(seat.room)

    def put_question(self, session: Session, key: Hashable, answers: Answers) -> None:
        """A question is before the class: its answers count from now on."""
        seat = seat_of(session)
        if seat is None or not seat.teaches:
            return
        with self._lock:
            room = seat.room
            before = room.answers.get(key)
            if before is None and len(room.answers) >= MOST_QUESTIONS:
                unanswered = (each for each, known in room.answers.items() if not known.first)
                del room.answers[next(unanswered, next(iter(room.answers)))]
            room.answers[key] = answers if before is None else replace(answers, first=before.first)
            room.question = key

    def want_names(self, session: Session, wanted: bool) -> None:
        """Ask who follows for a name, or do so no more and forget them."""
        seat = seat_of(session)
        if seat is None or not seat.teaches:
            return
        with self._lock:
            seat.room.names_wanted = wanted
            if not wanted:
                seat.room.names.clear()
            seat.room.news += 1
            seat.room.changes += 1
        wake(seat.room)

    def end(self, session: Session) -> None:
        """End the class session that this session teaches; nothing of it is left."""
        seat = seat_of(session)
        if seat is not None and seat.teaches:
            self._end(seat.room)
            session.seat = None

    def _end(self, room: ClassSession) -> None:
        with self._lock:
            self._rooms.pop(spoken(room.code), None)
            room.ended, room.view, room.screen, room.question = True, None, None, None
            room.changes += 1
            tokens = list(room.visitors)
            for each in (room.names, room.answers, room.visitors, room.drawing):
                each.clear()
        room.promise.release()
        wake(room, tokens)

    # What those who follow do.

    def answer(self, session: Session, key: Hashable, answer: float) -> None:
        """The first answer of a visitor to a question that is before the class."""
        seat = seat_of(session)
        if seat is None or seat.teaches:
            return
        with self._lock:
            room, visitor = seat.room, seat.room.visitors.get(session.token)
            answers = room.answers.get(key)
            if answers is None or visitor is None or visitor in answers.first:
                return
            if answers.options and not (answer == int(answer) and 0 <= answer < len(answers.options)):
                return
            answers.first[visitor] = answer
            room.news += 1
        wake_leader(room)

    def give_name(self, session: Session, name: str) -> None:
        """A name for the teacher's list, where he asks for names; empty: none."""
        seat = seat_of(session)
        if seat is None or seat.teaches:
            return
        clean = " ".join("".join(each if each.isprintable() else " " for each in str(name)).split())[:NAME]
        with self._lock:
            visitor = seat.room.visitors.get(session.token)
            if visitor is None or not seat.room.names_wanted:
                return
            if clean:
                seat.room.names[visitor] = clean
            else:
                seat.room.names.pop(visitor, None)
            seat.room.news += 1
        wake_leader(seat.room)

    def follow(self, session: Session, follows: bool) -> None:
        """Follow the teacher again, or look around alone."""
        seat = seat_of(session)
        if seat is None or seat.teaches or seat.follows == follows:
            return
        with self._lock:
            seat.follows, seat.run, seat.layout = follows, 0, 0
            seat.room.news += 1
            seat.room.changes += 1
        session.wake()
        wake_leader(seat.room)

    def leave(self, session: Session) -> None:
        """Give a visitor's place back."""
        seat = seat_of(session)
        if seat is None or seat.teaches:
            return
        with self._lock:
            seat.room.visitors.pop(session.token, None)
            seat.room.news += 1
        session.seat = None
        wake_leader(seat.room)

    def claim(self, room: ClassSession, language: str, number: int) -> bool:
        """True for one session of a language: it draws this view for all of that language."""
        with self._lock:
            before, since = room.drawing.get(language, (0, 0.0))
            if before == number and self._clock() - since < BUSY:
                return False
            room.drawing[language] = number, self._clock()
            return True

    def share(self, room: ClassSession, language: str, number: int, pictures: Mapping[str, Picture]) -> None:
        """Pictures of one more language for a view, if it is still the one that is shown."""
        with self._lock:
            view = room.view
            if view is None or view.number != number:
                return
            room.view = replace(view, pictures={**view.pictures, language: pictures})
        wake(room)

    # Counting, and the end of what nobody leads.

    def following(self, room: ClassSession) -> int:
        """Number of visitors who follow now, each browser once."""
        with self._lock:
            visitors = dict(room.visitors)
        return len({visitor for token, visitor in visitors.items() if is_following(token, room)})

    def count_again(self, room: ClassSession) -> None:
        """A window has come or gone: the teacher is told how many follow."""
        with self._lock:
            room.news += 1
        wake_leader(room)

    def sweep(self) -> None:
        """End class sessions whose teacher has been away for as long as uploads are kept. On the event loop."""
        with self._lock:
            rooms, now = list(self._rooms.values()), self._clock()
        teachers = {
            id(seat.room)
            for each in SESSIONS.valuerefs()
            if (session := each()) is not None and (seat := seat_of(session)) is not None and seat.teaches
            if session.channels or not seat.had_channel
        }
        for room in rooms:
            if id(room) in teachers:
                room.present = now
            elif now - room.present > seconds_kept():
                self._end(room)

    def counts(self) -> tuple[int, int]:
        """Number of class sessions, and of those who have joined them."""
        with self._lock:
            return len(self._rooms), sum(len(room.visitors) for room in self._rooms.values())


def seat_of(session: Session) -> Seat | None:
    """Place of a session in a class session that goes on."""
    seat: Seat | None = session.seat
    return None if seat is None or seat.room.ended else seat


def is_following(token: str, room: ClassSession) -> bool:
    session = SESSIONS.get(token)
    seat = session.seat if session is not None else None
    if session is None or seat is None or seat.room is not room or not seat.follows:
        return False
    return bool(session.channels) or not seat.had_channel


def is_open(token: str) -> bool:
    """True if the session of this token has a window."""
    session = SESSIONS.get(token)
    return session is not None and bool(session.channels)


def spoken(code: str) -> str:
    """A code as it is looked up: capitals do not matter, nor what stands between letters."""
    return "".join(each for each in code.upper() if each.isalnum())[:80]


def replica_name() -> str:
    """Name of this replica, as codes begin with it; empty where it has none, or none that a code can have."""
    name = os.environ.get(REPLICA, "").strip()
    return name if re.fullmatch(r"[a-zA-Z0-9]+", name) else ""


def replica_code(code: str) -> str:
    """A code that begins with the name of another replica, as a link has it; empty where it does not."""
    letters = spoken(code)
    name, rest = letters[:-LETTERS], letters[-LETTERS:]
    elsewhere = replica_name() and name and name != replica_name().upper() and set(rest) <= set(ALPHABET)
    return f"{name}-{rest}" if elsewhere and re.fullmatch(r"[A-Z0-9]{1,20}", name) else ""


def unknown(code: str) -> str:
    """Sentence on a code that leads nowhere."""
    sentence = _("There is no class session {code} here: it has ended, or another server holds it. Ask for its link.")
    return sentence.format(code="".join(each for each in code if each.isalnum() or each == "-")[:20] or "–")


def size_of(pictures: Mapping[str, Picture]) -> int:
    return sum(len(each.data) for each in pictures.values())


def wake(room: ClassSession, tokens: list[str] | None = None) -> None:
    """Have the windows of those who have joined look at what there is to do. tokens: of their sessions."""
    for token in tokens if tokens is not None else list(room.visitors):
        if (session := SESSIONS.get(token)) is not None:
            session.wake()


def wake_leader(room: ClassSession) -> None:
    if (session := SESSIONS.get(room.leader)) is not None:
        session.wake()


CLASS_SESSIONS = ClassSessions()
