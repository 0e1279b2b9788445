"""How many messages a websocket may bring: Streamlit's own behind the guard, with a clock of the test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from starlette.websockets import WebSocket, WebSocketDisconnect
from streamlit import config

from tests.event_loop import run
from viz.frame import allowance
from viz.frame.guard import Guard


class Flood:
    """Messages of a websocket, so many seconds apart each: which of them were heard, and the code of its end."""

    def __init__(self, monkeypatch, *pauses: float, path: str = "/_stcore/stream") -> None:
        self.heard, self.code, self.later = 0, 0, ""
        self._pauses, self._now = iter(pauses), 0.0
        monkeypatch.setitem(config.get_config_options(), "server.allowedHosts", SimpleNamespace(value=["localhost"]))
        monkeypatch.setattr(allowance, "time", SimpleNamespace(monotonic=lambda: self._now))
        scope = {"type": "websocket", "path": path, "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 9)}
        self._first = True
        run(Guard(self._behind)(scope, self._receive, self._send))

    async def _behind(self, scope: Any, receive: Any, send: Any) -> None:
        socket = WebSocket(scope, receive, send)
        await socket.accept()
        try:
            while True:
                await socket.receive_bytes()
                self.heard += 1
        except WebSocketDisconnect:
            pass
        try:
            await send({"type": "websocket.send", "bytes": b"drawn"})  # by a run of the script that has begun before
        except OSError as error:
            self.later = str(error)

    async def _receive(self) -> dict[str, Any]:
        if self._first:
            self._first = False
            return {"type": "websocket.connect"}
        pause = next(self._pauses, None)
        if pause is None:
            return {"type": "websocket.disconnect", "code": 1001}
        self._now += pause
        return {"type": "websocket.receive", "bytes": b"\x5a\x00"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "websocket.close":
            self.code = message["code"]


@pytest.mark.parametrize(
    "pauses",
    [
        [1 / 33] * 2000,  # a key that is held down for a minute
        [0.0] * 30,  # thirty files that have come at once
        ([0.0] * 20 + [1.0]) * 20,  # pages that are turned in haste
    ],
)
def test_what_a_person_causes_is_heard_whole(monkeypatch, pauses):
    flood = Flood(monkeypatch, *pauses)
    assert (flood.heard, flood.code) == (len(pauses), 0)
    assert not flood.later


def test_108_kilobytes_of_reruns_are_dropped_and_their_websocket_is_closed(monkeypatch):
    flood = Flood(monkeypatch, *[0.00001] * 54_000)
    assert (flood.heard, flood.code) == (80, 1008)
    assert flood.later == "the websocket is closed"


def test_who_is_a_little_too_fast_loses_some_messages_and_is_heard_again(monkeypatch):
    flood = Flood(monkeypatch, *[0.0] * 120, *[0.5] * 10)
    assert (flood.heard, flood.code) == (80 + 8, 0)  # 40 too many are made up for by two halves of a second


def test_the_channel_merges_what_it_is_sent_by_itself(monkeypatch):
    assert Flood(monkeypatch, *[0.0] * 500, path="/channel").heard == 500
