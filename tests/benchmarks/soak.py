"""A long lesson: visitors come, type, turn pages, train a few steps and go; what the server keeps of them then."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import psutil

from tests.benchmarks.full_class import PACE, sentence
from tests.benchmarks.results import options, publish
from tests.benchmarks.visitors import Visitor, quantile
from tests.browser.server import serve

PAGES = ("map", "positions", "", "masks", "residual", "feed_forward", "predictions", "training", "checkpoints", "lab")


@dataclass
class Lesson:
    """What came of it. waits: seconds from a keystroke to its frame."""

    waits: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    sessions: int = 0
    turns: int = 0
    steps: int = 0
    unseen: int = 0


async def visit(address: str, lesson: Lesson, chance: random.Random, seconds: float, first: Sequence[str] = ()) -> None:
    """One visitor's stay: sentences, pages and a few steps of training, in any order. first: pages to begin with, and
    then a step.
    """
    end = time.monotonic() + seconds
    try:
        async with Visitor(address).there() as visitor:
            for page in first:
                await visitor.turn(page)
            if first:
                await visitor.press("training_strip", "act", {"name": "advance", "count": 2})
                await asyncio.sleep(4)
            while time.monotonic() < end:
                what = chance.random()
                if what < 0.6:
                    text = sentence(chance)
                    for length in range(1, len(text) + 1):
                        await visitor.type(text[:length])
                        await asyncio.sleep(PACE)
                    await visitor.settled()
                    await visitor.learn()
                elif what < 0.9:
                    await visitor.turn(chance.choice(PAGES))
                    lesson.turns += 1
                else:
                    await visitor.press("training_strip", "act", {"name": "advance", "count": chance.choice((1, 2))})
                    lesson.steps += 1
                    await asyncio.sleep(2)
            await visitor.settled()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is counted
        lesson.faults.append(f"{type(error).__name__}: {error}")
        return
    lesson.sessions += 1
    lesson.faults += visitor.faults
    lesson.waits += [stroke.waited for stroke in visitor.strokes if stroke.waited is not None]
    lesson.unseen += sum(stroke.waited is None for stroke in visitor.strokes)


async def begin(address: str, count: int) -> None:
    """The first sessions: each turns all pages, begins with another one, and trains a step."""
    works = []
    for number in range(count):
        first = number % len(PAGES)
        pages = [*PAGES[first:], *PAGES[:first]]
        works.append(visit(address, Lesson(), random.Random(1000 + number), 40, pages))
    await asyncio.gather(*works)


async def watch(server: psutil.Process, found: list[int], seconds: float) -> None:
    """Resident memory in MB, ten times in so many seconds."""
    for _ in range(10):
        await asyncio.sleep(seconds / 10)
        found.append(round(server.memory_info().rss / 1e6))


async def give_lesson(address: str, lesson: Lesson, count: int, seconds: float, stay: float, seed: int) -> None:
    """So many visitors at a time; whoever goes makes room for the next."""
    end, numbers = time.monotonic() + seconds, iter(range(seed, 1_000_000))

    async def seat() -> None:
        while time.monotonic() < end:
            chance = random.Random(next(numbers))
            await visit(address, lesson, chance, min(stay * (0.5 + chance.random()), end - time.monotonic()))

    await asyncio.gather(*(seat() for _ in range(count)))


def looked_at(server: psutil.Process) -> dict[str, float]:
    """What the server has: memory in MB, descriptors, threads."""
    return {
        "MB resident": round(server.memory_info().rss / 1e6),
        "descriptors": server.num_fds(),
        "threads": server.num_threads(),
    }


def server_at(address: str) -> psutil.Process:
    port = int(address.rpartition(":")[2])
    return next(
        psutil.Process(each.pid)
        for each in psutil.net_connections("tcp")
        if each.status == "LISTEN" and each.laddr.port == port and each.pid
    )


def main() -> None:
    parser = options(
        __doc__ or "",
        minutes=(20, "of the lesson"),
        visitors=(12, "at a time"),
        stay=(60, "seconds of a visit, about"),
        first=(len(PAGES), "sessions after which the server is looked at, to be compared with the end"),
        rest=(70, "seconds after the last visitor before that: three looks of what gives memory back"),
    )
    given = parser.parse_args()
    # Whoever has gone is freed soon, and not after the minutes that a reload has.
    with serve("app.py", "--server.disconnectedSessionTTL", "5", VITRINE_KEPT_MINUTES="0.1") as address:
        server, lesson = server_at(address), Lesson()
        asyncio.run(begin(address, given.first))
        time.sleep(given.rest)
        first = looked_at(server)
        print("after the first sessions", first, flush=True)
        course: list[int] = []

        async def both() -> None:
            seconds = 60 * given.minutes
            watching = asyncio.create_task(watch(server, course, seconds))
            await give_lesson(address, lesson, given.visitors, seconds, given.stay, 0)
            await watching

        asyncio.run(both())
        time.sleep(given.rest)
        last = looked_at(server)
    lines = [
        f"{given.minutes} minutes, {given.visitors} visitors at a time: {lesson.sessions} sessions, "
        f"{len(lesson.waits):,} keystrokes, {lesson.turns} pages turned, {lesson.steps} clicks on steps of training",
        f"half of the keystrokes seen within {quantile(lesson.waits, 0.5):.2f} s, 99 of 100 within "
        f"{quantile(lesson.waits, 0.99):.2f} s; {lesson.unseen} never seen; {len(lesson.faults)} faults",
        f"MB resident meanwhile: {', '.join(map(str, course))}",
        *(f"{name}: {first[name]:,} after the first sessions, {last[name]:,} at the end" for name in first),
        "limited by one process's one core: at twelve visitors with pages, trainings and runs of the script it is full",
        *(f"  {fault[:200]}" for fault in sorted(set(lesson.faults))[:10]),
    ]
    publish("A long lesson", lines, given.write)


if __name__ == "__main__":
    main()
