"""How many messages websockets may bring: Streamlit's own behind the guard, with a clock of the test."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.websockets import WebSocket, WebSocketDisconnect
from streamlit import config

from tests.event_loop import run
from viz.frame import allowance
from viz.frame.guard import Guard


class Clock:
    """Seconds, which pass only where somebody waits."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setitem(config.get_config_options(), "server.allowedHosts", SimpleNamespace(value=["localhost"]))
    monkeypatch.setattr(allowance, "time", clock)
    monkeypatch.setattr(allowance, "asyncio", SimpleNamespace(Lock=asyncio.Lock, sleep=clock.sleep))
    return clock


class Flood:
    """Messages of a websocket, so many seconds apart each: when each was heard, and the code of its end."""

    def __init__(self, clock: Clock, *pauses: float) -> None:
        self.heard: list[float] = []
        self.code, self.later, self.message = 0, "", b"\x5a\x00"
        self._clock, self._pauses, self._first = clock, iter(pauses), True

    async def through(self, guard: Guard, path: str = "/_stcore/stream") -> None:
        scope = {"type": "websocket", "path": path, "headers": [(b"host", b"localhost")], "client": ("127.0.0.1", 9)}
        await guard({**scope, "flood": self}, self._receive, self._send)

    async def hear(self, socket: WebSocket) -> None:
        await socket.accept()
        try:
            while True:
                await socket.receive_bytes()
                self.heard.append(self._clock.now)
        except WebSocketDisconnect:
            pass
        try:
            await socket._send({"type": "websocket.send", "bytes": b"x"})  # by a run of the script that began before
        except OSError as error:
            self.later = str(error)

    async def _receive(self) -> dict[str, Any]:
        if self._first:
            self._first = False
            return {"type": "websocket.connect"}
        pause = next(self._pauses, None)
        if pause is None:
            return {"type": "websocket.disconnect", "code": 1001}
        self._clock.now += pause
        return {"type": "websocket.receive", "bytes": self.message}

    async def _send(self, message: Any) -> None:
        if message["type"] == "websocket.close":
            self.code = message["code"]


async def behind(scope: Any, receive: Any, send: Any) -> None:
    await scope["flood"].hear(WebSocket(scope, receive, send))


def heard(clock: Clock, *pauses: float, path: str = "/_stcore/stream", size: int = 2) -> Flood:
    flood = Flood(clock, *pauses)
    flood.message = bytes(size)

    async def use() -> None:
        await flood.through(Guard(behind), path)

    run(use())
    return flood


@pytest.mark.parametrize(
    "pauses",
    [
        [1 / 33] * 2000,  # a key that is held down for a minute
        [0.0] * 30,  # thirty at once
        ([0.0] * 20 + [1.0]) * 20,  # pages that are turned in haste
    ],
)
def test_what_a_person_causes_is_heard_whole_and_at_once(clock, pauses):
    flood = heard(clock, *pauses)
    assert (len(flood.heard), flood.code, flood.later) == (len(pauses), 0, "")
    assert clock.now == pytest.approx(sum(pauses))


def test_108_kilobytes_of_reruns_are_dropped_and_their_websocket_is_closed(clock):
    flood = heard(clock, *[0.00001] * 54_000)
    assert 40 <= len(flood.heard) < 120
    assert flood.code == 1008
    assert flood.later == "the websocket is closed"


def test_who_is_a_little_too_fast_loses_some_messages_and_is_heard_again(clock):
    flood = heard(clock, *[1 / 50] * 250, *[1.0] * 10)  # in five seconds ten a second too many, of which 39 may come
    assert len(flood.heard) == pytest.approx(195 + 10, abs=2)
    assert (flood.code, flood.heard[-10:]) == (0, pytest.approx([6.0 + number for number in range(10)]))


def test_large_messages_count_as_many_and_one_of_them_is_always_heard(clock):
    """A megabyte of a hundred thousand widgets holds everybody up for a fifth of a second."""
    flood = heard(clock, *[0.0] * 100, size=1_000_000)
    assert len(flood.heard) == 3
    assert flood.code == 1008
    texts = heard(clock, *[2.0] * 10, size=6_000_000)  # what twenty long texts take, and each click brings them again
    assert (len(texts.heard), texts.code) == (10, 0)


def test_what_many_websockets_bring_together_waits_each_for_its_turn(clock):
    floods = [Flood(clock, *[0.0] * 40) for _ in range(20)]

    async def use() -> None:
        guard = Guard(behind)
        await asyncio.gather(*(each.through(guard) for each in floods))

    run(use())
    moments = sorted(moment for each in floods for moment in each.heard)
    assert len(moments) == 20 * 40  # nobody was too fast alone
    seconds = Counter(int(moment) for moment in moments)
    assert seconds[0] <= 60 + 60
    assert max(count for second, count in seconds.items() if second) <= 61
    shares = [sum(moment < 5 for moment in each.heard) for each in floods]
    assert max(shares) - min(shares) <= 1


def test_the_channel_merges_what_it_is_sent_by_itself(clock):
    assert len(heard(clock, *[0.0] * 500, path="/channel").heard) == 500
