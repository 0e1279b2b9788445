"""A full class on one server: visitors who type four keys a second each and read every frame, and what they wait."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from dataclasses import dataclass

from tests.benchmarks.results import options, publish
from tests.benchmarks.visitors import Visitor, quantile
from tests.browser.server import serve

PACE = 0.25  # seconds between the keystrokes of a visitor
GOALS = {15: 1.0, 30: 2.5, 60: 6.0}  # seconds within which 99 of 100 keystrokes shall be seen, by visitors
NOUNS = ("dog", "teacher", "red car", "old house", "book", "friend", "letter", "city", "song", "garden")
VERBS = ("sees", "bought", "likes", "found", "reads", "has", "wants", "knew", "lost", "made")


@dataclass
class Class:
    """What came of a class of visitors. waits: seconds from each keystroke to what was seen of it."""

    visitors: list[Visitor]
    seconds: float

    @property
    def waits(self) -> list[float]:
        return [stroke.waited for each in self.visitors for stroke in each.strokes if stroke.waited is not None]

    @property
    def unseen(self) -> int:
        return sum(stroke.waited is None for each in self.visitors for stroke in each.strokes)

    @property
    def drawn(self) -> list[float]:
        """Inputs drawn in a second, of each visitor."""
        return [
            len({stroke.waited and round(stroke.sent + stroke.waited, 4) for stroke in each.strokes}) / self.seconds
            for each in self.visitors
        ]

    def line(self) -> str:
        waits, faults = self.waits, [fault for each in self.visitors for fault in each.faults]
        goal = f" (goal {GOALS[len(self.visitors)]:g})" if len(self.visitors) in GOALS else ""
        half, most = (quantile(waits, share) for share in (0.5, 0.99))
        return (
            f"{len(self.visitors):3} visitors  half within {half:5.2f} s, 99 of 100 within {most:5.2f} s{goal}; drawn "
            f"{sum(self.drawn):5.1f} a second, least {min(self.drawn):4.2f} of one; {self.unseen} never seen, "
            f"{len(faults)} faults {faults[:1] or ''}"
        )


def sentence(chance: random.Random) -> str:
    return f"The {chance.choice(NOUNS)} {chance.choice(VERBS)} the {chance.choice(NOUNS)}."


async def write(visitor: Visitor, seconds: float, chance: random.Random) -> None:
    """Sentences letter by letter, one after the other."""
    end = asyncio.get_running_loop().time() + seconds
    await asyncio.sleep(chance.random() * PACE)
    while asyncio.get_running_loop().time() < end:
        text = sentence(chance)
        for length in range(1, len(text) + 1):
            await visitor.type(text[:length])
            await asyncio.sleep(PACE)
            if asyncio.get_running_loop().time() >= end:
                return


async def class_of(count: int, address: str, seconds: float) -> Class:
    """So many visitors at once, each on the page of attention."""
    async with AsyncExitStack() as stack:
        visitors = [await stack.enter_async_context(Visitor(address).there()) for _ in range(count)]
        await asyncio.gather(*(write(each, seconds, random.Random(number)) for number, each in enumerate(visitors)))
        await asyncio.gather(*(each.settled() for each in visitors))
        return Class(visitors, seconds)


def main() -> None:
    parser = options(__doc__ or "", seconds=(30, "that each class types"))
    parser.add_argument("--classes", type=int, nargs="*", default=[1, *GOALS], help="how many visitors each has")
    parser.add_argument("--address", help="of a server that is there; by default one is started")
    given = parser.parse_args()
    lines = []
    with serve("app.py") as address:
        for count in given.classes:
            lines.append(asyncio.run(class_of(count, given.address or address, given.seconds)).line())
            print(lines[-1], flush=True)
    lines.append(
        "limited by Python's lock: one process draws on about one core. Where a keystroke's time went before checks"
    )
    lines.append(
        "were put off while others wait (py-spy, holders of the lock): writing the target 36 %, checks 20 %, the trace"
    )
    lines.append("13 %, packing 13 %, the loop 10 %")
    publish("A full class on one server", lines, given.write)


if __name__ == "__main__":
    main()
