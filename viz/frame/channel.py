"""The channel of a window: what is typed, clicked and trained goes straight to the model, and its views come back.

Up come JSON texts: first {token}, the session's; {type, text, edit}, what is in a field; {answer, name, value}, a click
on a view that the channel answers; {seen}, the number of the message that was painted; {visible}, keys of the views
that can be seen; {hidden}, whether the whole window is not. Down go frames of views, many in one message behind a
header {number, edits, frames: their lengths, more: others of this input follow, moved: by a training and not by this
window, took: milliseconds since the turn began}, and JSON texts: {script}, the script shall run; {waiting}, seconds
until it is this window's turn.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.websockets import WebSocket, WebSocketDisconnect

from model.runtime import superseded
from viz.components.registry import pack
from viz.components.view import View
from viz.frame import drawing, training_strip
from viz.i18n import catalogue
from viz.state import training
from viz.state.session import SESSIONS, Session, serving
from viz.state.texts import learn

if TYPE_CHECKING:
    from viz.frame.drawing import Stage

POOL_SIZE = os.cpu_count() or 1
POOL = ThreadPoolExecutor(POOL_SIZE, thread_name_prefix="channel")  # windows take turns on it, each with one at a time
LONGEST = 1 << 20  # bytes of a message from the browser
PACE, STRIP_PACE, REST = 0.1, 0.5, 3.0  # seconds between looks at a training: shown, beside, resting
SHARE = 0.02  # of a core that looks at a training may take
SELDOM = 5.0  # seconds between runs of the script while a shown training moves: for what it alone draws
UNSEEN = 2.0  # seconds after which a message counts as lost
TOLD = 0.5  # seconds of waiting from which on it is said
GONE = 4401  # the code with which a channel closes whose session is no more


async def channel(socket: WebSocket) -> None:
    """Serve one window until it goes."""
    if not is_own(socket.headers.get("origin"), socket.headers.get("host")):
        return await socket.close(1008)
    await socket.accept()
    try:
        hello = json.loads(await socket.receive_text())
        session = SESSIONS.get(str(hello.get("token")))
        if session is None:
            return await socket.close(GONE)
        await Window(socket, session).serve()
    except (WebSocketDisconnect, ValueError, AttributeError):
        pass  # it has gone, or is none of ours


def is_own(origin: str | None, host: str | None) -> bool:
    """Whether a browser asks from a page of this very server; what is no browser says no origin."""
    return origin is None or (host is not None and urlsplit(origin).netloc == host)


@dataclass
class Asked:
    """What a window has asked for since the last turn: of each field the latest text, and every click."""

    texts: dict[str, tuple[str, int]] = field(default_factory=dict)
    answers: list[tuple[str, str, Any]] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.texts or self.answers)


class Window:
    """One window's channel. Its turns are taken in a thread of the pool; what comes meanwhile waits, merged."""

    waiting = 0  # turns of all windows that no thread has begun
    lasts = 0.1  # seconds of a turn, of late

    def __init__(self, socket: WebSocket, session: Session) -> None:
        self._socket = socket
        self._session = weakref.ref(session)
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._asked, self._lock = Asked(), threading.Lock()
        self._stale = threading.Event()  # what is being computed is of a text that is no more
        self._given_up = False  # the last turn was: the next one is finished, whatever is typed
        self._sent: dict[str, int] = {}  # moments of the frames that this window has, by their views
        self._number, self._seen, self._sent_at = 0, 0, 0.0
        self._hidden, self._visible = False, frozenset[str]()
        self._begun = 0.0  # the turn that goes on, or the last
        self._turned_at, self._took = 0.0, 0.0  # when the last turn ended; its processor time, in seconds
        self._runs, self._asked_at = -1, 0.0  # of the script, when it was last asked to run
        self._drawn: object = None  # where the training stood that was last drawn, and what was visible

    async def serve(self) -> None:
        turns = asyncio.create_task(self._turns())
        self._count(1)
        try:
            while True:
                text = await self._socket.receive_text()
                if len(text) > LONGEST:
                    return await self._socket.close(1009)
                self._take(json.loads(text))
        finally:
            turns.cancel()
            self._stale.set()
            self._count(-1)

    def _count(self, change: int) -> None:
        if session := self._session():
            session.channels += change

    def _take(self, message: dict[str, Any]) -> None:
        with self._lock:
            if "type" in message:
                self._asked.texts[str(message["type"])] = str(message["text"]), int(message["edit"])
                self._stale.set()
            elif "answer" in message:
                self._asked.answers.append((str(message["answer"]), str(message["name"]), message.get("value")))
            elif "seen" in message:
                self._seen = max(self._seen, int(message["seen"]))
            elif "visible" in message:
                self._visible = frozenset(map(str, message["visible"]))
            elif "hidden" in message:
                self._hidden = bool(message["hidden"])
        self._wake.set()

    async def _turns(self) -> None:
        while (pace := self._pace()) is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pace)
            self._wake.clear()
            if self._due(pace):
                await self._take_turn()
        await self._socket.close(GONE)

    def _pace(self) -> float | None:
        """Seconds until the next look, if nothing is asked for; None where the session has ended."""
        session = self._session()
        if session is None:
            return None
        if self._asked:
            return PACE
        live = training.trainings().get(session.run) if session.run else None
        if self._hidden or not training.is_moving(live):
            return REST
        return max(PACE if session.stage and session.stage.trained else STRIP_PACE, self._took / SHARE)

    def _due(self, pace: float) -> bool:
        """Whether something is asked for, or it is time to look at a training again; and the browser has painted what
        it was sent: of what is typed, all but one message.
        """
        now, ahead = time.monotonic(), self._number - self._seen
        painted = ahead <= bool(self._asked) or now - self._sent_at > UNSEEN
        return painted and (bool(self._asked) or now - self._turned_at >= 0.9 * pace)

    async def _take_turn(self) -> None:
        """A turn in the pool; above half a second without a thread, how long it will take is said."""
        Window.waiting += 1
        begun = self._loop.create_future()
        turn = asyncio.ensure_future(self._loop.run_in_executor(POOL, self._turn, begun))
        waited: list[asyncio.Future[None]] = [turn, begun]
        try:
            await asyncio.wait(waited, timeout=TOLD, return_when=asyncio.FIRST_COMPLETED)
            if not begun.done():
                seconds = Window.waiting * Window.lasts / POOL_SIZE
                await self._socket.send_text(json.dumps({"waiting": max(1, round(seconds))}))
                await begun
        finally:
            Window.waiting -= 1
        await turn

    def _turn(self, begun: asyncio.Future[None]) -> None:
        """What is asked for is computed and sent. In a thread of the pool."""
        self._loop.call_soon_threadsafe(begun.set_result, None)
        self._begun, used = time.monotonic(), time.thread_time()
        session = self._session()
        if session is None or session.stage is None:  # nothing is on the page yet: what is asked for waits
            return
        with session.lock, serving(session):
            with self._lock:
                asked, self._asked = self._asked, Asked()
                self._stale.clear()
            stage: Stage = session.stage
            catalogue.use(stage.language)
            for key, (text, edit) in asked.texts.items():
                learn(session, key, text, edit)
            try:
                for key, name, value in asked.answers:
                    self._answer(session, key, name, value)
                with superseded.watch(threading.Event() if self._given_up else self._stale):
                    self._draw(session, stage, bool(asked))
                self._given_up = False
            except superseded.SupersededError:
                self._given_up = True
                self._loop.call_soon_threadsafe(self._wake.set)  # the newer text is there already
            except ValueError:  # a text that this model cannot read: the script says so
                self._ask_script(session)
            except Exception:  # the script shows what it can
                logging.getLogger(__name__).exception("the channel could not draw")
                self._ask_script(session)
        self._turned_at, self._took = time.monotonic(), time.thread_time() - used
        Window.lasts += 0.1 * (time.monotonic() - self._begun - Window.lasts)

    def _answer(self, session: Session, key: str, name: str, value: Any) -> None:
        view = session.views.get(key)
        act = view.acts.get(name) if view else None
        if act and getattr(getattr(act, "func", act), "live", False):
            with suppress(LookupError, TypeError, ValueError):  # a click on what another text has replaced
                act(value)

    def _draw(self, session: Session, stage: Stage, asked: bool) -> None:
        """What was asked for, and what a training has done since; of that, only what can be seen."""
        live = training.training(session)  # being asked for is a sign of life
        moving, stands = training.is_moving(live), training.standing(live)
        news = stands, live.snapshot.status if live else "", self._visible
        moved = live is not None and news != self._drawn and not self._hidden
        edits = dict(session.edits)
        if asked or (moved and stage.trained):
            for views, more in with_next(drawing.frames(session, stage)):
                session.views.update({view.key: view for view in views})
                seen = views if asked else [view for view in views if view.key in self._visible]
                self._send(seen, edits, more, asked)
        if moved:
            self._drawn = news
            self._send([training_strip.strip(session, stage.model)], edits, False, False)
        late = moving and stage.trained and not self._hidden and time.monotonic() - self._asked_at > SELDOM
        if late or session.begun or moving != session.moving or (not moving and stands != session.stands):
            self._ask_script(session)

    def _ask_script(self, session: Session) -> None:
        """Let the browser have the script run, once until it has."""
        if self._runs != session.runs:
            self._runs, self._asked_at = session.runs, time.monotonic()
            self._post(json.dumps({"script": True}))

    def _send(self, views: Iterable[View], edits: dict[str, int], more: bool, always: bool) -> None:
        """What this window does not have already; always: even if that is nothing, for it is waited for."""
        frames = []
        for view in views:
            frame, moment = view.frame(), view.moment
            if self._sent.get(view.key) != moment:
                self._sent[view.key] = moment
                frames.append(frame)
        if not frames and not always:
            return
        self._number += 1
        self._sent_at = time.monotonic()
        header = {"number": self._number, "edits": edits, "frames": [len(frame) for frame in frames], "more": more}
        header |= {"moved": not always, "took": round(1000 * (time.monotonic() - self._begun), 1)}
        self._post(pack(header) + b"".join(frames))

    def _post(self, message: str | bytes) -> None:
        """Send from a thread of the pool, in order."""
        send = self._socket.send_text(message) if isinstance(message, str) else self._socket.send_bytes(message)
        asyncio.run_coroutine_threadsafe(send, self._loop).result()


def with_next(groups: Iterable[list[View]]) -> Iterator[tuple[list[View], bool]]:
    """Each group, and whether another one follows."""
    before: list[View] | None = None
    for group in groups:
        if before is not None:
            yield before, True
        before = group
    if before is not None:
        yield before, False
