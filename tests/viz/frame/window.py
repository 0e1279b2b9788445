"""A window without a browser: the other end of a channel."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketDisconnected

from tests.app_reading import body
from tests.event_loop import run
from tests.viz.components.test_registry import unpack
from tests.viz.render.header_checks import misfits
from viz.frame import channel
from viz.protocol import MessageHeader
from viz.state.session import Session

PATIENCE = 60.0  # seconds


class Window:
    """What a window says to its channel, and what comes back."""

    serving: asyncio.Task[None]

    def __init__(self, **headers: str) -> None:
        self.headers = {"host": "localhost:8501", **headers}
        self.accepted, self.greeted, self.gone = False, False, False
        self.closed: int | None = None  # the code with which the channel has closed
        self.on_its_way: list[str] = []  # what the channel receives after it has closed
        self.reads = asyncio.Event()  # else nothing can be sent to it
        self.reads.set()
        self._up: asyncio.Queue[str | None] = asyncio.Queue()
        self._down: asyncio.Queue[str | bytes] = asyncio.Queue()

    def say(self, **message: Any) -> None:
        self.say_raw(json.dumps(message))

    def say_raw(self, text: str) -> None:
        self._up.put_nowait(text)

    def go(self) -> None:
        self.gone = True
        self._up.put_nowait(None)

    async def script(self) -> None:
        """Wait until the script is asked to run."""
        while "script" not in await self.message():
            pass

    async def view(self, key: str) -> dict[str, Any]:
        """The header of the next frame of this view; what comes before is painted at once."""
        while True:
            views = (await self.message()).get("views", {})
            if key in views:
                found: dict[str, Any] = views[key]
                return found

    async def message(self, paint: bool = True) -> dict[str, Any]:
        """What comes next: JSON, or the header of frames with what each view was sent as `views`, by their keys."""
        message = await asyncio.wait_for(self._down.get(), PATIENCE)
        if isinstance(message, str):
            told = dict(json.loads(message))
            return await self.message(paint) if "works" in told else told  # a sign of life, on a busy machine
        header, _arrays = unpack(message)
        assert not list(misfits(header, MessageHeader))
        if paint:
            self.say(seen=header["number"])
        views, end = {}, 4 + int.from_bytes(message[:4], "little")
        for size in header["frames"]:
            frame, end = message[end : end + size], end + size
            views[stamp(frame)["key"]] = unpack(body(frame))[0]
        assert end == len(message)
        return header | {"views": views}

    @property
    def has_message(self) -> bool:
        return not self._down.empty()

    async def heard(self) -> None:
        """Wait until the channel has taken what was said."""
        while not self._up.empty():
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def end(self) -> None:
        """Wait until the channel has ended, before anything else comes."""
        more = asyncio.ensure_future(self.message())
        await asyncio.wait([self.serving, more], return_when=asyncio.FIRST_COMPLETED)
        assert self.serving.done(), more.result()
        more.cancel()
        await self.serving

    # As a WebSocket of the server has it.

    async def accept(self) -> None:
        self.accepted = True

    async def receive_text(self) -> str:
        self._require_open()
        text = await self._up.get()
        if text is None:
            raise WebSocketDisconnect(1001)
        return text

    async def send_text(self, text: str) -> None:
        await self._send(text)

    async def send_bytes(self, data: bytes) -> None:
        await self._send(data)

    async def close(self, code: int) -> None:
        self._require_open()
        self.closed = code
        for text in (*self.on_its_way, None):
            self._up.put_nowait(text)

    async def _send(self, data: str | bytes) -> None:
        self._require_open()
        await self.reads.wait()
        if self.gone:
            raise WebSocketDisconnect(1006)
        if self.greeted:
            self._down.put_nowait(data)
        else:
            assert json.loads(data) == {"hello": True}
            self.greeted = True

    def _require_open(self) -> None:
        if self.closed is not None:
            raise WebSocketDisconnected("the channel has closed")


def stamp(frame: bytes) -> dict[str, Any]:
    """What stands before a view's bytes."""
    found: dict[str, Any] = json.loads(frame[4 : 4 + int.from_bytes(frame[:4], "little")])
    return found


@asynccontextmanager
async def opened(token: str | None = None, **headers: str) -> AsyncIterator[Window]:
    """A window, of the session of this token if there is one, and closed in the end."""
    window = Window(**headers)
    socket: WebSocket = window  # type: ignore[assignment]
    if token is not None:
        window.say(token=token)
    window.serving = asyncio.create_task(channel.channel(socket))
    try:
        yield window
    finally:
        window.go()
        await asyncio.wait([window.serving], timeout=PATIENCE)
        assert window.serving.done(), "the window has gone, and its channel goes on"
        await window.serving


def in_loop(use: Callable[[], Awaitable[None]]) -> list[dict[str, Any]]:
    """Use windows, with threads of their own, which end before the loop does; the exceptions that nobody awaited."""
    unheard: list[dict[str, Any]] = []

    async def used() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, problem: unheard.append(problem))
        with patch.object(channel, "POOL", ThreadPoolExecutor(channel.POOL_SIZE)) as pool:
            try:
                await use()
            finally:
                await asyncio.to_thread(pool.shutdown)

    run(used())
    gc.collect()  # it is then that asyncio finds them
    return unheard


def open_window(session: Session, use: Callable[[Window], Awaitable[None]]) -> list[dict[str, Any]]:
    """Use a window of this session, and close it."""

    async def used() -> None:
        async with opened(session.token) as window:
            await use(window)

    return in_loop(used)
