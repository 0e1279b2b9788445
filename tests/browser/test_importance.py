"""The importance of heads in a browser: a click opens a head, a button removes it everywhere."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import eventually, stands_still

OF_ALL = re.compile(r"less than 0\.01 nats: \d+ of 72")
pytestmark = [pytest.mark.browser, pytest.mark.slow]


def effects(page: Page):
    return page.locator(".vitrine.panels[data-painted]").first


def test_a_head_is_opened_removed_and_restored(visit):
    page = visit().open(source="I am a teacher.", target="我是老师。", below="importance")
    expect(page.get_by_text("The mean loss of this text is")).to_contain_text(OF_ALL)
    expect(page.locator(".vitrine.panels[data-painted]")).to_have_count(2)
    stands_still(page)
    place = effects(page).evaluate(
        "(root) => { const p = root.place.places[1]; return [p.left + 2.5 * p.wide, p.top + 1.5 * p.high] }"
    )
    effects(page).locator("canvas").click(position={"x": place[0], "y": place[1]})
    page.wait_for_url("**attention=decoder*")
    expect(page.locator(".vitrine.heatmap .heading b").first).to_have_text("Layer 2, head 3")
    page.get_by_role("button", name="Remove this head").click()
    expect(page.locator(".changed .what")).to_have_text("⚠ changed Decoder: Layer 2, head 3 removed")
    page.wait_for_url("**changes=decoder.1.2%3Aremove*")
    expect(page.get_by_text("The mean loss of this text is")).to_contain_text(re.compile(r"nats: \d+ of 71"))
    expect(page.locator(".badge.failed")).to_have_count(0)
    page.get_by_role("link", name="Predictions").click()
    expect(page.locator(".changed .what")).to_contain_text("head 3 removed")
    page.get_by_role("link", name="Attention").click()
    page.get_by_role("button", name="Restore this head").click()
    expect(page.locator(".changed .what")).to_have_count(0)
    expect(page.get_by_text("The mean loss of this text is")).to_contain_text(OF_ALL)
    eventually(page, lambda: "changes=" not in page.url)
