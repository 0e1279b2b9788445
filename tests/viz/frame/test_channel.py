"""The channel: what a window says to it, what comes back, and that nothing which a window does harms another."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn

import viz.state.session
from model.analysis import checks
from model.capture.trace import Trace
from model.inference.text_model import TextModel
from tests.viz.frame.window import PATIENCE, Window, in_loop, open_window, opened
from tests.viz.small import looking, small_model
from tests.viz.test_jobs import Work
from viz.components.progress import progress
from viz.components.registry import pack
from viz.components.view import PackedView, View, live
from viz.frame import channel
from viz.frame.page_layout import PageLayout
from viz.state.session import SESSIONS, Key, Session, current_session
from viz.ui.job_view import LiveRegion, job_bar
from viz.ui.parts import Drawing

TEXT, OTHER, THIRD = "The cat sees.", "The dog", "The doctor sees the"
EVERY = {"source", "target", "near", "far", "still", "tokens"}


def view(key: str, acts: dict[str, Any] | None = None, **data: Any) -> tuple[Any, PackedView]:
    return None, PackedView(lambda **_given: None, key, pack(data), acts or {})


def views(_model: Any) -> Drawing:
    """Two groups of views, one of which is the same for every text."""
    session = current_session()
    yield [view("near", {"marked": of_session, "plain": select_third}, tokens=session.trace.source_tokens)]
    yield [view("far", tokens=session.trace.target_tokens), view("still")]
    return None


def select_third(_clicked: Any) -> None:
    current_session().select(query=3)


@live
def of_session(clicked: dict[str, Any]) -> None:
    current_session().select(query=int(clicked["position"]))


class Gate:
    """Holds each call of a function at its beginning, until it is told to let it go."""

    def __init__(self) -> None:
        self._reached, self._open = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, *_given: Any) -> None:
        self._reached.release()
        assert self._open.acquire(timeout=PATIENCE)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.acquire, timeout=PATIENCE)

    def open(self) -> None:
        self._open.release()


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> TextModel:
    return small_model(tmp_path_factory.mktemp("checkpoints") / "small")


@pytest.fixture
def session(model) -> Session:
    session = looking(model, TEXT)
    session.stage = PageLayout(session.model, False, views, "en")
    return session


@pytest.fixture
def in_view(session) -> Gate:
    """In front of the first view: the text has been traced then."""
    gate = Gate()

    def held(model: Any) -> Drawing:
        gate()
        return (yield from views(model))

    session.stage = PageLayout(session.model, False, held, "en")
    return gate


@pytest.fixture
def in_layer(session) -> Iterator[Gate]:
    """Behind the encoder's first layer, which a text goes through once."""
    gate = Gate()
    hook = layers(session)[0].register_forward_hook(gate)
    yield gate
    hook.remove()


@pytest.fixture
def looks_often(monkeypatch) -> None:
    monkeypatch.setattr(channel, "PACE", 0.005)
    monkeypatch.setattr(channel, "REST", 0.02)


@pytest.fixture
def busy(monkeypatch) -> Callable[[], threading.Event]:
    """Gives every thread of the pool something to do, until an event is set; waiting is said soon."""
    monkeypatch.setattr(channel, "NOTICED", 0.01)

    def begun() -> threading.Event:
        done = threading.Event()
        for _ in range(channel.POOL_SIZE):
            channel.POOL.submit(done.wait, PATIENCE)
        return done

    return begun


def layers(session: Session) -> nn.ModuleList:
    found: nn.ModuleList = session.model.network.encoder.layers  # type: ignore[assignment, union-attr]
    return found


def type_in(window: Window, text: str, edit: int) -> None:
    window.say(type=Key.SOURCE, text=text, edit=edit)


def labels(session: Session, text: str) -> list[str]:
    return session.model.source_tokens(text).labels


# Who is let in.


@pytest.mark.parametrize("token", ["", "no session", None, 5, ["no session"]])
def test_a_token_of_no_session_is_told_that_it_is_gone(token):
    async def use() -> None:
        async with opened() as window:
            window.say(token=token)
            await window.end()
            assert (window.greeted, window.closed) == (False, 4401)

    assert in_loop(use) == []


@pytest.mark.usefixtures("looks_often")
@pytest.mark.parametrize("late", [[], ['{"seen": 0}']], ids=["silent", "saying"])
def test_a_channel_ends_with_its_session_and_does_not_keep_it(late):
    """A message may be on its way meanwhile."""
    gc.collect()
    count, sessions = len(SESSIONS), [Session()]

    async def use() -> None:
        async with opened(sessions[0].token) as window:
            window.on_its_way = late
            await asyncio.sleep(0.05)  # some looks
            assert window.closed is None
            sessions.clear()
            gc.collect()
            assert len(SESSIONS) == count
            await window.end()
            assert window.closed == 4401

    assert in_loop(use) == []


@pytest.mark.parametrize("said", [True, False], ids=["does not read", "says nothing"])
def test_a_window_is_let_go_that_does_not_do_its_part(session, monkeypatch, said):
    monkeypatch.setattr(channel, "PATIENCE", 0.02)

    async def use() -> None:
        async with opened(session.token if said else None) as window:
            window.reads.clear()
            await window.end()
            assert window.closed == 1008

    assert in_loop(use) == []


# What is typed.


def test_what_is_typed_comes_back_as_every_view_of_it(session):
    session.followed = {"near", "far", "still", "absent"}  # of the text before

    async def use(window: Window) -> None:
        type_in(window, OTHER, 3)
        message = await window.message()
        assert (message["number"], message["edits"]) == (1, {"source": 3})
        assert (message["more"], message["moved"], message["gone"]) == (False, False, ["absent"])
        shown = message["views"]
        assert set(shown) == EVERY
        assert shown["near"]["tokens"] == labels(session, OTHER)
        assert [each["label"] for each in shown["tokens"]["source"]] == labels(session, OTHER)
        assert (shown["source"]["text"], shown["source"]["edit"]) == (OTHER, 3)
        assert shown["target"]["placeholder"] == session.model.generate(OTHER).text
        window.say(type=Key.TARGET, text="一", edit=1)
        message = await window.message()
        assert message["edits"] == {"source": 3, "target": 1}
        assert message["views"]["far"]["tokens"] == session.trace.target_tokens == ["<s>", "一"]

    assert open_window(session, use) == []


def test_of_a_long_text_what_is_nearest_to_the_eyes_comes_first(session, monkeypatch):
    monkeypatch.setattr(viz.state.session, "LONG", 5)
    session.followed = {"near", "far", "still", "absent"}

    async def use(window: Window) -> None:
        type_in(window, OTHER, 1)
        messages = [await window.message() for _ in range(4)]
        first, *rest = (set(each["views"]) for each in messages)
        assert first == {"source", "target", "tokens", "near"}
        assert rest == [{"far", "still"}, set(), {"tokens"}]
        assert [(each["number"], each["more"]) for each in messages] == [(1, True), (2, True), (3, False), (4, False)]
        assert [each["gone"] for each in messages] == [[], [], ["absent"], None]
        assert all(each["edits"] == {"source": 1} for each in messages)

    assert open_window(session, use) == []


def test_a_view_whose_bytes_did_not_change_is_not_sent_again(session):
    async def use(window: Window) -> None:
        type_in(window, OTHER, 1)
        assert set((await window.message())["views"]) == EVERY
        type_in(window, THIRD, 2)
        assert "still" not in (await window.message())["views"]
        type_in(window, THIRD, 3)
        assert set((await window.message())["views"]) == {"source"}  # it says of which edit it is
        window.say(answer="near", name="marked", value={"position": 1})
        assert (await window.message())["views"] == {}  # which is waited for all the same

    assert open_window(session, use) == []


def test_of_many_texts_that_come_in_one_turn_the_newest_is_drawn(session, in_view):
    async def use(window: Window) -> None:
        type_in(window, OTHER, 1)
        await in_view.reached()
        for end in range(1, len(THIRD) + 1):
            type_in(window, THIRD[:end], 1 + end)
        window.say(type=Key.TARGET, text="一", edit=1)
        in_view.open()
        assert (await window.message())["edits"] == {"source": 1}
        in_view.open()
        message = await window.message()
        assert message["edits"] == {"source": 1 + len(THIRD), "target": 1}
        assert message["views"]["near"]["tokens"] == labels(session, THIRD)

    assert open_window(session, use) == []


def test_what_is_out_of_date_is_given_up_at_its_next_layer_and_what_follows_it_is_finished(session, in_layer):
    """Else nothing would be drawn while somebody types faster than a text is computed."""
    beyond: list[Any] = []
    hook = layers(session)[1].register_forward_hook(lambda *given: beyond.append(given))

    async def use(window: Window) -> None:
        type_in(window, OTHER, 1)
        await in_layer.reached()
        type_in(window, THIRD, 2)
        await window.heard()
        in_layer.open()
        await in_layer.reached()
        assert beyond == []
        type_in(window, "The", 3)
        await window.heard()
        in_layer.open()
        message = await window.message()
        assert (message["edits"], message["views"]["near"]["tokens"]) == ({"source": 2}, labels(session, THIRD))
        await in_layer.reached()
        type_in(window, "The cat", 4)
        await window.heard()
        in_layer.open()  # one was finished: the next one may be given up again
        await in_layer.reached()
        assert len(beyond) == 1
        in_layer.open()
        message = await window.message()
        assert (message["edits"], message["views"]["near"]["tokens"]) == ({"source": 4}, labels(session, "The cat"))

    assert open_window(session, use) == []
    hook.remove()


def test_an_older_edit_than_the_sessions_is_not_taken(session):
    session.texts.typed[Key.SOURCE], session.texts.edits[Key.SOURCE] = THIRD, 5  # the script was faster

    async def use(window: Window) -> None:
        for text, edit, now in ((OTHER, 4, THIRD), (OTHER, 6, OTHER), (THIRD, 5, OTHER)):
            type_in(window, text, edit)
            message = await window.message()
            assert message["edits"] == {"source": max(5, edit, session.texts.edits[Key.SOURCE])}
            assert session.texts.typed[Key.SOURCE] == now
            assert session.trace.source_tokens == labels(session, now)

    assert open_window(session, use) == []


@pytest.mark.usefixtures("looks_often")
def test_what_is_typed_before_a_page_is_there_is_drawn_once_it_is(session):
    session.stage, stage = None, session.stage

    async def use(window: Window) -> None:
        type_in(window, OTHER, 1)
        await asyncio.sleep(0.05)  # some looks
        assert not window.has_message
        session.stage = stage
        assert (await window.message())["views"]["source"]["text"] == OTHER

    assert open_window(session, use) == []


@pytest.mark.usefixtures("looks_often")
def test_a_session_without_a_page_is_looked_at_seldom(session, monkeypatch):
    monkeypatch.setattr(channel, "REST", PATIENCE)
    turns: list[Any] = []
    turn = channel.Window._turn
    monkeypatch.setattr(channel.Window, "_turn", lambda *given: turns.append(given) or turn(*given))
    session.stage = None

    async def use(window: Window) -> None:
        window.say(visible=[])
        await asyncio.sleep(0.1)

    assert open_window(session, use) == []
    assert len(turns) <= 2


def test_what_is_typed_into_no_field_is_not_kept(session):
    async def use(window: Window) -> None:
        for key in (Key.LANGUAGE, "", None, {}):
            window.say(type=key, text="zh", edit=1)
        type_in(window, OTHER, 1)
        assert (await window.message())["edits"] == session.texts.edits == {"source": 1}
        assert session.texts.typed == {"source": OTHER}

    assert open_window(session, use) == []


def test_each_session_is_drawn_in_its_language(session, monkeypatch):
    monkeypatch.setattr(channel, "POOL_SIZE", 1)  # by the same thread
    other = looking(session.model, TEXT)
    other.stage = PageLayout(session.model, False, views, "zh")

    async def use() -> None:
        async with opened(session.token) as one, opened(other.token) as two:
            for edit, (window, label) in enumerate(((one, "Source"), (two, "原文"), (one, "Source")), 1):
                type_in(window, OTHER, edit)
                assert (await window.view("source"))["label"] == label

    assert in_loop(use) == []


# Clicks.


def test_a_click_is_answered_where_the_view_says_that_the_channel_does(session, caplog):
    async def use(window: Window) -> None:
        type_in(window, OTHER, 1)
        await window.message()
        for key, name in (("near", "plain"), ("near", "none"), ("none", "marked")):
            window.say(answer=key, name=name, value={"position": 2})
            assert (await window.message())["views"] == {}
            assert session.selection.query == 0
        window.say(answer="near", name="marked", value={"position": 2})
        assert "number" in await window.message()
        assert session.selection.query == 2
        window.say(answer="tokens", name="pin", value="keep")
        kept = (await window.view("tokens"))["pin"]["pinned"]
        assert kept["text"] == OTHER

    assert open_window(session, use) == []
    assert not caplog.records


NONSENSE = [None, True, -1, 10**30, 0.5, float("nan"), float("inf"), "", "keep it", [], [1], {}, {"position": None}]
NONSENSE += [{"side": "target"}, {"side": "target", "position": []}, {"side": "target", "position": float("inf")}]
NONSENSE += [{"number": 0, "token": 3}, {"number": "x", "token": {}}]


@pytest.mark.parametrize("value", NONSENSE, ids=str)
def test_a_click_that_means_nothing_changes_nothing(session, caplog, value):
    """As one on what another text has replaced, or of somebody who writes messages himself."""

    async def use(window: Window) -> None:
        type_in(window, OTHER, 1)
        await window.message()
        for name in ("token", "pin", "guess"):
            window.say(answer="tokens", name=name, value=value)
            assert (await window.message())["views"] == {}
        window.say(answer="tokens", name="pin")
        assert (await window.message())["views"] == {}
        assert session.pin is None
        assert session.selection.query == 0
        type_in(window, THIRD, 2)
        assert (await window.view("near"))["tokens"] == labels(session, THIRD)

    assert open_window(session, use) == []
    assert not caplog.records


def test_of_very_many_clicks_in_one_turn_the_first_ones_are_answered(session, in_view):
    clicks: list[Any] = []

    @live
    def count(clicked: Any) -> None:
        clicks.append(clicked)

    _place, session.views["counted"] = view("counted", {"click": count})

    async def use(window: Window) -> None:
        type_in(window, OTHER, 1)
        await in_view.reached()
        for number in range(2 * channel.MOST_CLICKS):
            window.say(answer="counted", name="click", value=number)
        await window.heard()
        in_view.open()
        await window.message()
        in_view.open()
        await window.message()

    assert open_window(session, use) == []
    assert clicks == list(range(channel.MOST_CLICKS))


# What goes wrong.


def test_where_the_model_cannot_read_a_text_the_script_is_asked_once_to_say_so(session, monkeypatch, caplog):
    look = Session.trace_input

    def picky(self: Session, model: Any, source: str, target: str, **more: Any) -> Any:
        if "?" in source:
            raise ValueError("not this one")
        return look(self, model, source, target, **more)

    monkeypatch.setattr(Session, "trace_input", picky)

    async def use(window: Window) -> None:
        for edit, (text, asked) in enumerate((("What?", True), ("Why?", False), (OTHER, False), ("How?", True)), 1):
            session.runs += edit == 4  # until it has run, it will find what is typed
            type_in(window, text, edit)
            message = await window.message()
            assert (message["edits"], bool(message["views"])) == ({"source": edit}, text == OTHER)
            if asked:
                assert await window.message() == {"script": True}

    assert open_window(session, use) == []
    assert not caplog.records


def test_what_nobody_expected_is_logged_and_the_script_shows_what_it_can(session, caplog):
    stage = session.stage

    def broken(_model: Any) -> Drawing:
        yield [view("near")]
        raise RuntimeError("a defect")

    session.stage = PageLayout(session.model, False, broken, "en")

    async def use(window: Window) -> None:
        type_in(window, OTHER, 1)
        assert (await window.message())["views"] == {}
        assert await window.message() == {"script": True}
        session.stage = stage
        type_in(window, THIRD, 2)
        assert (await window.message())["edits"] == {"source": 2}

    assert open_window(session, use) == []
    (record,) = caplog.records
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "a defect"


MALFORMED = ["", "no JSON", "[1]", "5", "null", '"type"', "[" * 100_000]
INCOMPLETE = [
    '{"type": "source"}',
    '{"type": "source", "text": "The", "edit": null}',
    '{"type": "source", "text": "The", "edit": Infinity}',
    '{"answer": "tokens"}',
    '{"seen": null}',
    '{"visible": 5}',
]


@pytest.mark.parametrize("text", MALFORMED + INCOMPLETE, ids=lambda text: text[:50])
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_what_is_no_message_ends_the_channel_in_silence(session, caplog, text, first):
    async def use() -> None:
        async with opened(None if first else session.token) as window:
            window.say_raw(text)
            type_in(window, OTHER, 1)
            await window.end()
            assert window.closed == 1008

    assert in_loop(use) == []
    assert not caplog.records


def test_a_message_that_is_too_long_closes_the_channel(session, monkeypatch):
    monkeypatch.setattr(channel, "LONGEST", 1000)

    async def use(window: Window) -> None:
        window.say_raw('{"type": "source", "text": "The", "edit": 1}'.ljust(1000))
        assert (await window.message())["edits"] == {"source": 1}
        window.say_raw('{"type": "source", "text": "The", "edit": 2}'.ljust(1001))
        await window.end()
        assert (window.closed, session.texts.edits) == (1009, {"source": 1})

    assert open_window(session, use) == []


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_a_window_that_goes_while_it_is_drawn_for_is_let_go_in_silence(session, in_view, caplog, known):
    """Its connection may break before the channel has learnt of it."""

    async def use(window: Window) -> None:
        type_in(window, OTHER, 1)
        await in_view.reached()
        window.gone = True
        if known:
            window.go()
            await window.end()
        in_view.open()
        await asyncio.to_thread(turned, session)

    assert open_window(session, use) == []
    assert not caplog.records


@pytest.mark.parametrize("words", [{"hidden": True}, {"type": "source", "text": OTHER, "edit": 1}], ids=list)
def test_a_window_that_says_a_last_word_is_let_go(session, words):
    """As each does that is closed: it is hidden before."""

    async def use() -> None:
        for _ in range(10):
            async with opened(session.token) as window:
                await asyncio.sleep(0.001)
                window.say(**words)
                window.go()
                await asyncio.wait([window.serving], timeout=PATIENCE)

    assert in_loop(use) == []
    assert not session.channels


def turned(session: Session) -> None:
    """Wait for the end of the turn that is being taken."""
    with session.lock:
        pass


def test_a_window_that_goes_while_it_waits_is_let_go_in_silence(session, busy, caplog):
    async def use(window: Window) -> None:
        done = busy()
        type_in(window, OTHER, 1)
        assert "waiting" in await window.message()
        window.go()
        await window.end()
        done.set()

    assert open_window(session, use) == []
    assert not caplog.records
    assert not channel.Window.queue


# What goes on beside the page.


@pytest.fixture
def measuring(session, monkeypatch) -> SimpleNamespace:
    """Something that is measured, with a bar that is another at each look."""
    monkeypatch.setattr(channel, "WATCH_REST", 0.005)
    found = SimpleNamespace(looks=0, finished=False)

    def bars() -> list[View]:
        found.looks += 1
        return [progress("bar", None, f"look {found.looks}")]

    session.live_regions = [LiveRegion(lambda: found.finished, False, bars)]
    return found


def test_what_is_measured_is_sent_as_it_goes_on_and_the_script_asked_when_it_has_ended(session, measuring):
    async def use(window: Window) -> None:
        for look in (1, 2, 3):
            message = await window.message()
            assert message["views"]["bar"]["text"] == f"look {look}"
            assert (message["gone"], message["moved"]) == (None, False)  # what is painted is of the same text
        measuring.finished = True
        await window.script()

    session.wake()  # nobody is there
    assert open_window(session, use) == []


@pytest.mark.parametrize("stands", [None, 5], ids=["a step ago", "now"])
def test_what_the_script_drew_is_old_where_a_training_has_gone_on_since_and_not_where_another_view_is_seen(
    session, monkeypatch, stands
):
    live = SimpleNamespace(snapshot=SimpleNamespace(status="paused"))
    found = SimpleNamespace(training=lambda _session: live, is_moving=lambda _live: False, standing=lambda _live: 5)
    monkeypatch.setattr(channel, "training", found)
    monkeypatch.setattr(channel.training_strip, "strip", lambda *_given: view("strip")[1])
    session.stage = PageLayout(session.model, True, views, "en")
    session.training.drawn_state = stands

    async def use(window: Window) -> None:
        window.say(visible=["near"])
        while "near" not in (message := await window.message()).get("views", {}):
            pass
        assert message["moved"] is (stands is None)

    assert open_window(session, use) == []


def test_a_hidden_window_is_sent_nothing_of_it_and_it_goes_on(session, measuring, monkeypatch):
    monkeypatch.setattr(channel, "REST", 0.005)

    async def use(window: Window) -> None:
        window.say(hidden=True)
        await window.heard()
        while window.has_message:  # of before
            await window.message()
        before = measuring.looks
        while measuring.looks < before + 3:
            await asyncio.sleep(0.005)
        assert not window.has_message

    assert open_window(session, use) == []


def test_what_begins_is_looked_at_at_once(session, measuring):
    regions, session.live_regions = session.live_regions, []

    async def use(window: Window) -> None:
        type_in(window, OTHER, 1)
        assert "bar" not in (await window.message())["views"]
        session.live_regions = regions
        session.wake()  # as the script does, which has begun it
        await asyncio.wait_for(window.view("bar"), channel.REST / 2)

    assert open_window(session, use) == []


def test_a_job_that_goes_on_or_ends_wakes_the_window_and_the_script_runs_again(session, monkeypatch):
    for pace in ("WATCH_REST", "REST"):
        monkeypatch.setattr(channel, pace, 3600.0)
    monkeypatch.setattr(channel, "WATCH_PACE", 0.0)
    monkeypatch.setattr(channel, "WATCH_SELDOM", -1.0)
    job = Work(total=4.0)

    def bars() -> list[View]:
        return [bar for bar in [job_bar("bar", job)] if bar is not None]

    session.live_regions = [LiveRegion(lambda: job.ended, False, bars)]

    async def use(window: Window) -> None:
        type_in(window, OTHER, 1)  # the first look is at what is typed
        assert (await window.view("bar"))["share"] == 0
        for share in (0.25, 0.5):
            job.advance(1.0)
            assert (await window.view("bar"))["share"] == share
        job.go.set()
        await window.script()

    assert open_window(session, use) == []


def test_the_script_that_may_not_run_yet_is_asked_for_as_soon_as_it_may(session, monkeypatch):
    """No news comes after the end of a job: without them the next look would be an hour later."""
    for pace in ("WATCH_REST", "REST"):
        monkeypatch.setattr(channel, pace, 3600.0)
    monkeypatch.setattr(channel, "WATCH_PACE", 0.005)
    monkeypatch.setattr(channel, "WATCH_SELDOM", 0.2)
    session.live_regions = [LiveRegion(lambda: True, False)]

    async def use(window: Window) -> None:
        type_in(window, OTHER, 1)
        await window.script()

    assert open_window(session, use) == []


# Not too much at once.


@pytest.mark.usefixtures("looks_often")
def test_nothing_is_sent_before_all_but_one_message_are_painted(session, monkeypatch):
    monkeypatch.setattr(channel, "UNSEEN", PATIENCE)

    async def use(window: Window) -> None:
        window.say(seen=99)  # which there is not yet
        for edit, text in enumerate((OTHER, THIRD), 1):
            type_in(window, text, edit)
            assert (await window.message(paint=False))["number"] == edit
        type_in(window, "The", 3)
        await asyncio.sleep(0.05)  # some looks
        assert not window.has_message
        window.say(seen=1)
        assert (await window.message(paint=False))["edits"] == {"source": 3}

    assert open_window(session, use) == []


@pytest.mark.usefixtures("looks_often")
def test_a_message_that_is_never_painted_counts_as_lost(session, monkeypatch):
    monkeypatch.setattr(channel, "UNSEEN", 0.02)

    async def use(window: Window) -> None:
        for edit in range(1, 5):
            type_in(window, TEXT[:edit], edit)
            assert (await window.message(paint=False))["edits"] == {"source": edit}

    assert open_window(session, use) == []


def test_how_long_it_will_take_is_said_where_every_thread_is_busy(session, busy, monkeypatch):
    monkeypatch.setattr(channel.Window, "lasts", 3.0 * channel.POOL_SIZE)
    other = looking(session.model, TEXT)
    other.stage = session.stage

    async def use() -> None:
        done = busy()
        async with opened(session.token) as one, opened(other.token) as two:
            for place, window in enumerate((one, two), 1):
                type_in(window, OTHER, 1)
                assert await window.message() == {"waiting": 3 * place, "typing": place}
            done.set()
            for window in (one, two):
                assert (await window.message())["edits"] == {"source": 1}

    assert in_loop(use) == []
    assert not channel.Window.queue


def test_the_checks_follow_when_the_pictures_are_painted(session):
    async def use(window: Window) -> None:
        type_in(window, OTHER, 1)
        first = await window.message(paint=False)
        assert first["views"]["tokens"]["badges"] is None
        assert len(first["views"]) > 3
        window.say(seen=first["number"])
        later = await window.message()
        assert set(later["views"]) == {"tokens"}
        assert all(badge["passed"] for badge in later["views"]["tokens"]["badges"])
        assert later["edits"] == {"source": 1}

    assert open_window(session, use) == []


def test_checks_give_way_to_what_is_typed(session, monkeypatch):
    gate, plain, done = Gate(), checks.checks, []

    def gated(trace: Trace, count: Callable[[int], None]) -> list[checks.Check]:
        gate()
        found = plain(trace, count)
        done.append(trace.source_tokens)
        return found

    async def use(window: Window) -> None:
        monkeypatch.setattr(checks, "checks", gated)
        type_in(window, OTHER, 1)
        assert (await window.message())["edits"] == {"source": 1}
        await gate.reached()
        type_in(window, TEXT, 2)
        await window.heard()
        gate.open()
        first = await window.message()
        assert (first["edits"], first["views"]["tokens"]["badges"]) == ({"source": 2}, None)
        gate.open()
        assert (await window.message())["views"]["tokens"]["badges"]

    assert open_window(session, use) == []
    assert done == [labels(session, TEXT)]


def test_windows_that_do_not_read_keep_no_other_waiting(session, monkeypatch):
    """As on a telephone in a tunnel."""
    monkeypatch.setattr(channel, "NOTICED", 0.05)
    others = [looking(session.model, TEXT) for _ in range(channel.POOL_SIZE)]

    async def use() -> None:
        async with AsyncExitStack() as stack:
            for other in others:
                other.stage = session.stage
                window = await stack.enter_async_context(opened(other.token))
                type_in(window, OTHER, 1)
                window.reads.clear()
            window = await stack.enter_async_context(opened(session.token))
            while any(other.traced[0] != OTHER for other in others):
                await asyncio.sleep(0.01)
            type_in(window, OTHER, 1)
            assert "waiting" not in await window.message()

    assert in_loop(use) == []


def test_while_the_script_draws_no_thread_waits_for_it(session, monkeypatch):
    monkeypatch.setattr(channel, "POOL_SIZE", 1)
    other = looking(session.model, TEXT)
    other.stage = session.stage

    async def use() -> None:
        async with opened(session.token) as one, opened(other.token) as two:
            with session.lock:
                type_in(one, OTHER, 1)
                await one.heard()
                type_in(two, THIRD, 1)
                assert (await two.view("near"))["tokens"] == labels(session, THIRD)
                assert not one.has_message
            assert (await one.view("near"))["tokens"] == labels(session, OTHER)

    assert in_loop(use) == []


@pytest.mark.usefixtures("looks_often")
def test_a_turn_that_found_the_script_drawing_is_taken_when_that_has_ended_and_not_tried_before(session, monkeypatch):
    """However much is typed meanwhile."""
    tried, turn = threading.Semaphore(0), channel.Window._turn
    turns: list[bool] = []

    def noted(*given: Any) -> bool:
        turns.append(turn(*given))
        tried.release()
        return turns[-1]

    monkeypatch.setattr(channel.Window, "_turn", noted)

    async def use(window: Window) -> None:
        with session.lock:
            type_in(window, OTHER, 1)
            await asyncio.to_thread(tried.acquire)
            for edit in range(2, 10):
                with session.lock:  # as each view that the script draws
                    type_in(window, TEXT[:edit], edit)
                await window.heard()
                await asyncio.sleep(channel.PACE)  # a look
            assert turns == [False]
        assert (await window.message())["edits"] == {"source": 9}

    assert open_window(session, use) == []


def test_of_two_windows_of_one_session_each_shows_what_it_typed_unless_the_others_edit_is_later(session):
    """As of one that is being opened anew while the channel of before is not closed yet."""

    async def use() -> None:
        async with opened(session.token) as one, opened(session.token) as two:
            for window, text, edit, now in (
                (one, OTHER, 1, (OTHER, 1)),
                (two, THIRD, 2, (THIRD, 2)),
                (one, "The", 1, (THIRD, 2)),
                (one, "The", 3, ("The", 3)),
            ):
                type_in(window, text, edit)
                source = await window.view("source")
                assert (source["text"], source["edit"]) == now
            assert len(session.channels) == 2
            for edit in range(4, 10):  # both at once, in two threads
                type_in(one, OTHER + str(edit), edit)
                type_in(two, THIRD + str(edit), edit)
                for window in (one, two):
                    while (await window.message())["edits"] != {"source": edit}:
                        pass
            assert session.texts.typed[Key.SOURCE] in (OTHER + "9", THIRD + "9")
            assert session.trace.source_tokens == labels(session, session.texts.typed[Key.SOURCE])
        assert not session.channels

    assert in_loop(use) == []


def test_what_one_window_typed_another_of_its_session_gets_with_its_next_message(session):
    async def use() -> None:
        async with opened(session.token) as one, opened(session.token) as two:
            type_in(one, OTHER, 5)
            assert set((await one.message())["views"]) == EVERY
            assert not two.has_message
            type_in(two, THIRD, 1)  # older
            message = await two.message()
            assert (message["edits"], set(message["views"])) == ({"source": 5}, EVERY)
            assert message["views"]["near"]["tokens"] == labels(session, OTHER)

    assert in_loop(use) == []
