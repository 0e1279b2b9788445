"""The channel of a window: what is typed, clicked and trained goes straight to the model, and its views come back.

`viz/protocol.py` has the messages.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from prometheus_client import Histogram
from starlette.websockets import WebSocket, WebSocketDisconnect

from model.runtime import cancellation
from model.runtime.locks import Lock
from viz import protocol
from viz.components.registry import pack
from viz.components.view import View
from viz.frame import class_strip, class_view, drawing, token_bar, training_strip
from viz.i18n import catalogue
from viz.protocol import (
    Click,
    Edit,
    Hello,
    Hidden,
    MessageHeader,
    Painted,
    RunScript,
    Screen,
    TeacherScreen,
    Upward,
    Visible,
    Waiting,
    Working,
)
from viz.state import training
from viz.state.class_sessions import seat_of
from viz.state.serving import serving
from viz.state.session import SESSIONS, Session
from viz.state.texts import accept_edit

if TYPE_CHECKING:
    from viz.frame.page_layout import PageLayout

POOL_SIZE = os.cpu_count() or 1
POOL = ThreadPoolExecutor(POOL_SIZE, thread_name_prefix="channel")  # windows take turns on it, each with one at a time
LONGEST = 1 << 20  # letters of a message from the browser
MOST_CLICKS = 100  # that wait for a turn of a window
PATIENCE = 10.0  # seconds with a window that says or reads nothing where it should
PACE, STRIP_PACE, REST = 0.1, 0.5, 3.0  # seconds between looks at a training: shown, beside, resting
SHARE, STEP_SHARE = 0.02, 0.3  # of a core that looks at a training may take, and at steps that are taken to be seen
SELDOM = 5.0  # seconds between runs of the script while a shown training moves: for what it alone draws
WATCH_PACE, WATCH_SHARE, WATCH_SELDOM = 0.4, 0.1, 1.0  # the same of jobs that a page shows, when they have gone on
WATCH_REST = 1.0  # seconds between looks at what goes on beside a page, where no job says that it has
UNSEEN = 2.0  # seconds after which a message counts as lost
LATELY = 3.0  # seconds after its last letter for which a window counts as one in which somebody types
ALIVE = 1.0  # seconds of a turn without a message, after which it says that it goes on
NOTICED = 0.5  # seconds of waiting from which on it is said
BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
WAITED = Histogram(
    "vitrine_turn_wait_seconds", "From the asking for a turn to its begin.", buckets=BOUNDS, registry=None
)
TOOK = Histogram("vitrine_turn_seconds", "Tracing and packing in a turn.", buckets=BOUNDS, registry=None)
# A message that is none of ours raises one of these, and so does a window that does not do its part.
NO_WINDOW = (*protocol.NO_MESSAGE, TimeoutError)
REFUSED, TOO_LONG, GONE = 1008, 1009, 4401  # codes of a channel's end: no window of ours, its message, its session


async def channel(socket: WebSocket) -> None:
    """Serve one window until it goes, or says what no window of ours would."""
    await socket.accept()
    code: int | None = REFUSED
    try:
        async with asyncio.timeout(PATIENCE):
            text = await socket.receive_text()
        window = window_of(socket, protocol.read_token(text)) if len(text) <= LONGEST else None
        code = await window.serve() if window else GONE
    except NO_WINDOW:
        pass
    except (WebSocketDisconnect, RuntimeError):
        code = None  # it has gone
    if code is not None:
        with suppress(RuntimeError, TimeoutError):  # it goes at this moment, or reads nothing
            async with asyncio.timeout(PATIENCE):
                await socket.close(code)


def typing() -> int:
    """Number of windows in which something was typed of late."""
    now, windows = time.monotonic(), [each() for each in Window.typed.keyrefs()]  # in one step: others may come
    return sum(now - Window.typed.get(each, -LATELY) < LATELY for each in windows if each is not None)


def window_of(socket: WebSocket, token: str) -> Window | None:
    """A window of the session of this token, which it does not keep alive; None where there is none."""
    session = SESSIONS.get(token)
    return Window(socket, session) if session else None


@dataclass
class PendingRequests:
    """Requests of a window since its last turn. typed: a text has changed."""

    typed: bool = False
    clicks: list[Click] = field(default_factory=list)

    def __bool__(self) -> bool:
        return self.typed or bool(self.clicks)


class Window:
    """One window's channel. Its turns are taken in a thread of the pool; what comes meanwhile waits, merged."""

    queue: ClassVar[set[Window]] = set()  # windows whose turn no thread has begun
    typed: ClassVar[WeakKeyDictionary[Window, float]] = WeakKeyDictionary()  # when in each window was typed last
    lasts = 0.1  # seconds of a turn, of late

    def __init__(self, socket: WebSocket, session: Session) -> None:
        self._socket = socket
        self._session = weakref.ref(session)
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._free = asyncio.Event()  # the script, or another window's turn, has let the session go
        self._messages: asyncio.Queue[str | bytes | None] = asyncio.Queue()  # None: the screen, as it is then
        self._screen: TeacherScreen | None = None  # of the teacher, as this window was sent it, or will be
        self._screen_waits = False
        self._pending, self._lock = PendingRequests(), Lock("window")
        self._stale = threading.Event()  # what is being computed is of a text that is no more
        self._given_up = False  # the last turn was: the next one is finished, whatever is typed
        self._checks_pending = False  # of what it has drawn: they follow when that is painted
        self._sent: dict[str, int] = {}  # moments of the frames that this window has, by their views
        self._number, self._seen, self._sent_at = 0, 0, 0.0
        self._hidden, self._visible = False, frozenset[str]()
        self._begun = 0.0  # the turn that goes on, or the last
        self._turned_at, self._took = 0.0, 0.0  # when the last turn ended; its processor time, in seconds
        self._runs, self._asked_at = -1, 0.0  # of the script when it was last asked to run; when it was, or has run
        self._ran = -1  # runs of the script that are known of
        self._awaits_others = False  # in a class session
        self._class_line: object = None  # what it was told of the line above the page
        self._class: tuple[object, object] | None = None  # what it was told of a class session
        self._drawn: object = None  # where the training stood that was last drawn, and what was visible

    async def serve(self) -> int:
        """Serve until the window has gone, which raises, or its session: then the code to close with."""
        self._messages.put_nowait(protocol.text_of(Hello()))
        self._look_at_screen()
        works = (self._receive_loop(), self._turn_loop(), self._send_loop())
        tasks = [asyncio.create_task(work) for work in works]
        self._count(True)
        try:
            done, _pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return max(task.result() for task in done)
        finally:
            self._count(False)
            self._stale.set()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _count(self, present: bool) -> None:
        if session := self._session():
            (session.channels.add if present else session.channels.discard)(self._wake_soon)
            class_view.presence(session)

    def _wake_soon(self) -> None:
        """Wake the window, from any thread: what there is to do may have changed."""
        self._call_soon(self._look)

    def _free_soon(self) -> None:
        """Wake the window, from the thread that has held the session: a turn that found it held may be taken now."""
        self._call_soon(self._free.set)

    def _call_soon(self, act: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the server ends at this moment
            self._loop.call_soon_threadsafe(act)

    def _look(self) -> None:
        self._wake.set()
        self._look_at_screen()

    def _look_at_screen(self) -> None:
        """Send what a teacher presents, for which no turn is needed; a slow window gets only the newest of it."""
        session = self._session()
        screen = class_view.screen(session) if session is not None and not self._hidden else self._screen
        if screen is not self._screen:
            self._screen = screen
            if not self._screen_waits:
                self._screen_waits = True
                self._messages.put_nowait(None)

    async def _receive_loop(self) -> int:
        while True:
            text = await self._socket.receive_text()
            if len(text) > LONGEST:
                return TOO_LONG
            self._accept(protocol.read(text))

    async def _send_loop(self) -> int:
        """Send in order; a window that does not read is let go."""
        while True:
            message = await self._messages.get()
            if message is None:
                self._screen_waits, message = False, protocol.text_of(Screen(self._screen))
            send = self._socket.send_text(message) if isinstance(message, str) else self._socket.send_bytes(message)
            async with asyncio.timeout(PATIENCE):
                await send

    def _accept(self, message: Upward | None) -> None:
        with self._lock:
            match message:
                case Edit():
                    if session := self._session():  # known at once: a button may be pressed next
                        if accept_edit(session, message.type, message.text, message.edit):
                            class_view.let_go(session)
                        self._pending.typed = True
                        self._stale.set()
                        Window.typed[self] = time.monotonic()
                case Click():
                    session = self._session()
                    if session and class_view.accept_click(session, message.answer, message.name, message.value):
                        return
                    if len(self._pending.clicks) < MOST_CLICKS:
                        self._pending.clicks.append(message)
                case Painted():
                    self._seen = min(self._number, max(self._seen, message.seen))
                case Visible():
                    self._visible = frozenset(message.visible)
                case Hidden():
                    self._hidden = message.hidden
        self._look()

    async def _turn_loop(self) -> int:
        while (pace := self._pace()) is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(pace):  # wait_for loses a cancellation that comes together with the event
                    await self._wake.wait()
            self._wake.clear()
            while self._due() and not await self._take_turn():
                await self._free.wait()
                self._free.clear()
        return GONE

    def _pace(self) -> float | None:
        """Seconds until the next look, if nothing is asked for; None where the session has ended."""
        session = self._session()
        if session is None:
            return None
        if self._pending or self._checks_pending or self._has_class_news(session):
            return PACE
        live = training.trainings().get(session.training.run) if session.training.run else None
        paces = [REST]
        if not self._hidden and training.is_moving(live):
            visible = session.stage is not None and session.stage.trained
            share = STEP_SHARE if live is not None and live.snapshot.watched else SHARE
            paces.append(min(STRIP_PACE, max(PACE, self._took / share)) if visible else STRIP_PACE)
        if not self._hidden and session.live_regions:
            paces.append(max(WATCH_PACE if session.job_news else WATCH_REST, self._took / WATCH_SHARE))
        return min(paces)

    def _due(self) -> bool:
        """True if something is asked for, or it is time to look at a training or a job again; and the browser has
        painted what it was sent: of what is typed, all but one message.
        """
        now, ahead, pace = time.monotonic(), self._number - self._seen, self._pace() or 0.0
        session = self._session()
        requested = bool(self._pending) or (session is not None and self._has_class_news(session))
        painted = ahead <= requested or now - self._sent_at > UNSEEN
        return painted and (requested or self._checks_pending or now - self._turned_at >= 0.9 * pace)

    def _has_class_news(self, session: Session) -> bool:
        """True if a class session has something to show that this window was not told of, or not its script."""
        if self._hidden or (news := class_view.mark(session)) is None:
            return False
        return (
            news != self._class
            or self._awaits_others
            or (class_view.is_script_due(session) and self._runs != session.runs)
        )

    async def _take_turn(self) -> bool:
        """A turn in the pool; above half a second without a thread, how long it will take is said. False: the script
        draws just now, and `_free` is set once it has.
        """
        Window.queue.add(self)
        start_signal, since = self._loop.create_future(), time.monotonic()
        turn = asyncio.ensure_future(self._loop.run_in_executor(POOL, self._turn, start_signal, since))
        waited: list[asyncio.Future[Any]] = [turn, start_signal]
        try:
            await asyncio.wait(waited, timeout=NOTICED, return_when=asyncio.FIRST_COMPLETED)
            if not start_signal.done():
                seconds = len(Window.queue) * Window.lasts / POOL_SIZE
                self._messages.put_nowait(protocol.text_of(Waiting(max(1, round(seconds)), typing())))
                await asyncio.shield(start_signal)  # the thread says it, whether or not somebody waits
        finally:
            Window.queue.discard(self)
        while not turn.done():  # a window takes a silent channel for a dead one
            await asyncio.wait([turn], timeout=ALIVE)
            if not turn.done():
                self._messages.put_nowait(protocol.text_of(Working()))
        return await turn

    def _turn(self, start_signal: asyncio.Future[None], since: float) -> bool:
        """Compute and send what is asked for. In a thread of the pool, which waits for nobody. since: when the turn
        was asked for.
        """
        Window.queue.discard(self)
        self._loop.call_soon_threadsafe(start_signal.set_result, None)
        self._begun, used = time.monotonic(), time.thread_time()
        WAITED.observe(self._begun - since)
        session = self._session()
        if session is None or session.stage is None:  # nothing is on the page yet: what is asked for waits
            return True
        if not session.lock.acquire_or_notify(self._free_soon):
            return False
        try:
            with serving(session):
                self._serve_pending(session)
        finally:
            session.lock.release()
        self._turned_at, self._took = time.monotonic(), time.thread_time() - used
        TOOK.observe(self._turned_at - self._begun)
        Window.lasts += 0.1 * (self._turned_at - self._begun - Window.lasts)
        return True

    def _serve_pending(self, session: Session) -> None:
        with self._lock:
            pending, self._pending = self._pending, PendingRequests()
            self._stale.clear()
        stage: PageLayout = session.stage
        catalogue.use(stage.language)
        edits = dict(session.texts.edits)  # before the texts are read: they are of these edits, or of later ones
        try:
            for click in pending.clicks:
                self._answer(session, click)
                edits = dict(session.texts.edits)
            never, busy = threading.Event(), bool(Window.queue)
            # Where others wait, nothing is begun in vain; but another process is not waited for in their place.
            waits = never if self._given_up else self._stale
            with cancellation.watch(never if busy else waits, waits):
                # Before it is looked at: what comes meanwhile is of the next turn.
                news = self._class if self._hidden else class_view.mark(session)
                requested = pending.typed or any(click.answer != class_strip.KEY for click in pending.clicks)
                if (line := news and news[1]) != self._class_line:  # first of all: it is short
                    self._class_line = line
                    self._tell_class(session, edits)
                is_new = news != self._class or self._awaits_others
                self._awaits_others = self._awaits_others and self._hidden
                if not self._follow(session, stage, is_new, requested):
                    self._draw(session, stage, requested, edits)
                self._class = news
            self._given_up = False
        except cancellation.SupersededError:
            self._given_up = bool(pending)  # and not only the checks were
            self._wake_soon()  # the newer text is there already
        except Exception as error:  # a text that this model cannot read, or a fault: the script says so
            if not isinstance(error, ValueError):
                logging.getLogger(__name__).exception("the channel could not draw")
            self._send([], edits, False, True)
            self._ask_script(session)

    def _answer(self, session: Session, click: Click) -> None:
        view = session.views.get(click.answer)
        act = view.acts.get(click.name) if view else None
        if act and getattr(getattr(act, "func", act), "live", False):
            with suppress(LookupError, TypeError, ValueError, OverflowError):  # it was on another text
                act(click.value)

    def _tell_class(self, session: Session, edits: dict[str, int]) -> None:
        """Send what is new in a class session: who follows, answers, its end."""
        views = class_strip.views(session)
        session.views.update({view.key: view for view in views})
        self._send(views, edits, False, False, None)
        if session.seat is not None and seat_of(session) is None:  # it has ended: the script says so
            self._ask_script(session)

    def _follow(self, session: Session, stage: PageLayout, is_new: bool, requested: bool) -> bool:
        """Send what the teacher shows, if this session follows one: the bytes of his own window, where this one shows
        the same page of the same model in the same language. is_new: this window was not sent it. requested: it waits
        for an answer, too.
        """
        if (following := class_view.teacher_view(session)) is None or self._hidden:
            return False
        seat, view = following
        if class_view.is_script_due(session):
            self._ask_script(session)
        behind = seat.run != view.run or seat.texts != view.snapshot.texts
        own = requested
        if is_new and seat.layout == view.layout and stage.page == view.page and not seat.problem:
            view.snapshot.give(session)
            is_same = view.snapshot.share(session, stage.model)
            pictures = view.pictures.get(stage.language)
            if pictures and (is_same or (stage.trained and stage.model is view.snapshot.base)):
                fields = drawing.fields(session, stage.model) if is_same else []
                views = [*fields, *class_view.shared_views(session, pictures)]
                gone = session.followed - pictures.keys()
                self._send(views, dict(session.texts.edits), False, False, gone, moved=behind)
            else:
                own = class_view.is_mine_to_draw(seat, view, stage.language) or requested
            self._awaits_others = not own and not pictures  # another window draws it in this language, or does not
        self._draw(session, stage, own, dict(session.texts.edits), alone=False)
        return True

    def _draw(
        self, session: Session, stage: PageLayout, requested: bool, edits: dict[str, int], alone: bool = True
    ) -> None:
        """Draw what was asked for, and what a training has done since; of that, only what can be seen. The checks
        follow in another turn, when it is painted, if nothing is typed until then. alone: no teacher's window draws it.
        """
        live = training.training(session)  # being asked for is a sign of life
        moving, training_state = training.is_moving(live), training.standing(live)
        news = training_state, live.snapshot.status if live else "", self._visible
        moved = live is not None and news != self._drawn and not self._hidden
        old = live is not None and training_state != session.training.drawn_state  # what the script has drawn of it
        if moved:
            self._drawn = news
        if requested or (moved and stage.trained and alone):
            drawn: set[str] = set()
            every: list[View] = []
            for views, more in drawing.frames(session, stage):
                session.views.update({view.key: view for view in views})
                drawn.update(view.key for view in views)
                every += views
                seen = views if requested else [view for view in views if view.key in self._visible]
                self._send(
                    seen, edits, more, requested, () if more else session.followed - drawn, moved=old and not requested
                )
            class_view.publish(session, every, whole=True, acted=requested)
            self._checks_pending = True
        elif self._checks_pending and session.traced_input is not None:
            self._checks_pending = False
            checks: list[View] = [token_bar.token_bar(session)]
            self._send(checks, edits, False, False, None)
            class_view.publish(session, checks, whole=False, acted=False)
        if moved:
            self._send([training_strip.strip(session, stage.model, stage.trained)], edits, False, False, None)
        if self._ran != session.runs:  # it has drawn all that it alone draws
            self._ran, self._asked_at = session.runs, time.monotonic()
        late = moving and stage.trained and not self._hidden and time.monotonic() - self._asked_at > SELDOM
        if (
            late
            or session.rerun_requested
            or session.has_message
            or moving != session.training.moving
            or (not moving and training_state != session.training.drawn_state)
        ):
            self._ask_script(session)
        self._watch(session, edits)

    def _watch(self, session: Session, edits: dict[str, int]) -> None:
        """Views of what goes on beside the page: its views, and the script where what it has drawn of it is old."""
        session.job_news = False  # before they are looked at: what comes meanwhile is of the next turn
        views = [view for region in session.live_regions for view in region.views()]  # a sign of life, too
        if not self._hidden:
            self._send(views, edits, False, False, None)
        if any(region.is_old for region in session.live_regions):
            if time.monotonic() - self._asked_at > WATCH_SELDOM:
                self._ask_script(session)
            else:
                session.job_news = True

    def _ask_script(self, session: Session) -> None:
        """Let the browser have the script run, once until it has."""
        if self._runs != session.runs:
            self._runs, self._asked_at = session.runs, time.monotonic()
            self._post(protocol.text_of(RunScript()))

    def _send(
        self,
        views: Iterable[View],
        edits: dict[str, int],
        more: bool,
        always: bool,
        gone: Iterable[str] | None = (),
        moved: bool = False,
    ) -> None:
        """Send the views that are newer than what this window was sent. always: the header even without any, since the
        browser waits for an answer.

        gone: keys of views that this input does not have; None where the views are not of an input. moved: by a
        training, since the script ran.
        """
        frames = []
        for view in views:
            moment = view.moment
            if self._sent.get(view.key) != moment:
                self._sent[view.key] = moment
                frames.append(view.frame())
        if not frames and not always:
            return
        self._number += 1
        self._sent_at = time.monotonic()
        header = MessageHeader(
            number=self._number,
            edits=edits,
            frames=[len(frame) for frame in frames],
            more=more,
            gone=None if gone is None else sorted(gone),
            moved=moved,
            took=round(1000 * (self._sent_at - self._begun), 1),
        )
        self._post(pack(header) + b"".join(frames))

    def _post(self, message: str | bytes) -> None:
        """Send from a thread of the pool, in its order; not waited for."""
        self._loop.call_soon_threadsafe(self._messages.put_nowait, message)
