"""Two replicas behind nginx beside one: how many inputs they draw in a second for the same full class."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.full_class import Class, write
from tests.benchmarks.results import options, publish
from tests.benchmarks.visitors import Visitor
from tests.deploy.replicas import NGINX, replicas


async def behind_nginx(address: str, count: int, seconds: float) -> Class:
    """So many visitors with cookies that share them out."""
    async with AsyncExitStack() as stack:
        visitors = [
            await stack.enter_async_context(
                Visitor(address, headers={"Cookie": f"vitrine_place={number % 2 + 1}"}).there()
            )
            for number in range(count)
        ]
        await asyncio.gather(*(write(each, seconds, random.Random(number)) for number, each in enumerate(visitors)))
        await asyncio.gather(*(each.settled() for each in visitors))
        return Class(visitors, seconds)


def main() -> None:
    parser = options(__doc__ or "", seconds=(30, "that each class types"), visitors=(24, "in the class"))
    given = parser.parse_args()
    if NGINX is None:
        raise SystemExit("this benchmark needs nginx, and there is none (Debian: apt-get install nginx-light)")
    drawn: dict[int, float] = {}
    lines = []
    for count in (1, 2):
        with TemporaryDirectory() as folder, replicas(Path(folder), count) as found:
            made = asyncio.run(behind_nginx(found.address, given.visitors, given.seconds))
        drawn[count] = sum(made.drawn)
        lines.append(f"{count} replica{'s' * (count > 1)}: {made.line()}")
        print(lines[-1], flush=True)
    lines.append(f"two draw {drawn[2] / drawn[1]:.2f} times as many as one (goal 1.6)")
    lines.append("limited by the clients, which have the same two cores")
    publish("Two replicas behind nginx", lines, given.write)


if __name__ == "__main__":
    main()
