"""Two replicas behind nginx: one that is killed costs its own visitors a reload, and nobody else anything."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from http.client import HTTPConnection
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.benchmarks.class_session import Person
from tests.benchmarks.visitors import Visitor
from tests.browser.looking import eventually, expect_painted, source
from tests.browser.test_training import reaches
from tests.deploy.replicas import NGINX, Replicas, replicas
from tests.event_loop import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(NGINX is None, reason="install nginx: apt-get install nginx-light"),
]


@pytest.fixture
def two(tmp_path) -> Iterator[Replicas]:
    with replicas(tmp_path, VITRINE_TRAININGS=str(tmp_path / "trainings")) as found:
        yield found


def visitor(address: str, number: int) -> Visitor:
    return Visitor(address, headers={"Cookie": f"vitrine_place={number % 2 + 1}"})


def test_a_replica_that_is_killed_costs_its_own_visitors_alone_a_reload(two):
    async def use() -> None:
        async with AsyncExitStack() as stack:
            there = [await stack.enter_async_context(visitor(two.address, number).there()) for number in range(8)]
            for each in there:
                await each.type("I am a teacher.")
                assert await each.settled()
            before = two.windows()
            assert min(before) >= 1  # they are shared out
            assert sum(before) == len(there)
            two.kill(0)
            for each in there:
                try:
                    await each.type("The dog sees a red car.")
                except Exception:  # noqa: BLE001 - its channel has ended
                    each.faults.append("gone")
            await asyncio.sleep(2)
            gone = [each for each in there if each.faults]
            assert len(gone) == before[0]
            assert all([await each.settled() for each in there if each not in gone])
            for number, each in enumerate(there):
                if each in gone:  # the window opens its address again, with its cookie
                    again = await stack.enter_async_context(visitor(two.address, number).there())
                    await again.type("The dog sees a red car.")
                    assert await again.settled()
                    assert not again.faults
            assert two.windows() == [0, len(there)]

    run(use())


def test_a_link_to_a_class_session_leads_to_the_replica_that_holds_it(two):
    def cookie_of(path: str, cookie: str = "") -> str:
        connection = HTTPConnection(urlsplit(two.address).netloc, timeout=120)
        connection.request("GET", path, headers={"Cookie": cookie} if cookie else {})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        cookies = answer.headers.get_all("Set-Cookie") or []
        return next((each.partition(";")[0] for each in cookies if each.startswith("vitrine_place=")), "")

    async def use() -> None:
        for number in range(2):
            async with Person(two.address, headers={"Cookie": f"vitrine_place={number + 1}"}).there() as teacher:
                await teacher.press("page_file", "class", 1)
                code = parse_qs(teacher.query)["class"][0]
                assert code.startswith(f"{number + 1}-")
                for cookie in ("", "vitrine_place=1", "vitrine_place=2", "vitrine_place=17"):
                    assert cookie_of(f"/?join={code}", cookie) == f"vitrine_place={number + 1}"
                before = two.windows()
                headers = {"Cookie": cookie_of(f"/?join={code}")}
                async with Person(two.address, query=f"join={code}", headers=headers).there() as other:
                    await teacher.type("The dog sees a red car.")
                    assert await teacher.settled()
                    for _ in range(100):
                        await asyncio.sleep(0.1)
                        if "The dog sees a red car." in other.seen:
                            break
                    assert "The dog sees a red car." in other.seen
                    assert two.windows()[number] == before[number] + 1
        assert cookie_of("/?join=3-ABCDEF") in ("vitrine_place=1", "vitrine_place=2")  # as any newcomer

    run(use())


def files_of_a_first_visit(address: str) -> tuple[str, Counter[int]]:
    """The cookie that a fresh browser is given, and how often each status came for the page and the files in it."""
    connection, statuses = HTTPConnection(urlsplit(address).netloc, timeout=120), Counter[int]()
    connection.request("GET", "/")
    answer = connection.getresponse()
    cookie = next(value for value in answer.headers.get_all("Set-Cookie") if value.startswith("vitrine_place="))
    found = re.findall(r'"\./(static/[^"]+)"', answer.read().decode())
    for path in ("", "_stcore/health", "_stcore/host-config", *found):
        connection.request("GET", f"/{path}", headers={"Cookie": cookie.partition(";")[0], "Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        answer.read()
        statuses[answer.status] += 1
    connection.close()
    return cookie.partition(";")[0], statuses


def test_thirty_visitors_who_arrive_within_three_seconds_see_their_page_and_type(two):
    async def arrive(number: int, stack: AsyncExitStack) -> Counter[int]:
        await asyncio.sleep(number / 10)
        cookie, statuses = await asyncio.to_thread(files_of_a_first_visit, two.address)
        own = await stack.enter_async_context(Visitor(two.address, headers={"Cookie": cookie}).there())
        await own.type("I am a teacher.")
        assert await own.settled()
        assert not own.faults
        return statuses

    async def use() -> list[Counter[int]]:
        async with AsyncExitStack() as stack:
            found = await asyncio.gather(*(arrive(number, stack) for number in range(30)))
            assert sum(two.windows()) == 30
            assert min(two.windows()) >= 8  # they are shared out
            return found

    statuses = run(use())
    assert all(set(each) == {200} and each.total() > 60 for each in statuses)


def test_in_the_browser_eight_who_come_at_once_get_their_page_and_ask_for_little_the_second_time(two, browser):
    def ask(context: BrowserContext) -> tuple[Page, list[str], list[str]]:
        page, faults, files = context.new_page(), list[str](), list[str]()
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("response", lambda answer: files.append(answer.url) if answer.url.startswith("http") else None)
        page.goto(two.address, wait_until="commit")
        return page, faults, files

    contexts = [browser.new_context(viewport={"width": 1440, "height": 900}) for _ in range(8)]
    for page, faults, files in [ask(context) for context in contexts]:
        expect(page.locator(".model_map[data-painted]")).to_be_visible()
        assert not faults
        assert 60 < len(files) < 110  # Streamlit's page alone names 62
    page = contexts[0].new_page()
    page.goto(two.address)
    expect(page.locator(".model_map[data-painted]")).to_be_visible()
    sent = page.evaluate("performance.getEntries().filter((each) => each.transferSize > 0).map((each) => each.name)")
    assert 1 <= len(sent) <= 4, sent  # its page, whether the server is there, and its settings
    for context in contexts:
        context.close()


def at_the_first(browser: Browser, two: Replicas) -> Page:
    """A page of the first replica: the other one's clock is late."""
    for _ in range(20):
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        page.goto(f"{two.address}/attention")
        expect(page.locator(".vitrine.heatmap[data-painted]")).to_be_visible()
        if two.windows()[0]:
            return page
        page.context.close()
    raise AssertionError("nginx sends nobody to the first replica")


def test_in_the_browser_a_page_comes_back_with_its_text_from_the_other_replica(two, browser, model):
    page, text = at_the_first(browser, two), "The dog sees a red car."
    source(page).fill(text)
    expect_painted(page, model, text)
    assert [cookie["name"] for cookie in page.context.cookies() if cookie["name"] == "vitrine_place"]
    two.kill(0)
    page.wait_for_timeout(3000)
    source(page).fill("I am a teacher.")
    expect_painted(page, model, "I am a teacher.")
    assert two.windows()[1] == 1
    page.reload()
    expect_painted(page, model, "I am a teacher.")
    page.context.close()


def test_a_training_comes_back_from_the_other_replica_with_its_film(two, browser):
    page = at_the_first(browser, two)
    for step in (1, 2):
        page.get_by_role("button", name="Train one step").click()
        reaches(page, step)
    expect(page.locator(".vitrine.strip")).to_have_attribute("data-status", "idle")
    eventually(page, lambda: "run=" in page.url)
    page.wait_for_timeout(1000)  # its state is written
    two.kill(0)
    page.wait_for_timeout(4000)
    page.reload()
    reaches(page, 2)
    assert two.windows()[1] == 1
    page.get_by_role("button", name="Train one step").click()
    reaches(page, 3)
    page.context.close()


def test_nginx_hides_what_is_not_for_visitors_and_limits_them(two):
    def status(path: str, **headers: str) -> int:
        request = urllib.request.Request(two.address + path, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return int(answer.status)
        except HTTPError as error:
            return error.code

    assert status("/") == 200
    assert status("/health") == 200
    assert [status(path) for path in ("/metrics", "/_stcore/metrics", "/ready")] == [404] * 3
    assert status("/", Host="attacker.example") == 403
    length = {"Content-Length": str(600 << 20)}
    request = urllib.request.Request(two.address + "/_stcore/upload_file/a/b", b"", length, method="PUT")
    with pytest.raises(HTTPError, match="413"):
        urllib.request.urlopen(request, timeout=60)
    with urllib.request.urlopen(f"{two.own[0]}/metrics", timeout=60) as answer:  # of a replica, from its own machine
        assert b"vitrine_sessions" in answer.read()
