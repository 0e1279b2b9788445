"""How many messages a websocket may bring: as many as a person causes. Each of Streamlit's asks for a run of the script
and holds everybody up for a millisecond or two, so that some thousand of them, a hundred kilobytes, stop a server.
"""

from __future__ import annotations

import time

from starlette.types import Message, Receive, Send

PER_SECOND, BURST = 40.0, 80.0  # a key that is held down comes 33 times a second; a page asks for a few at once
POLICY = 1008  # code of a websocket's end: what came is against the rules


def limited(receive: Receive, send: Send) -> tuple[Receive, Send]:
    """The same websocket without the messages that come faster than PER_SECOND, but for BURST of them; where as many
    again come too fast, it is closed.
    """
    left, since, closed = BURST, time.monotonic(), False

    async def receive_some() -> Message:
        nonlocal left, since, closed
        while True:
            message = await receive()
            if message["type"] != "websocket.receive":
                return message
            now = time.monotonic()
            left, since = min(BURST, left + PER_SECOND * (now - since)) - 1, now
            if left >= 0:
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
