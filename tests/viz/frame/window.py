"""A window without a browser: the other end of a channel."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from starlette.websockets import WebSocket, WebSocketDisconnect

from tests.app_reading import body
from tests.viz.components.test_registry import unpack
from viz.frame.channel import channel
from viz.state.session import Session

PATIENCE = 60.0  # seconds
Result = TypeVar("Result")


class Window:
    """What a window says to its channel, and what comes back."""

    def __init__(self, session: Session) -> None:
        self.headers: dict[str, str] = {}
        self.closed: int | None = None  # the code with which the channel has closed
        self._up: asyncio.Queue[str | None] = asyncio.Queue()
        self._down: asyncio.Queue[str | bytes] = asyncio.Queue()
        self.say(token=session.token)

    def say(self, **message: Any) -> None:
        self._up.put_nowait(json.dumps(message))

    def go(self) -> None:
        self._up.put_nowait(None)

    async def script(self) -> None:
        """Wait until the script is asked to run."""
        while True:
            message = await self._next()
            if isinstance(message, str) and "script" in json.loads(message):
                return

    async def view(self, key: str) -> dict[str, Any]:
        """The header of the next frame of this view; what comes before is painted at once."""
        while True:
            message = await self._next()
            if isinstance(message, bytes):
                header, _arrays = unpack(message)
                self.say(seen=header["number"])
                end = 4 + int.from_bytes(message[:4], "little")
                for size in header["frames"]:
                    frame, end = message[end : end + size], end + size
                    if stamp(frame)["key"] == key:
                        found: dict[str, Any] = unpack(body(frame))[0]
                        return found

    async def _next(self) -> str | bytes:
        return await asyncio.wait_for(self._down.get(), PATIENCE)

    # As a WebSocket of the server has it.

    async def accept(self) -> None: ...

    async def receive_text(self) -> str:
        text = await self._up.get()
        if text is None:
            raise WebSocketDisconnect(1001)
        return text

    async def send_text(self, text: str) -> None:
        self._down.put_nowait(text)

    async def send_bytes(self, data: bytes) -> None:
        self._down.put_nowait(data)

    async def close(self, code: int) -> None:
        self.closed = code


def stamp(frame: bytes) -> dict[str, Any]:
    """What stands before a view's bytes."""
    found: dict[str, Any] = json.loads(frame[4 : 4 + int.from_bytes(frame[:4], "little")])
    return found


def open_window(session: Session, use: Callable[[Window], Awaitable[None]]) -> None:
    """Use a window of this session, and close it."""

    async def used() -> None:
        window = Window(session)
        socket: WebSocket = window  # type: ignore[assignment]
        serving = asyncio.create_task(channel(socket))
        try:
            await use(window)
        finally:
            window.go()
            await serving

    in_a_loop(used())


def in_a_loop(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """What it gives, in a thread of its own: Playwright's browser tests leave a loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
