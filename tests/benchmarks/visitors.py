"""Visitors without a browser: the two websockets of a window, Streamlit's and the channel, read to the last frame."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from viz.state.session import FIRST_SOURCE

SCRIPT_PATIENCE = 300.0  # seconds for a run of the script


@dataclass
class Keystroke:
    """A change of a text: when it was sent, and the seconds until a frame of it or of a later one was read."""

    edit: int
    sent: float
    waited: float | None = None


@dataclass
class Visitor:
    """A window that types, clicks and turns pages, and paints nothing.

    strokes: every change that it sent.
    faults: what should never be: another's text, a message that means nothing, an error of the page.
    """

    address: str
    page: str = ""
    strokes: list[Keystroke] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)  # what the channel said in words
    alerts: list[str] = field(default_factory=list)  # what the page warned of, at any time
    text: str = ""
    texts: set[str] = field(default_factory=lambda: {FIRST_SOURCE})  # that it has had in its field
    frames: int = 0
    bytes: int = 0
    runs: int = 0  # of the script that have finished
    headers: dict[str, str] = field(default_factory=dict)  # of both websockets, such as another cookie
    query: str = ""  # of the address
    _token: str = ""
    _edit: int = 0
    _turn: int = 0
    _ids: dict[str, str] = field(default_factory=dict)  # Streamlit's names of the components
    _pages: dict[str, str] = field(default_factory=dict)
    _finished: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def there(self) -> AsyncIterator[Self]:
        """The window, once its first page is drawn and its channel is open, until the end of the block."""
        place = self.address.replace("http", "ws", 1)
        origin = {"origin": self.address, "additional_headers": self.headers, "max_size": None, "ping_interval": None}
        async with connect(f"{place}/_stcore/stream", subprotocols=["streamlit"], **origin) as self._streamlit:  # type: ignore[arg-type]
            reading = asyncio.create_task(self._read_script())
            try:
                await self.run_script()
                while not self._token:  # it has gone to another page first
                    await asyncio.sleep(0.01)
                async with connect(f"{place}/channel", **origin) as self._channel:  # type: ignore[arg-type]
                    await self._say(token=self._token)
                    hearing = asyncio.create_task(self._read_channel())
                    try:
                        yield self
                    finally:
                        hearing.cancel()
                        await asyncio.gather(hearing, return_exceptions=True)
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def type(self, text: str) -> None:
        """One keystroke: the field holds this text now."""
        self.text = text
        self.texts.add(" ".join(text.split()))
        self._edit += 1
        self.strokes.append(Keystroke(self._edit, time.perf_counter()))
        await self._say(type="source", text=text, edit=self._edit)

    async def click(self, view: str, name: str, value: Any) -> None:
        """A click that the channel answers."""
        await self._say(answer=view, name=name, value=value)

    async def turn(self, page: str) -> None:
        """Another page."""
        self.page = page
        await self.run_script()

    async def run_script(self, *states: WidgetState) -> None:
        """Ask for a run of the script, and wait until it has finished."""
        message = BackMsg()
        message.rerun_script.query_string = self.query
        message.rerun_script.page_script_hash = self._pages.get(self.page, "")
        message.rerun_script.page_name = "" if self._pages else self.page
        message.rerun_script.widget_states.widgets.extend(states)
        message.rerun_script.context_info.timezone = "UTC"
        message.rerun_script.context_info.locale = "en"
        message.rerun_script.context_info.url = self.address
        self._finished.clear()
        await self._streamlit.send(message.SerializeToString())
        async with asyncio.timeout(SCRIPT_PATIENCE):
            await self._finished.wait()

    async def learn(self) -> None:
        """The script learns the text, as it does where nobody types any more."""
        self._turn += 1
        value = {"text": {"text": self.text, "edit": self._edit, "turn": self._turn}}
        await self.run_script(WidgetState(id=self._ids["source"], json_value=json.dumps(value)))

    async def press(self, view: str, event: str, value: Any) -> None:
        """A click that the script answers."""
        told = json.dumps([{"event": event, "value": value}])
        name = f"$$STREAMLIT_INTERNAL_KEY_{self._ids[view]}__events"
        await self.run_script(WidgetState(id=name, json_trigger_value=told))

    async def settled(self, patience: float = 60.0) -> bool:
        """Wait until what was typed last is drawn; whether it was."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while self.strokes and self.strokes[-1].waited is None:
                    await asyncio.sleep(0.02)
        return not self.strokes or self.strokes[-1].waited is not None

    async def _say(self, **message: Any) -> None:
        await self._channel.send(json.dumps(message))

    async def _read_script(self) -> None:
        async for data in self._streamlit:
            self.bytes += len(data)
            message = ForwardMsg.FromString(data)  # type: ignore[arg-type]
            kind = message.WhichOneof("type")
            self.look_at_page(message)
            if kind == "navigation":
                self._pages = {page.url_pathname: page.page_script_hash for page in message.navigation.app_pages}
            elif kind == "delta" and message.delta.new_element.WhichOneof("type") == "bidi_component":
                shown = message.delta.new_element.bidi_component
                self._ids[shown.id.rpartition("-")[2]] = shown.id
                if shown.id.endswith("-channel"):
                    self._token = json.loads(shown.mixed.json or shown.json)["token"]
            elif kind == "delta" and message.delta.new_element.WhichOneof("type") == "exception":
                self.faults.append(f"an exception: {message.delta.new_element.exception.message[:200]}")
            elif kind == "delta" and message.delta.new_element.WhichOneof("type") == "alert":
                self.alerts.append(message.delta.new_element.alert.body)
            elif kind == "script_finished":
                self.runs += 1
                self._finished.set()

    async def _read_channel(self) -> None:
        try:
            async for data in self._channel:
                if isinstance(data, str):
                    self._hear(json.loads(data))
                else:
                    self._read(data)
                    await self._say(seen=self._number)
        except ConnectionClosed as end:
            self.faults.append(f"the channel has ended: {end}")
        except (ValueError, LookupError, TypeError) as error:
            self.faults.append(f"what came means nothing: {error!r}")

    def _hear(self, message: dict[str, Any]) -> None:
        self.told.append(message)

    def _read(self, data: bytes) -> None:
        now = time.perf_counter()
        self.bytes += len(data)
        at = 4 + int.from_bytes(data[:4], "little")
        header = json.loads(data[4:at])
        self._number = header["number"]
        for size in header["frames"]:
            self.frames += 1
            self._look_at(data[at : at + size])
            at += size
        drawn = header["edits"].get("source", 0)
        if not header["more"]:
            for stroke in reversed(self.strokes):
                if stroke.waited is not None:
                    break
                if stroke.edit <= drawn:
                    stroke.waited = now - stroke.sent

    def look_at_page(self, message: ForwardMsg) -> None:
        """Hook for who wants to know what page and address the script has set."""

    def look_at_tokens(self, text: str) -> None:
        """Hook for who wants to know when a text was drawn."""

    def _look_at(self, frame: bytes) -> None:
        """Tokens are those of a text of this very window."""
        start = 4 + int.from_bytes(frame[:4], "little")
        stamp = json.loads(frame[4:start])
        if stamp["key"] == "tokens":
            length = int.from_bytes(frame[start : start + 4], "little")
            tokens = json.loads(frame[start + 4 : start + 4 + length])["source"]
            shown = "".join(each["label"] for each in tokens if not each["special"]).replace("▁", " ").strip()
            self.look_at_tokens(shown)
            if self.strokes and shown not in self.texts:
                self.faults.append(f"tokens of no text of this window: {shown!r}")


def quantile(values: list[float], share: float) -> float:
    """The value below which this share of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
