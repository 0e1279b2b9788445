"""Cards of the Lab in a browser: begun by a click, seen growing, stopped, and left alone by typing."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.looking import eventually, expect_tokens, source, stands_still

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def card(page: Page, name: str) -> None:
    """Open a statement's card from the list."""
    page.get_by_role("link", name="Lab", exact=True).click()
    page.locator(f'button.statement[data-name="{name}"]').click()
    expect(page.get_by_role("button", name="Measure it")).to_be_visible()


def begin(page: Page, field: str, value: str) -> None:
    """Put a number into a field, and measure."""
    place = page.get_by_label(field, exact=True).first
    place.fill(value)
    place.press("Enter")
    stands_still(page)
    page.get_by_role("button", name="Measure it").click()


def stop(page: Page) -> None:
    page.get_by_test_id("stMain").get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("Stopped: what is shown was found until then.")).to_be_visible()
    stands_still(page)  # the last report is still being drawn
    page.wait_for_timeout(1500)


def points(figure: Locator) -> int:
    """How many points a chart shows."""
    return int((figure.get_attribute("data-painted") or "0").split()[-1])


def test_a_measurement_grows_and_is_stopped(visit, model) -> None:
    page = visit().open()
    card(page, "attention-cost")
    begin(page, "longest text", "3072")
    times = page.locator(".st-key-statement_attention-cost_0 .vitrine.chart")
    expect(times).to_be_visible()
    before = points(times)
    eventually(page, lambda: points(times) > before)
    stop(page)
    kept = points(times)
    assert kept > before
    page.locator(".bar .fold").click()  # the texts come over the page
    source(page).fill("Where is the station?")
    expect_tokens(page, "source", model.source_tokens("Where is the station?").labels)
    assert points(times) == kept
    expect(page.get_by_text("counted at")).to_be_visible()


def test_a_training_grows_and_is_stopped(visit) -> None:
    page = visit().open()
    card(page, "tied-matrices")
    begin(page, "steps", "2000")
    words = re.compile(r"open\s+Step ([\d,]+) of 2,000")
    reached = page.get_by_text(re.compile("Step [\\d,]+ of 2,000"))
    expect(reached).to_be_visible()

    def step() -> int:
        found = words.search(page.get_by_test_id("stMarkdown").filter(has=reached).text_content() or "")
        return int(found[1].replace(",", "")) if found else 0

    first = step()
    eventually(page, lambda: step() > first)
    expect(page.get_by_text(re.compile(r"(s|min) left"))).to_be_visible()
    expect(page.get_by_text("loss so far, not tied")).to_be_visible()
    stop(page)
    ended = step()
    assert 0 < ended < 2000
    page.wait_for_timeout(1500)
    assert step() == ended
