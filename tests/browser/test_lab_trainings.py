"""Trainings side by side in a browser: begun by a click, curves are seen growing, and stop when they are told to."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.looking import eventually, stands_still

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_curves_grow_and_stop(visit) -> None:
    window = visit()
    page = window.open()
    page.get_by_role("link", name="Lab").click()
    page.get_by_text("Trained side by side").click()
    page.get_by_text("Tied matrices").click()
    expect(page.get_by_text("One matrix for embeddings")).to_be_visible()
    steps = page.locator('input[aria-label="steps"]').first
    steps.fill("2000")
    steps.press("Enter")
    expect(page.get_by_text("6,000 steps in all")).to_be_visible()
    page.get_by_role("button", name="Train side by side").click()
    plot = page.locator(".vitrine.chart[data-painted^='tying ']").first
    expect(plot).to_be_visible()

    def step() -> int:
        return int((plot.get_attribute("data-painted") or "tying 0 0").split()[1])

    first = step()
    eventually(page, lambda: step() > first)
    expect(page.get_by_text("s left")).to_be_visible()
    page.get_by_test_id("stMain").get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Stopped: what is shown was found until then.")).to_be_visible()
    stands_still(page)  # the last report is still being drawn
    page.wait_for_timeout(1500)
    ended = step()
    assert 0 < ended < 2000
    page.wait_for_timeout(1500)
    assert step() == ended
