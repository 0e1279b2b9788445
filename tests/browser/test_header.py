"""The frame around a page, in each window: how tall the header is, and that nothing lies over anything."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.alone import mount
from tests.browser.looking import eventually, source, stands_still
from viz.components.registry import pack

pytestmark = pytest.mark.browser

MAIN = "document.querySelector('[data-testid=stMain]')"
COVERED = """(all) => all.filter((each) => {
  each.scrollIntoView({ block: "nearest" });
  const { left, top, width, height } = each.getBoundingClientRect();
  const root = each.getRootNode();
  const [seen, inside] = [document, root].map((at) => at.elementFromPoint(left + width / 2, top + height / 2));
  return root === document ? !each.contains(seen) : seen !== root.host || !each.contains(inside);
}).map((each) => each.textContent)"""
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


def shown_height(page: Page) -> float:
    """Of the header, as far as it is in the window."""
    box = page.locator(".st-key-input_bar").bounding_box()
    assert box
    return box["y"] + box["height"] - max(0, box["y"])


def scroll(page: Page, by: int) -> None:
    page.evaluate(f"{MAIN}.scrollTop = {by}")
    eventually(page, lambda: page.evaluate(f"{MAIN}.scrollTop") == by)


def test_the_header_is_low_lower_when_scrolled_and_folded_beside_the_text(visit):
    page = visit(viewport={"width": 1366, "height": 650}).open()
    stands_still(page)
    assert shown_height(page) == pytest.approx(84, abs=1)
    scroll(page, 300)
    eventually(page, lambda: shown_height(page) == pytest.approx(48, abs=1))
    for part in (".tokens.source .chip", ".check", ".pin .act"):
        assert page.locator(part).first.is_visible()
    page.locator(".bar .fold").click()  # the texts come back over the page, and can be written in
    eventually(page, lambda: shown_height(page) == pytest.approx(84, abs=1))
    page.keyboard.type("x")
    assert "x" in source(page).input_value()
    page.mouse.move(700, 400)  # off the button that came under the pointer, whose tip lies over the line
    page.wait_for_timeout(500)
    page.locator(".bar .fold").click()
    eventually(page, lambda: shown_height(page) == pytest.approx(48, abs=1))
    page.get_by_role("link", name="Checkpoints", exact=True).click()
    expect(page.locator(".brief")).to_be_visible()
    eventually(page, lambda: shown_height(page) == pytest.approx(48, abs=1))
    assert not source(page).is_visible()
    page.locator(".lead .sentence").click()
    page.keyboard.press("ArrowDown")  # scrolls the page, which has the keys now, and draws nothing around it
    eventually(page, lambda: page.evaluate(f"{MAIN}.matches(':focus-visible')"))
    shadow = f"getComputedStyle({MAIN}, '::before').boxShadow"
    eventually(page, lambda: page.evaluate(shadow) == "none")


@pytest.mark.parametrize(("width", "height"), [(1366, 650), (1280, 720)])
def test_nothing_covers_the_navigation_in_a_low_window(visit, width, height):
    page = visit(viewport={"width": width, "height": height}).open()
    stands_still(page)
    links = page.locator('[data-testid="stSidebar"] a')
    assert links.count() == 11
    assert links.evaluate_all(COVERED) == []
    buttons = page.locator(".vitrine.strip .do:visible, .vitrine.strip .small-print")
    assert buttons.evaluate_all(COVERED) == []
    assert page.locator(".vitrine.strip").bounding_box()["height"] < 90  # two lines


def test_on_a_phone_the_header_is_one_line_beside_the_button_of_the_sidebar(visit):
    page = visit(**PHONE).open()
    stands_still(page)
    brief = page.locator(".brief")
    eventually(page, lambda: shown_height(page) == pytest.approx(48, abs=1))
    button = page.locator('[data-testid="stExpandSidebarButton"]')
    corner = button.bounding_box()
    assert corner["x"] + corner["width"] <= brief.bounding_box()["x"]
    assert [text.bounding_box()["width"] > 30 for text in brief.locator(".text").all()] == [True, True]  # of both texts
    scroll(page, 600)
    assert corner["y"] + corner["height"] <= shown_height(page)
    assert button.evaluate_all(COVERED) == []
    brief.tap()  # the texts are there to be written in
    page.keyboard.type("x")
    assert "x" in source(page).input_value()
    assert source(page).is_visible()
    page.locator('[data-testid="stSidebar"]').get_by_role("link", name="Masks", exact=True).dispatch_event("click")
    expect(page).to_have_url(re.compile("masks"))
    expect(brief).to_be_visible()  # folded on the next page
    expect(source(page)).to_be_hidden()


def test_on_a_phone_the_sidebar_folds_behind_a_model_that_was_chosen_there(visit):
    page = visit(**PHONE).open()
    stands_still(page)
    page.locator('[data-testid="stExpandSidebarButton"]').tap()
    page.locator('[data-testid="stSidebar"] .stSelectbox input').tap()
    page.get_by_role("option", name="reverse").tap()
    expect(page).to_have_url(re.compile("model=reverse"))
    expect(page.locator('[data-testid="stExpandSidebarButton"]')).to_be_visible()


def test_on_a_phone_a_pin_leaves_the_header_one_line_and_the_sentence_its_place(visit):
    page = visit(**PHONE).open()
    stands_still(page)
    page.locator(".bar .pin .act").tap()
    expect(page.locator(".bar .pinned.act")).to_be_visible()
    eventually(page, lambda: shown_height(page) == pytest.approx(48, abs=1))
    eventually(page, lambda: page.locator(".brief").bounding_box()["width"] > 100)  # once the checks are there
    page.locator(".bar .fold").tap()
    field, add = source(page).bounding_box(), page.locator(".several-act").bounding_box()
    assert add["y"] + add["height"] <= field["y"]  # who taps the end of the text adds no sentence


def test_theme_and_language_of_the_page_are_the_visitors(visit):
    page = visit(color_scheme="light").open()
    stands_still(page)
    assert page.evaluate("document.documentElement.lang") == "en"
    app = page.locator(".stApp")
    light = app.evaluate("(app) => getComputedStyle(app).backgroundColor")
    page.get_by_role("button", name="Menu", exact=True).click()
    page.get_by_role("button", name="dark", exact=True).click()
    eventually(page, lambda: app.evaluate("(app) => getComputedStyle(app).backgroundColor") != light)
    page.keyboard.press("Escape")
    assert page.locator('[data-testid="stMainMenuButton"]').is_hidden()
    page.get_by_role("link", name="Map", exact=True).click()
    expect(page.locator(".bar .chip").first).to_be_visible()
    page.reload()
    expect(page.locator(".bar .chip").first).to_be_visible()
    assert app.evaluate("(app) => getComputedStyle(app).backgroundColor") != light
    page.get_by_role("radio", name="中文", exact=True).click()
    eventually(page, lambda: page.evaluate("document.documentElement.lang") == "zh")
    expect(page.get_by_role("button", name="菜单", exact=True)).to_be_visible()


def test_letters_typed_while_the_field_is_off_the_page_are_in_the_next_one(page):
    words = {
        "label": "Source",
        "text": "",
        "edit": 0,
        "first": "",
        "placeholder": "",
        "most": 99,
        "words": {"long": ""},
    }
    mount(page, "web/text_field", pack(words), 400)
    page.locator("input").focus()
    page.keyboard.type("ab")
    page.keyboard.press("ArrowLeft")
    page.evaluate("window.ends.pop()()")
    page.keyboard.type("cd")
    mount(page, "web/text_field", pack(words), 400)
    page.keyboard.type("e")
    assert page.locator("input").input_value() == "acdeb"
