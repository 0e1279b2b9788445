"""A server and a Chromium for all browser tests. No test may leave an error, a dialog or a foreign request behind."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, Request, expect, sync_playwright

from model.checkpoints.load import open_checkpoint
from model.inference.text_model import TextModel
from tests.browser.server import CHROMIUM, CHROMIUM_OPTIONS, LOGS, PATIENCE, ROOT, said, serve

HERE = ("127.0.0.1", "localhost")
ARGUMENTS = [*CHROMIUM_OPTIONS["args"], "--process-per-site"]  # type: ignore[misc]
BROWSERS: list[Browser] = []
expect.set_options(timeout=PATIENCE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What fails in the browser is tried once more, and listed as tried again: between two looks at a page, a machine
    whose time is taken by others may have painted anything.
    """
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """With what fails goes what the open windows showed and the server said: on another machine nobody can look."""
    report = yield
    if report.failed and item.get_closest_marker("browser"):
        windows = [page for browser in BROWSERS for context in browser.contexts for page in context.pages]
        report.sections += [(f"window {page.url}", shown(page)) for page in windows if "/_stcore/" not in page.url]
        report.sections += [("server", said(log)) for log in LOGS]
    return report


def shown(page: Page) -> str:
    """The words of a window, if it answers."""
    try:
        return " · ".join(page.locator("body").inner_text(timeout=5000).split("\n"))[:2000]
    except Error as error:
        return f"does not answer: {error}"


class Visit:
    """A browser window on the application, and what went wrong in it."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.url = url
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.local = 0
        self.context = context
        context.on("request", self._requested)
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.errors.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("websocket", lambda socket: self._count(socket.url))

    def open(self, **address: str) -> Page:
        """On the page of attention."""
        self.page.goto(f"{self.url}/attention?{urlencode(address)}", wait_until="commit")
        expect(self.page.locator(".vitrine.heatmap[data-painted]")).to_be_visible()
        return self.page

    def _said(self, message: ConsoleMessage) -> None:
        address = urlsplit(message.location["url"]).path
        asks_for_base = "/_stcore/" in address.removeprefix("/_stcore/")  # Streamlit looks where its server begins
        if message.type == "error" and not asks_for_base:
            self.errors.append(message.text)

    def close(self) -> None:
        """Leaves a context that can be used again as it was."""
        self.context.remove_listener("request", self._requested)
        first, *others = self.context.pages
        for page in others:
            page.close()
        first.wait_for_function("() => { localStorage.clear(); return true; }")  # which waits no longer than PATIENCE
        self.context.clear_cookies()

    def _requested(self, request: Request) -> None:
        self._count(request.url)

    def _count(self, url: str) -> None:
        ours = urlsplit(url).hostname in HERE or urlsplit(url).scheme in ("data", "blob")
        self.local += ours
        if not ours:
            self.foreign.append(url)


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    with serve("app.py") as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    assert CHROMIUM, "install Chromium: apt-get install chromium"
    with sync_playwright() as play:
        chromium = play.chromium.launch(**CHROMIUM_OPTIONS | {"args": ARGUMENTS})  # type: ignore[arg-type]
        BROWSERS.append(chromium)
        yield chromium
        BROWSERS.remove(chromium)
        chromium.close()


@pytest.fixture(scope="session")
def contexts() -> dict[str, list[BrowserContext]]:
    """By their settings, each with a first page that stays: where one process of the browser has loaded Streamlit
    before, a page is opened for half the work.
    """
    return defaultdict(list)


@pytest.fixture
def visit(browser: Browser, contexts: dict[str, list[BrowserContext]], url: str) -> Iterator[Callable[..., Visit]]:
    """Opens windows, each of another person; after the test, none may have seen an error or asked another machine, and
    what was saved through them is gone.
    """
    visits: list[Visit] = []
    saved = Path(os.environ["VITRINE_SAVED"])
    before = set(saved.iterdir())

    def new(**options: object) -> Visit:
        settings = {"viewport": {"width": 1440, "height": 900}, "locale": "en-US", "service_workers": "block"}
        settings |= options
        alike = contexts[str(settings)]
        others = sum(each.context in alike for each in visits)
        if len(alike) == others:
            alike.append(browser.new_context(**settings))  # type: ignore[arg-type]
            alike[-1].set_default_timeout(PATIENCE)
            alike[-1].new_page().goto(f"{url}/_stcore/health")
        visits.append(Visit(alike[others], url))
        return visits[-1]

    yield new
    for visited in visits:
        try:
            visited.close()
        except Error as error:
            visited.errors.append(str(error))
            contexts.clear()  # the next test has others
    for folder in set(saved.iterdir()) - before:
        shutil.rmtree(folder)
    for visited in visits:
        assert not visited.errors
        assert not visited.foreign


@pytest.fixture(scope="session")
def model() -> TextModel:
    """The bundled model, to know what the page must show."""
    return open_checkpoint(ROOT / "checkpoints" / "eng-cmn")


@pytest.fixture(scope="session")
def one_page(browser: Browser) -> Page:
    """For all components by themselves: a page of its own in a context of its own costs each a second of processor."""
    context = browser.new_context(device_scale_factor=1)
    context.set_default_timeout(PATIENCE)
    return context.new_page()


@pytest.fixture
def page(one_page: Page) -> Iterator[Page]:
    """An empty page, of a size that its test may change, for components by themselves; no script may fail on it."""
    errors: list[str] = []

    def fail(error: Error) -> None:
        errors.append(str(error))

    one_page.goto("about:blank")
    one_page.set_viewport_size({"width": 1200, "height": 1100})
    one_page.set_content("<body></body>")
    one_page.on("pageerror", fail)
    yield one_page
    one_page.remove_listener("pageerror", fail)
    one_page.unroute_all()
    assert not errors
