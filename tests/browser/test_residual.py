"""Norms, stream and units in the browser: a click chooses."""

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.looking import eventually, stands_still

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def turn_to(page: Page, name: str) -> None:
    """Another page, by its link; the address keeps its choices."""
    page.get_by_role("link", name=name).click()
    expect(page.locator(".vitrine.chart[data-painted]").first).to_be_visible()
    stands_still(page)  # nothing of the page before is left


def click_until(page: Page, canvas: Locator, across: float, down: float, address: str) -> None:
    """Click a canvas there, and again while the page still moves under the pointer, until the address says so."""

    def clicked() -> bool:
        box = canvas.bounding_box()
        canvas.click(position={"x": box["width"] * across, "y": box["height"] * down})
        page.wait_for_timeout(500)
        return address in page.url

    eventually(page, clicked)


def test_a_click_chooses_norm_and_token(visit):
    page = visit().open(source="I am a teacher.")
    turn_to(page, "Norms and residual")
    page.get_by_text("Encoder", exact=True).click()
    expect(page.locator(".vitrine.heatmap")).to_have_attribute("data-painted", "▁I ▁am ▁a ▁teacher . </s>")
    click_until(page, page.locator(".vitrine.heatmap canvas"), 0.5, 0.6, "norm=encoder")
    heading = page.locator(".vitrine.chart .heading b").first
    expect(heading).to_contain_text(" at ")
    stands_still(page)
    chosen = heading.inner_text()
    page.get_by_text("Residual stream", exact=True).click()
    expect(page.locator(".vitrine.heatmap")).to_have_count(2)
    page.get_by_text("Pre-norm, post-norm", exact=True).click()
    expect(page.locator(".vitrine.wiring")).to_be_visible()
    page.get_by_text("Dropout", exact=True).click()
    expect(page.locator(".vitrine.chart")).to_have_count(2)
    page.get_by_text("Norms", exact=True).click()
    expect(page.get_by_text("Component Error")).to_have_count(0)
    expect(heading).to_have_text(chosen)
    eventually(page, lambda: "query=" in page.url)


def test_units_turn_their_pages(visit):
    page = visit().open(source="I am a teacher.", target="我")
    turn_to(page, "Feed-forward")
    heading = page.locator(".vitrine.heatmap .heading b")
    expect(heading.filter(has_text="units, 1 to 40")).to_be_visible()
    page.locator(".vitrine.chart canvas").first.scroll_into_view_if_needed()
    everything = page.locator(".vitrine.chart").filter(has_text="All 512 units").locator("canvas")
    click_until(page, everything, 0.6, 0.5, "page=")
    eventually(page, lambda: "units, 1 to 40" not in heading.first.inner_text())
