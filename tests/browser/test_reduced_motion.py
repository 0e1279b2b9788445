"""Whoever wants no motion sees none: nothing runs on any page, in the presenter or the tour, longer than a frame."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import stands_still
from tests.browser.test_map import MAP
from viz.frame.app import FIRST, PAGES

pytestmark = [pytest.mark.browser, pytest.mark.slow]

# Every animation and transition that was seen to run, with what it moves, and every scrolling that was to be smooth.
WATCH = """(() => {
  window.motions = new Set();
  const { scrollIntoView } = Element.prototype;
  Element.prototype.scrollIntoView = function (how) {
    if (how?.behavior === "smooth") window.motions.add(`scrolling to ${this.className}`);
    return scrollIntoView.call(this, how);
  };
  const look = () => {
    const roots = [document];
    for (const root of roots) {
      roots.push(...[...root.querySelectorAll("*")].map((node) => node.shadowRoot).filter(Boolean));
      for (const each of root.getAnimations()) {
        const { duration, iterations } = each.effect.getComputedTiming();
        if (each.playState !== "running" || duration * iterations < 1) continue;
        const { target } = each.effect;
        window.motions.add(`${each.animationName ?? each.transitionProperty}: ${target.tagName} ${target.className}`);
      }
    }
    setTimeout(look, 60);
  };
  look();
})()"""


def window(visit, motion: str) -> tuple[Page, str]:
    """A window of somebody who has chosen this, and the server's address."""
    visited = visit(reduced_motion=motion)
    visited.page.add_init_script(WATCH)
    return visited.page, visited.url


def motions(page: Page) -> list[str]:
    found: list[str] = page.evaluate("() => [...window.motions]")
    return found


def use(page: Page, url: str) -> list[str]:
    """What moves on the first page while its buttons are pointed at, a figure is presented, and the tour is taken."""
    page.goto(url)
    expect(page.locator(f"{MAP}[data-painted]")).to_be_visible()
    stands_still(page)
    page.get_by_role("button", name="Show me around").click()
    for _step in range(2):
        page.locator(".tour_card .next").click()
        page.wait_for_timeout(200)
    page.locator(".tour_card .skip").click()
    page.get_by_test_id("stSidebar").get_by_role("link").nth(3).hover()
    page.locator(".menu_of_page .dots").click()
    page.get_by_role("button", name="Present", exact=True).click()
    page.wait_for_timeout(1500)
    page.keyboard.press("Escape")
    return motions(page)


def test_nothing_moves_for_who_wants_that(visit):
    page, url = window(visit, "reduce")
    moved = {"": use(page, url)}
    for name in PAGES:
        page.goto(f"{url}/{'' if name == FIRST else name}")
        stands_still(page)
        for fold in page.locator(".stMain summary").all()[:2]:
            fold.click()
        moved[name] = motions(page)
    assert not {name: each for name, each in moved.items() if each}


def test_for_others_something_does(visit):
    """Or the test above would see nothing."""
    assert use(*window(visit, "no-preference"))
