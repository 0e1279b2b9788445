"""A class that follows its teacher: what those who follow cost the server, beside three who type, and how far they are
behind.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import psutil
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.benchmarks.full_class import PACE, sentence
from tests.benchmarks.results import options, publish
from tests.benchmarks.visitors import Visitor, quantile
from tests.browser.server import serve

TYPISTS, BEHIND = 3, 0.3  # who type; seconds that one who follows may be behind
PAUSE = 1.0  # seconds after a sentence, in which it is looked at
EARLY = 1.0  # seconds before the end of the teacher's run of the script: others may have what it has published by then
PAGES = ("attention", "masks", "residual", "predictions")


@dataclass
class Person(Visitor):
    """A visitor who knows his page and his address, as a browser does. seen: when each text was first in the tokens;
    turned: when a run of the script had drawn each page that was turned to, in turn.
    """

    seen: dict[str, float] = field(default_factory=dict)
    turned: list[tuple[str, float]] = field(default_factory=list)
    running: set[asyncio.Task[None]] = field(default_factory=set)
    follows: bool = False

    def look_at_page(self, message: ForwardMsg) -> None:
        if message.WhichOneof("type") == "navigation":
            names = {each.page_script_hash: each.url_pathname for each in message.navigation.app_pages}
            self.page = names.get(message.navigation.page_script_hash, self.page)
        if message.WhichOneof("type") == "script_finished" and self.turned and self.page != self.turned[-1][0]:
            self.turned.append((self.page, time.perf_counter()))
        if message.WhichOneof("type") == "page_info_changed":
            self.query = message.page_info_changed.query_string

    def look_at_tokens(self, text: str) -> None:
        self.seen.setdefault(text, time.perf_counter())

    def _hear(self, message: dict[str, Any]) -> None:
        super()._hear(message)
        if message.get("script"):  # as the browser does it
            task = asyncio.create_task(self.run_script())
            self.running.add(task)
            task.add_done_callback(self.running.discard)


async def give_lesson(person: Person, seconds: float, chance: random.Random) -> None:
    """Type a sentence, look at it, and after each second one turn the page."""
    end, page = asyncio.get_running_loop().time() + seconds, 0
    await asyncio.sleep(chance.random() * PACE)
    while asyncio.get_running_loop().time() < end:
        for _ in range(2):
            text = sentence(chance)
            for length in range(1, len(text) + 1):
                await person.type(text[:length])
                await asyncio.sleep(PACE)
            await person.learn()
            await asyncio.sleep(PAUSE)
        page += 1
        await person.turn(PAGES[page % len(PAGES)])


@dataclass
class Measured:
    """What a class cost. used: processor time of the server, of a core. behind: seconds from the teacher's
    window to each other, of what is typed; pages: of pages that are turned.
    """

    used: float
    behind: list[float]
    pages: list[float]
    faults: list[str]

    def words(self) -> str:
        if not self.behind:
            return f"{self.used:5.1%} of a core, {len(self.faults)} faults {self.faults[:1] or ''}"
        half, most = (1000 * quantile(self.behind, share) for share in (0.5, 0.99))
        page, last = (1000 * quantile(self.pages, share) for share in (0.5, 0.99))
        return (
            f"{self.used:5.1%} of a core; half of what is typed {half:.0f} ms behind the teacher's own window, 99 of "
            f"100 within {most:.0f} ms; of the pages that are turned half {page:.0f} ms, 99 of 100 within {last:.0f} "
            f"ms; {len(self.faults)} faults {self.faults[:1] or ''}"
        )


@contextmanager
def processor_time(address: str) -> Iterator[Callable[[], float]]:
    """Seconds of processor time of the server at this address."""
    port = int(address.rpartition(":")[2])
    listening = (each for each in psutil.net_connections("tcp") if each.status == "LISTEN")
    server = psutil.Process(next(each.pid for each in listening if each.laddr.port == port))
    yield lambda: sum(server.cpu_times()[:2])


async def class_of(address: str, followers: int, teachers: int, seconds: float) -> Measured:
    """So many who give a lesson, and so many who follow the first of them."""
    async with AsyncExitStack() as stack:
        people = [await stack.enter_async_context(Person(address, page="attention").there()) for _ in range(teachers)]
        first, others = people[0], []
        if followers:
            await first.press("page_file", "class", 1)
            code = parse_qs(first.query)["class"][0]
            for _ in range(followers):
                other = Person(address, query=f"join={code}", follows=True)
                others.append(await stack.enter_async_context(other.there()))
        await asyncio.sleep(2)
        for each in (*people, *others):
            each.turned = [(each.page, time.perf_counter())]
        with processor_time(address) as used:
            before, since = used(), time.perf_counter()
            await asyncio.gather(*(give_lesson(each, seconds, random.Random(at)) for at, each in enumerate(people)))
            await settled(others, first)
            spent = (used() - before) / (time.perf_counter() - since)
        every = [*people, *others]
        faults = [fault for each in every for fault in each.faults]
        faults += [
            f"one who follows is on {each.page!r}, not {first.page!r}" for each in others if each.page != first.page
        ]
        behind = [
            max(0.0, at - first.seen[text]) for each in others for text, at in each.seen.items() if text in first.seen
        ]
        pages = [wait for each in others for wait in waits(first.turned[1:], each.turned[1:])]
        await asyncio.gather(*(task for each in every for task in each.running))
        return Measured(spent, behind, pages, faults)


def waits(before: list[tuple[str, float]], after: list[tuple[str, float]]) -> list[float]:
    """Seconds from the teacher's turning of each page until one who follows had it, too; of those that he had."""
    seconds = []
    for (page, at), (_page, end) in zip(before, [*before[1:], ("", math.inf)], strict=True):
        moment = next((when for name, when in after if name == page and at - EARLY <= when < end), None)
        if moment is not None:
            seconds.append(max(0.0, moment - at))
    return seconds


async def settled(others: list[Person], first: Person) -> None:
    """Wait until all who follow are where the teacher is."""
    end = time.perf_counter() + 20
    while time.perf_counter() < end and any(each.page != first.page for each in others):
        await asyncio.sleep(0.05)


def measure(address: str, seconds: float, followers: list[int]) -> list[str]:
    lines = []

    def line(name: str, measured: Measured) -> Measured:
        lines.append(f"{name:28} {measured.words()}")
        print(lines[-1], flush=True)
        return measured

    def run(count: int, teachers: int) -> Measured:
        work: Awaitable[Measured] = class_of(address, count, teachers, seconds)
        return asyncio.run(work)  # type: ignore[arg-type]

    run(0, 1)  # what is imported and opened once
    alone = line("a teacher alone", run(0, 1))
    typists = line(f"{TYPISTS} who type", run(0, TYPISTS))
    for count in followers:
        both = line(f"a teacher, and {count} who follow", run(count, 1))
        share = (both.used - alone.used) / typists.used
        lines.append(
            f"  {count} who follow cost {share:.2f} of what {TYPISTS} who type do"
            + (" (goal 1)" if count == 30 else "")
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = options(__doc__ or "", seconds=(40, "that each class lasts"))
    parser.add_argument("--followers", type=int, nargs="*", default=[1, 30, 60], help="how many each class has")
    given = parser.parse_args()
    with serve("app.py") as address:
        lines = measure(address, given.seconds, given.followers)
    lines.append(
        f"goal for one on one machine: {1000 * BEHIND:.0f} ms. Limited by the clients, which have the same cores"
    )
    publish("A class that follows its teacher", lines, given.write)


if __name__ == "__main__":
    main()
