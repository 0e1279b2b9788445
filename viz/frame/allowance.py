"""Limit of the messages that websockets may bring: as many as people cause. Each of Streamlit's asks for a run of the
script, for which a thread is begun while the one before ends: some hundred at once hold everybody up for seconds.
"""

from __future__ import annotations

import asyncio
import time

from starlette.types import Message, Receive, Send

PER_SECOND, BURST = 40.0, 40.0  # of one websocket; a key that is held down comes 33 times a second
ALL_PER_SECOND, ALL_BURST = 60.0, 60.0  # of all together: of a class that clicks at once
LARGE = 100_000  # bytes that cost as much as one message more; the largest has a limit in .streamlit/config.toml
POLICY = 1008  # code of a websocket's end: what came is against the rules


class Allowance:
    """Allowance of so many at once, and then so many a second. left: how many may come now; below 0, how many came too
    fast.
    """

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second, self._burst = per_second, burst
        self.left, self._since = burst, time.monotonic()

    def take(self, cost: float) -> float:
        """Number left after one more, or what costs as much as several."""
        now = time.monotonic()
        self.left, self._since = min(self._burst, self.left + self._per_second * (now - self._since)) - cost, now
        return self.left

    def late(self) -> float:
        """Seconds until none has come too fast."""
        return max(0.0, -self.left / self._per_second)


class Messages:
    """Allowance of all websockets of a server together: what they bring waits, each for its turn."""

    def __init__(self) -> None:
        self._all, self._turn = Allowance(ALL_PER_SECOND, ALL_BURST), asyncio.Lock()

    async def _wait(self, cost: float) -> None:
        async with self._turn:  # in the order in which they ask: whoever sends one waits for one of each other
            self._all.take(cost)
            await asyncio.sleep(self._all.late())

    def limited(self, receive: Receive, send: Send) -> tuple[Receive, Send]:
        """The same websocket without the messages that come faster than PER_SECOND, but for BURST of them; where as
        many again come too fast, it is closed.
        """
        own, closed = Allowance(PER_SECOND, BURST), False

        async def receive_some() -> Message:
            nonlocal closed
            while True:
                message = await receive()
                if message["type"] != "websocket.receive":
                    return message
                cost = min(BURST, 1 + len(message.get("bytes") or message.get("text") or "") / LARGE)
                left = own.take(cost)
                if left >= 0:
                    await self._wait(cost)
                    return message
                if left < -BURST:
                    closed = True
                    await send({"type": "websocket.close", "code": POLICY, "reason": "messages come too fast"})
                    return {"type": "websocket.disconnect", "code": POLICY}

        async def send_until_closed(message: Message) -> None:
            if closed:
                raise OSError("the websocket is closed")  # as of a browser that has gone
            await send(message)

        return receive_some, send_until_closed
