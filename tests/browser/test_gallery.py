"""The pictures of docs/gallery.md and of the README, photographed from the application.

They are kept where VITRINE_GALLERY says, `VITRINE_GALLERY=docs/pictures`; without it they are made and thrown away.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import FAILURE, source, stands_still
from viz.state.session import FIRST_SOURCE

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LEARNED = 95  # percent of unseen words that a tiny model reverses without a mistake


def pinned(page: Page) -> None:
    page.get_by_role("button", name="Pin").click()
    source(page).fill(FIRST_SOURCE.replace("red", "blue"))
    expect(page.locator(".tokens.source .chip.new").first).to_be_visible()
    page.get_by_role("button", name="differences").click()


def trained(page: Page) -> None:
    button = page.get_by_role("button", name="Begin and run")
    expect(button).to_be_visible()
    stands_still(page)
    button.click()
    expect(page.locator(".vitrine.training-film")).to_be_visible()
    strip = page.locator(".vitrine.strip")
    for _second in range(300):
        right = re.search(r"(\d+)\s%\sright", strip.inner_text())
        if right and int(right[1]) >= LEARNED:
            break
        page.wait_for_timeout(1000)
    page.locator(".vitrine.strip").get_by_role("button", name="Pause").click()
    expect(page.locator(".vitrine.strip")).to_have_attribute("data-status", re.compile("paused|idle"))


def measured(page: Page) -> None:
    page.locator('button.statement[data-name="scaled-scores"]').click()
    page.get_by_role("button", name="Measure it").click()
    figure = page.locator(".vitrine.chart[data-painted], .vitrine.heatmap[data-painted]").first
    expect(figure).to_be_visible()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)


def nothing(_page: Page) -> None:
    """As it opens."""


# What is opened, how it looks, and what is done there first.
STATES: dict[str, tuple[str, dict[str, str], dict[str, object], Callable[[Page], None]]] = {
    "map": ("", {}, {}, nothing),
    "positions": ("positions", {}, {}, nothing),
    "attention": ("attention", {"attention": "cross", "layer": "3", "head": "1"}, {}, nothing),
    "pinned": ("attention", {"attention": "cross", "layer": "3", "head": "1"}, {}, pinned),
    "masks": ("masks", {}, {}, nothing),
    "residual": ("residual", {}, {}, nothing),
    "feed_forward": ("feed_forward", {}, {}, nothing),
    "predictions": ("predictions", {"model": "shakespeare"}, {"color_scheme": "dark"}, nothing),
    "training": ("training", {}, {}, trained),
    "checkpoints": ("checkpoints", {}, {}, nothing),
    "lab": ("lab", {}, {}, measured),
    "chinese": ("attention", {}, {"locale": "zh-CN", "color_scheme": "dark"}, nothing),
}


@pytest.mark.parametrize("name", STATES)
def test_a_picture_of_the_gallery_is_taken(visit, name, tmp_path):
    path, address, look, act = STATES[name]
    visited = visit(**look)
    page = visited.page
    page.goto(f"{visited.url}/{path}?{urlencode(address)}")
    expect(page.locator(".vitrine[data-painted], .vitrine.strip").first).to_be_visible()
    stands_still(page)
    act(page)
    stands_still(page)
    assert page.locator(FAILURE).count() == 0
    folder = Path(os.environ.get("VITRINE_GALLERY") or tmp_path)
    folder.mkdir(exist_ok=True)
    page.screenshot(path=folder / f"{name}.png")
