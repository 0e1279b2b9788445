"""Class sessions: codes, who teaches and who follows, answers, names, and that nothing of them is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from model.runtime.memory import ledger
from viz.state import class_sessions
from viz.state.class_sessions import ALPHABET, LETTERS, MEMORY, Answers, ClassSessions, seat_of
from viz.state.permissions import seconds_kept
from viz.state.session import Session


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def classes(clock) -> Iterator[ClassSessions]:
    registry = ClassSessions(clock)
    yield registry
    for room in list(registry._rooms.values()):
        registry._end(room)


def visitor(browser: str = "") -> Session:
    session = Session()
    session.browser = browser
    return session


def question(*options: str, right: int | None = 0) -> Answers:
    return Answers("A lesson", 2, "Which?", options, right)


def test_a_code_is_six_letters_that_cannot_be_taken_for_another_and_carries_its_replica(classes, monkeypatch):
    code = classes.open(visitor()).room.code
    assert len(code) == LETTERS == 6
    assert set(code) <= set(ALPHABET)
    assert not set("0O1IL") & set(ALPHABET)
    monkeypatch.setenv("VITRINE_REPLICA", "2")
    assert classes.open(visitor()).room.code.startswith("2-")


def test_a_code_is_found_however_it_is_written_and_no_other_is(classes):
    room = classes.open(visitor()).room
    written = f" {room.code[:3].lower()}-{room.code[3:]} "
    assert classes.join(visitor(), written).room is room
    with pytest.raises(ValueError, match=r"no class session zzzzzz9 here.*another server"):
        classes.join(visitor(), "zzzzzz9")
    with pytest.raises(ValueError, match="no class session script here"):
        classes.join(visitor(), "<script>")


def test_codes_cannot_be_tried_without_end_and_the_right_one_is_refused_meanwhile(classes, clock):
    room, stranger = classes.open(visitor()).room, visitor("one browser")
    for number in range(class_sessions.TRIES):
        with pytest.raises(ValueError, match="no class session"):
            classes.join(stranger, f"AAAA{number}")
    with pytest.raises(ValueError, match="wait a minute"):
        classes.join(visitor("one browser"), room.code)
    classes.join(visitor("another"), room.code)
    for number in range(class_sessions.ALL_TRIES - class_sessions.TRIES):
        with pytest.raises(ValueError, match="no class session"):
            classes.join(visitor(f"browser {number}"), "AAAAAA")
    with pytest.raises(ValueError, match="wait a minute"):
        classes.join(visitor("the last"), room.code)
    clock.now += 61
    assert classes.join(stranger, room.code).room is room


def test_only_the_browser_that_began_it_teaches_again(classes):
    room = classes.open(visitor("teacher")).room
    assert classes.join(visitor("teacher"), room.code, teaches=True).teaches
    assert not classes.join(visitor("somebody"), room.code, teaches=True).teaches
    assert not classes.join(visitor(), room.code, teaches=True).teaches
    assert not classes.join(visitor("teacher"), room.code).teaches  # by the link that others use
    without_cookie = classes.open(visitor()).room
    assert not classes.join(visitor(), without_cookie.code, teaches=True).teaches


def test_who_follows_steers_nothing(classes):
    teacher, follower = visitor("teacher"), visitor("somebody")
    room = classes.open(teacher).room
    classes.join(follower, room.code)
    classes.want_names(follower, True)
    classes.put_question(follower, "key", question("a", "b"))
    classes.end(follower)
    assert not classes.publish(follower, lambda view: view)
    assert (room.names_wanted, room.answers, room.ended) == (False, {}, False)


def test_the_first_answer_counts_once_for_a_browser_and_only_one_that_can_be_given(classes):
    teacher, one, two, other = visitor("teacher"), visitor("one"), visitor("one"), visitor("other")
    room = classes.open(teacher).room
    for each in (one, two, other):
        classes.join(each, room.code)
    classes.answer(one, "key", 1)  # before it was put
    classes.put_question(teacher, "key", question("a", "b"))
    for each, answer in ((one, 1), (one, 0), (two, 0), (other, 2), (other, -1), (other, 0.5), (visitor(), 1)):
        classes.answer(each, "key", answer)
    classes.answer(teacher, "key", 0)
    assert room.answers["key"].counts() == [("a", 0), ("b", 1)]
    classes.put_question(teacher, "key", question("甲", "乙"))  # in another language: what was answered stays
    assert room.answers["key"].counts() == [("甲", 0), ("乙", 1)]
    classes.put_question(teacher, "number", question())
    classes.answer(other, "number", 2.5)
    assert room.answers["number"].counts() == [("2.5", 1)]


def test_a_question_about_each_text_that_the_teacher_types_keeps_no_later_one_out(classes, monkeypatch):
    monkeypatch.setattr(class_sessions, "MOST_QUESTIONS", 3)
    teacher, one = visitor("teacher"), visitor("one")
    room = classes.open(teacher).room
    classes.join(one, room.code)
    for text in ("T", "Th", "The", "The cat"):
        classes.put_question(teacher, text, question("a", "b"))
        classes.answer(one, "T", 1)
    classes.answer(one, "The cat", 0)
    assert list(room.answers) == ["T", "The", "The cat"]
    assert (room.question, room.answers["The cat"].counts()) == ("The cat", [("a", 1), ("b", 0)])


def test_names_are_asked_for_by_the_teacher_alone_are_plain_and_forgotten(classes):
    teacher, follower = visitor("teacher"), visitor("one")
    room = classes.open(teacher).room
    classes.join(follower, room.code)
    classes.give_name(follower, "Ada")
    assert room.names == {}
    classes.want_names(teacher, True)
    classes.give_name(follower, "  <b>Ada</b>\n\u202e\x00  " + "x" * 100)
    (name,) = room.names.values()
    assert name.startswith("<b>Ada</b> x")
    assert len(name) == class_sessions.NAME
    classes.want_names(teacher, False)
    assert room.names == {}


def test_nothing_is_left_of_it_after_its_end(classes):
    before = sum(each.size for each in ledger().promises)
    teacher, follower = visitor("teacher"), visitor("one")
    room = classes.open(teacher).room
    assert sum(each.size for each in ledger().promises) == before + MEMORY
    classes.join(follower, room.code)
    classes.put_question(teacher, "key", question("a", "b"))
    classes.answer(follower, "key", 1)
    woken = threading.Event()
    follower.channels.add(woken.set)
    classes.end(teacher)
    assert woken.is_set()
    assert (seat_of(teacher), seat_of(follower)) == (None, None)
    assert not room.answers | room.visitors | room.names
    assert room.view is None
    assert sum(each.size for each in ledger().promises) == before
    assert classes.counts() == (0, 0)
    with pytest.raises(ValueError, match="no class session"):
        classes.join(visitor(), room.code)


def test_it_ends_when_its_teacher_is_away_and_not_while_he_reloads(classes, clock):
    teacher = visitor("teacher")
    room = classes.open(teacher).room
    seat_of(teacher).had_channel = True  # and no window is left
    clock.now += seconds_kept() - 1
    classes.sweep()
    again = visitor("teacher")
    classes.join(again, room.code, teaches=True)
    clock.now += 2
    classes.sweep()
    assert not room.ended
    seat_of(again).had_channel = True
    clock.now += seconds_kept() + 1
    classes.sweep()
    assert room.ended


def test_there_are_only_so_many_sessions_and_so_many_who_follow(classes, monkeypatch):
    monkeypatch.setattr(class_sessions, "MOST_SESSIONS", 2)
    monkeypatch.setattr(class_sessions, "MOST_VISITORS", 2)
    rooms = [classes.open(visitor()).room for _ in range(2)]
    promised = len(ledger().promises)
    with pytest.raises(ValueError, match="holds 2 class sessions, and no more"):
        classes.open(visitor())
    assert len(ledger().promises) == promised
    there = [visitor(), visitor()]
    for each in there:
        classes.join(each, rooms[0].code)
    with pytest.raises(ValueError, match="2 follow this class session, and no more can"):
        classes.join(visitor(), rooms[0].code)
    classes.leave(there[0])
    assert classes.join(visitor(), rooms[0].code).room is rooms[0]


def test_a_window_has_one_place_and_counts_while_it_follows(classes):
    teacher, follower = visitor("teacher"), visitor("one")
    room, other = classes.open(teacher).room, classes.open(visitor()).room
    with pytest.raises(ValueError, match="End or leave"):
        classes.open(teacher)
    classes.join(follower, room.code)
    with pytest.raises(ValueError, match="End or leave"):
        classes.join(follower, other.code)
    assert classes.following(room) == 1
    classes.follow(follower, False)
    assert classes.following(room) == 0
    classes.follow(follower, True)
    seat_of(follower).had_channel = True  # its window is closed
    assert classes.following(room) == 0


def test_one_browser_teaches_only_a_few(classes):
    for _ in range(class_sessions.MOST_OWN):
        classes.open(visitor("teacher"))
    with pytest.raises(ValueError, match="teaches 3 class sessions already"):
        classes.open(visitor("teacher"))
    classes.open(visitor("another"))
    for _ in range(class_sessions.MOST_OWN + 1):
        classes.open(visitor())  # without a cookie nobody can be told from another
