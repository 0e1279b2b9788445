"""What things cost, in the browser: a measurement is begun, seen growing and stopped, and typing leaves it alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import eventually, expect_tokens, source, stands_still

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def dots(page: Page) -> int:
    """How many lengths the chart of times shows."""
    stamp = page.locator(".st-key-cost_times .vitrine.chart").get_attribute("data-painted") or "0"
    return int(stamp.split()[-1])


def test_a_measurement_grows_and_is_stopped(visit, model) -> None:
    page = visit().open()
    page.get_by_role("link", name="Lab", exact=True).click()
    page.get_by_role("radio", name="What it costs").click()
    expect(page.locator(".st-key-cost_counts .vitrine.chart[data-painted]")).to_be_visible()
    longest = page.get_by_label("largest n").first
    longest.fill("3072")
    longest.press("Enter")
    expect(page.get_by_text("Counted at n = 3,072")).to_be_visible()
    page.get_by_role("button", name="Measure", exact=True).click()
    expect(page.get_by_test_id("stMain").get_by_role("button", name="Stop", exact=True)).to_be_visible()
    expect(page.locator(".st-key-cost_times .vitrine.chart[data-painted]")).to_be_visible()
    before = dots(page)
    eventually(page, lambda: dots(page) > before)
    page.get_by_test_id("stMain").get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("Stopped: what is shown was found until then.")).to_be_visible()
    stands_still(page)
    page.wait_for_timeout(500)  # the chart paints what came last in a frame of its own
    kept = dots(page)
    assert kept > before
    source(page).fill("Where is the station?")
    expect_tokens(page, "source", model.source_tokens("Where is the station?").labels)
    assert dots(page) == kept
    expect(page.get_by_text("Time of softmax: exponent")).to_be_visible()


def test_dropout_is_linked_to_its_view(visit) -> None:
    page = visit().open()
    page.get_by_role("link", name="Lab", exact=True).click()
    page.get_by_role("radio", name="What it costs").click()
    page.get_by_role("link", name="Dropout: Norms").click()
    expect(page.get_by_role("radio", name="Dropout")).to_be_checked()
