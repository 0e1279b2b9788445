"""A server and a Chromium for all browser tests. No test may leave an error, a dialog or a foreign request behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from model.checkpoints import open_checkpoint
from model.inspectable import Inspectable
from tests.browser.server import CHROMIUM, CHROMIUM_OPTIONS, ROOT, serve

HERE = ("127.0.0.1", "localhost")
PATIENCE = 40_000  # milliseconds: these machines are shared
expect.set_options(timeout=PATIENCE)


class Visit:
    """A browser window on the application, and what went wrong in it."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.url = url
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.local = 0
        context.on("request", lambda request: self._count(request.url))
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.errors.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("websocket", lambda socket: self._count(socket.url))

    def open(self, **address: str) -> Page:
        self.page.goto(f"{self.url}/?{urlencode(address)}", wait_until="commit")
        expect(self.page.locator(".vitrine.heatmap[data-painted]")).to_be_visible()
        return self.page

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
        chromium = play.chromium.launch(**CHROMIUM_OPTIONS)  # type: ignore[arg-type]
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Browser, url: str) -> Iterator[Callable[..., Visit]]:
    """Opens windows; after the test, none of them may have seen an error or asked another machine."""
    contexts, visits = [], []

    def new(**options: object) -> Visit:
        settings = {"viewport": {"width": 1440, "height": 900}, "locale": "en-US", "service_workers": "block"}
        contexts.append(browser.new_context(**(settings | options)))  # type: ignore[arg-type]
        visits.append(Visit(contexts[-1], url))
        return visits[-1]

    yield new
    for context in contexts:
        context.close()
    for visited in visits:
        assert not visited.errors
        assert not visited.foreign


@pytest.fixture(scope="session")
def lens() -> Inspectable:
    """The bundled model, to know what the page must show."""
    return open_checkpoint(ROOT / "checkpoints" / "eng-cmn")


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """An empty page, for a component by itself."""
    context = browser.new_context(viewport={"width": 1000, "height": 900}, device_scale_factor=1)
    yield context.new_page()
    context.close()
