"""A keystroke draws the views again and leaves the controls; what changes a control draws it anew."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import Page, WebSocket, expect

from tests.browser.looking import eventually, source, stands_still
from viz.frame.training_strip import SELDOM

pytestmark = pytest.mark.browser

CONTROL = b"Hide weights below"  # of the Attention page


def listening(page: Page) -> list[bytes]:
    """What the server sends from the next connection on."""
    received: list[bytes] = []

    def heard(payload: str | bytes) -> None:
        received.append(payload if isinstance(payload, bytes) else payload.encode())

    def connected(socket: WebSocket) -> None:
        socket.on("framereceived", heard)

    page.on("websocket", connected)
    return received


def test_a_keystroke_sends_no_control_again_and_a_control_does(visit):
    opened = visit()
    received = listening(opened.page)
    page = opened.open(source="I am a teacher.")
    eventually(page, lambda: any(CONTROL in each for each in received))
    stands_still(page)
    received.clear()
    source(page).press("End")
    source(page).type(" Yes")
    expect(page.locator(".vitrine .tokens.source .chip", has_text="Yes")).to_be_visible()
    eventually(page, lambda: any(b"painted" in each or len(each) > 2000 for each in received))
    assert not any(CONTROL in each for each in received)
    page.get_by_role("radio", name="decoder").click()
    eventually(page, lambda: any(CONTROL in each for each in received))


def test_nothing_fades_at_a_keystroke(visit):
    """A place that fades is a layer of its own, and costs the browser two frames."""
    page = visit().open(source="I am a teacher.")
    stands_still(page)
    page.evaluate(
        """() => {
          window.faded = [];
          document.addEventListener("transitionrun", ({ propertyName, target }) => {
            if (propertyName === "opacity" && target.closest(".stMain")) window.faded.push(target.className);
          }, true);
        }"""
    )
    source(page).press("End")
    source(page).type(" Yes")
    expect(page.locator(".vitrine .tokens.source .chip", has_text="Yes")).to_be_visible()
    page.wait_for_timeout(500)
    assert page.evaluate("window.faded") == []


@pytest.mark.slow
def test_looks_at_a_training_bring_the_strips_news_along(visit):
    """One run of the script each, not one for the page and one for the strip, but for a rare one in case of errors."""
    opened = visit()
    received = listening(opened.page)
    page = opened.open(model="reverse", source="abcdefgh")
    strip = page.locator(".vitrine.strip")
    page.get_by_role("button", name="Train on", exact=True).click()
    expect(strip).to_have_attribute("data-status", "running")
    eventually(page, lambda: any(b"vitrine_token_bar" in each for each in received[-20:]))
    received.clear()
    began = time.monotonic()
    step = int(strip.get_attribute("data-step") or 0)

    def sent(name: bytes) -> int:
        return sum(name in each for each in received)

    eventually(page, lambda: sent(b"vitrine_token_bar") > 3)
    assert sent(b"vitrine_training_strip") <= 1 + (time.monotonic() - began) / SELDOM
    eventually(page, lambda: int(strip.get_attribute("data-step") or 0) > step)
    page.get_by_role("button", name="Pause").click()
    expect(strip).to_have_attribute("data-status", "paused")
    eventually(page, lambda: any(b"vitrine_training_strip" in each for each in received))


@pytest.mark.slow
def test_a_view_that_had_nothing_to_show_comes_when_the_text_has_it(visit):
    page = visit().open(model="shakespeare", source="a")
    page.get_by_role("link", name="Masks").click()
    page.wait_for_url("**/masks*")
    stands_still(page)
    text = page.locator('input[aria-label="Text"]')
    text.fill("")
    expect(page.locator(".vitrine .tokens.source .chip")).to_have_count(1)
    page.get_by_text("A changed future", exact=True).click()  # the page is arranged while there is nothing to show
    expect(page.get_by_text("there is no future to change")).to_be_visible()
    charts = page.locator(".vitrine.chart[data-painted]")
    expect(charts).to_have_count(0)
    text.type("abc")
    expect(charts.first).to_be_visible()
    expect(page.get_by_text("there is no future to change")).to_have_count(0)


@pytest.mark.slow
def test_a_click_among_the_views_moves_the_control_that_says_so(visit):
    page = visit().open(model="eng-cmn", source="I am a teacher.")
    page.get_by_role("link", name="Feed-forward").click()
    field = page.get_by_role("spinbutton", name="page of")
    expect(field).to_have_value("1")
    everything = page.locator(".vitrine.chart[data-painted]").first
    stands_still(page)
    everything.scroll_into_view_if_needed()
    box = everything.locator("canvas").bounding_box()
    assert box
    everything.locator("canvas").click(position={"x": box["width"] * 0.9, "y": box["height"] * 0.6})
    expect(field).not_to_have_value("1")
