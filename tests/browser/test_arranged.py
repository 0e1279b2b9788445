"""A keystroke draws the views again and runs no script; what changes a control draws it anew."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, WebSocket, expect

from tests.browser.looking import eventually, source, stands_still

pytestmark = pytest.mark.browser

CONTROL = b"One query, step by step"  # of the Attention page


def listening(page: Page, way: str) -> list[bytes]:
    """What the server sends from the next connection on, by this websocket."""
    received: list[bytes] = []

    def heard(payload: str | bytes) -> None:
        received.append(payload if isinstance(payload, bytes) else payload.encode())

    def connected(socket: WebSocket) -> None:
        if way in socket.url:
            socket.on("framereceived", heard)

    page.on("websocket", connected)
    return received


def test_a_keystroke_asks_the_script_for_nothing_until_typing_rests(visit):
    opened = visit()
    received = listening(opened.page, "/_stcore/stream")
    page = opened.open(source="I am a teacher.")
    eventually(page, lambda: any(CONTROL in each for each in received))
    stands_still(page)
    received.clear()
    source(page).press("End")
    source(page).type(" Yes")
    expect(page.locator(".vitrine .tokens.source .chip", has_text="Yes")).to_be_visible()
    assert not received
    eventually(page, lambda: len(received) > 0)  # what stands in the address and in tables
    expect(page.locator(":root[data-unlearnt]")).to_have_count(0)
    assert "source=I+am+a+teacher.+Yes" in page.url


@pytest.mark.slow
def test_a_training_is_watched_without_a_run_of_the_script(visit):
    opened = visit()
    received = listening(opened.page, "/_stcore/stream")
    page = opened.open(model="reverse", source="abcdefgh")
    strip = page.locator(".vitrine.strip")
    page.get_by_role("button", name="Train on", exact=True).click()
    expect(strip).to_have_attribute("data-status", "running")
    stands_still(page)
    received.clear()
    step = int(strip.get_attribute("data-step") or 0)
    # Sooner than the script runs by itself for what it alone draws, on a busy machine too.
    eventually(page, lambda: int(strip.get_attribute("data-step") or 0) > step + 4)
    assert not received
    page.locator(".vitrine.strip").get_by_role("button", name="Pause").click()
    expect(strip).to_have_attribute("data-status", "paused")


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
    page.get_by_role("button", name="More").click()
    field = page.get_by_role("spinbutton", name="page of")
    expect(field).to_have_value("1")
    everything = page.locator(".vitrine.chart[data-painted]").first
    stands_still(page)
    everything.scroll_into_view_if_needed()
    box = everything.locator("canvas").bounding_box()
    assert box
    everything.locator("canvas").click(position={"x": box["width"] * 0.9, "y": box["height"] * 0.6})
    expect(field).not_to_have_value("1")
