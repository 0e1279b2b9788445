"""A window of Chromium for the benchmarks, in a browser of its own: a page in the background is throttled."""

from __future__ import annotations

from urllib.parse import urlencode

from playwright.sync_api import Page, Playwright

from tests.browser.server import CHROMIUM_OPTIONS, PATIENCE

READY = {  # what comes last on a page of the application, by its address
    "attention": ".vitrine.heatmap[data-painted]",
    "map": ".model_map[data-painted]",
}


def open_page(play: Playwright, server: str, name: str, **address: str) -> Page:
    """This page of the application, by its address, once it is drawn."""
    return open_window(play, f"{server}/{name}?{urlencode(address)}", READY[name])


def open_window(play: Playwright, url: str, ready: str) -> Page:
    """The page at this address, once what is `ready` is there."""
    browser = play.chromium.launch(**CHROMIUM_OPTIONS)  # type: ignore[arg-type]
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.wait_for_selector(ready)
    page.wait_for_timeout(2000)
    return page
