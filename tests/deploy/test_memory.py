"""A server with little memory, of which more visitors want a training than it has room for."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.benchmarks.soak import server_at
from tests.benchmarks.visitors import Visitor
from tests.browser.server import serve
from tests.event_loop import run

pytestmark = [pytest.mark.slow, pytest.mark.browser]
LIMIT = 2_000  # megabytes
VISITORS = 6


def test_what_does_not_fit_is_refused_with_the_numbers_and_the_process_stays_below_its_limit():
    async def use(address: str) -> tuple[list[str], float]:
        server, most = server_at(address), 0.0
        async with AsyncExitStack() as stack:
            there = [await stack.enter_async_context(Visitor(address).there()) for _ in range(VISITORS)]
            await asyncio.gather(*(each.press("training_strip", "act", {"name": "run"}) for each in there))
            for _ in range(40):
                await asyncio.sleep(0.5)
                most = max(most, server.memory_info().rss / 1e6)
            for each in there:  # the server is there for all of them
                await each.type("I am a teacher.")
                assert await each.settled()
                assert not each.faults
            return [alert for each in there for alert in each.alerts if "GB are free" in alert], most

    with serve("app.py", VITRINE_MEMORY=f"{LIMIT}MB") as address:
        refused, most = run(use(address))
    assert 1 <= len(refused) < VISITORS
    assert all(alert.startswith("the training needs about") for alert in refused)
    assert most < LIMIT
