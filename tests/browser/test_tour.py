"""The tour: offered beside the guide of a first visit, six steps on real controls, then only in the menu."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import source
from tests.browser.test_map import MAP

pytestmark = pytest.mark.browser

OFFER = ".vitrine.lead .around"
CARD, BOX = ".tour_card", ".tour_box"


def first_page(visited, **address: str) -> Page:
    page: Page = visited.page
    page.goto(visited.url + ("?" + "&".join(f"{name}={value}" for name, value in address.items()) if address else ""))
    expect(page.locator(f"{MAP}[data-painted]")).to_be_visible()
    return page


def is_lit(page: Page, control: str) -> None:
    """The box stands around the control, and the card beside it, both in the window."""
    box, inside, card = (page.locator(each).first.bounding_box() for each in (BOX, control, CARD))
    size = page.viewport_size
    assert box["x"] <= inside["x"] + 2  # the window may end there
    assert box["y"] <= inside["y"] + 2
    assert 0 <= card["x"] <= size["width"] - card["width"]
    assert 0 <= card["y"] <= size["height"] - card["height"]


def test_six_steps_on_controls_that_can_be_used_then_never_again_but_from_the_menu(visit):
    page = first_page(visit())
    for control in ('[data-testid="stSidebar"] a[href*="attention"]', ".st-key-training_box", ".st-key-lead"):
        expect(page.locator(control).first).to_be_visible()  # before it begins: it speaks of what can be seen
    expect(page.locator(CARD)).to_have_count(0)  # it begins when it is asked for
    late = page.add_style_tag(content='[data-testid="stSidebar"] { display: none !important; }')
    page.locator(OFFER).click()
    expect(page.locator(f"{CARD} span")).to_have_text("1 / 4")
    late.evaluate("(style) => style.remove()")  # the sidebar comes later than the tour begins
    expect(page.locator(f"{CARD} span")).to_have_text("1 / 6")
    page.wait_for_timeout(200)
    is_lit(page, ".st-key-texts")
    source(page).click()  # what is lit can be used
    source(page).press("End")
    page.keyboard.type("!")
    expect(source(page)).to_have_value("She bought a red car yesterday.!")
    page.locator(f"{CARD} .next").click()
    for number in (3, 4, 5, 6):
        page.keyboard.press("ArrowRight")
        expect(page.locator(f"{CARD} span")).to_have_text(f"{number} / 6")
    page.wait_for_timeout(200)
    is_lit(page, ".st-key-training_box")
    expect(page.locator(f"{CARD} .next")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(CARD)).to_have_count(0)
    expect(page.locator(OFFER)).to_be_hidden()
    page.reload()
    expect(page.locator(".vitrine.lead .hint").first).to_be_visible()
    expect(page.locator(OFFER)).to_be_hidden()
    page.get_by_role("button", name="Menu", exact=True).click()
    page.get_by_role("button", name="Show me around").last.click()
    expect(page.locator(f"{CARD} span")).to_have_text("1 / 6")
    page.keyboard.press("Escape")
    expect(page.locator(CARD)).to_have_count(0)


def test_a_lesson_link_offers_no_tour(visit):
    page = first_page(visit(), lesson="attention-seen", step="1")
    expect(page.locator(".vitrine.lead .sentence").first).to_be_visible()
    expect(page.locator(OFFER)).to_be_hidden()


def test_on_a_phone_each_step_shows_what_it_speaks_of_and_says_what_a_finger_does(visit):
    page = first_page(visit(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True))
    closed = page.locator('[data-testid="stSidebar"][data-collapsed="true"]')
    page.get_by_test_id("stExpandSidebarButton").tap()
    page.get_by_role("button", name="Menu", exact=True).tap()
    page.locator(".menu_of_page .tour").tap()
    expect(closed).to_have_count(1)  # in which the menu is
    for number, control in enumerate((".st-key-texts", ".vitrine.bar .chip", MAP, ".vitrine.lead .sentence"), 1):
        expect(page.locator(f"{CARD} span")).to_have_text(f"{number} / 6")
        expect(page.locator(control).first).to_be_visible()
        page.wait_for_timeout(250)
        is_lit(page, control)
        if control == MAP:
            expect(page.locator(f"{CARD} p")).to_contain_text("tap the same part again")
        page.locator(f"{CARD} .next").tap()
    expect(closed).to_have_count(0)  # where the pages are
    page.locator(f"{CARD} .next").tap()
    page.wait_for_timeout(400)
    is_lit(page, ".st-key-training_box")
    page.locator(f"{CARD} .next").tap()
    expect(closed).to_have_count(1)
