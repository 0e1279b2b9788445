"""Presenting: a figure alone in the window, in large type, led by keys; and the page as it was afterwards."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import eventually, stands_still, thumbnail
from viz.i18n.format import token_sign
from viz.state.session import FIRST_SOURCE

pytestmark = pytest.mark.browser

SHOWN = '[data-presented="figure"]'
LARGE = ".st-key-head_large"
# Where the centre of a cell is on the screen.
CENTRE = """(root, [row, column]) => {
  const { left, top } = root.querySelector("canvas").getBoundingClientRect();
  const { place, currentCSSZoom: zoom } = root;
  const [x, y] = [place.left + (column + 0.5) * place.wide, place.top + (row + 0.5) * place.high];
  return [left + zoom * x, top + zoom * y];
}"""


def fills_the_window(page: Page) -> None:
    """Nothing else is seen; what is presented is as wide as the window, and no higher."""
    expect(page.get_by_test_id("stSidebar")).to_be_hidden()
    expect(page.locator(".st-key-tokens")).to_be_hidden()
    expect(page.locator(SHOWN)).to_have_count(1)
    box, size = page.locator(SHOWN).bounding_box(), page.viewport_size
    assert box["width"] > 0.95 * size["width"]
    assert box["height"] <= size["height"]


def test_a_figure_is_presented_alone_and_large_and_led_by_keys(visit, model):
    visited = visit(viewport={"width": 1280, "height": 720})
    page = visited.open()
    stands_still(page)
    large = page.locator(f"{LARGE} .vitrine")
    before = large.bounding_box()
    page.locator(f"{LARGE} h3").dblclick()
    expect(page.locator(f"{LARGE}{SHOWN}")).to_be_visible()
    stands_still(page)
    fills_the_window(page)
    type_size = "(each) => parseFloat(getComputedStyle(each).fontSize) * each.currentCSSZoom"
    assert large.locator("h3").evaluate(type_size) >= 24
    page.mouse.move(*large.evaluate(CENTRE, [3, 4]))
    trace = model.trace(FIRST_SOURCE)
    tokens = f"{token_sign(trace.target_tokens[3])} → {token_sign(trace.source_tokens[4])}"
    expect(large.locator(".tip")).to_contain_text(tokens)
    page.keyboard.press("b")
    expect(page.locator(":root[data-blank]")).to_have_count(1)
    page.keyboard.press("b")
    page.keyboard.press("PageUp")
    expect(page.locator(f"{LARGE}{SHOWN}")).to_have_count(0)
    fills_the_window(page)
    page.keyboard.press("PageDown")
    expect(page.locator(f"{LARGE}{SHOWN}")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("stSidebar")).to_be_visible()
    stands_still(page)
    assert large.bounding_box() == before
    expect(page.locator('.stMain [style*="margin-top"]')).to_have_count(0)  # of a figure that stood in the middle


def test_the_menu_presents_the_figure_in_the_middle_and_a_figures_own_menu_that_figure(visit):
    page = visit(viewport={"width": 1280, "height": 720}).open()
    stands_still(page)
    page.locator(f"{LARGE} .vitrine").evaluate("(each) => each.scrollIntoView({ block: 'center' })")
    before = page.locator(LARGE).bounding_box()
    page.locator(".menu_of_page .dots").click()
    page.get_by_role("button", name="Present", exact=True).click()
    expect(page.locator(f"{LARGE}{SHOWN}")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("stSidebar")).to_be_visible()
    stands_still(page)
    assert page.locator(LARGE).bounding_box() == before
    heads = page.locator(".vitrine.heads")
    heads.locator(".opener").click()
    heads.get_by_role("button", name="Present", exact=True).click()
    expect(page.locator(SHOWN).locator(".vitrine.heads")).to_be_visible()
    stands_still(page)
    fills_the_window(page)
    assert heads.locator(".grid").bounding_box()["width"] > 0.6 * page.viewport_size["width"]
    page.keyboard.press("PageDown")
    last = page.locator(SHOWN)
    key = last.evaluate("(each) => [...each.classList].find((name) => name.startsWith('st-key-'))")
    page.get_by_role("button", name="End presenting").click()
    expect(page.get_by_test_id("stSidebar")).to_be_visible()
    stands_still(page)
    expect(page.locator(f".{key}")).to_be_in_viewport()


def test_a_pressed_thumbnail_is_presented_large_and_the_grid_has_the_windows_width(visit):
    """Square maps would not fill it. A double press ends there too: its second one is on the map that came."""
    page = visit(viewport={"width": 1366, "height": 650}).open()
    stands_still(page)
    heads = page.locator(".vitrine.heads")
    heads.locator(".opener").click()
    heads.get_by_role("button", name="Present", exact=True).click()
    expect(page.locator(f"{SHOWN} .vitrine.heads")).to_be_visible()
    eventually(page, lambda: heads.locator(".grid").bounding_box()["width"] > 0.94 * 1366)
    thumbnail(page, 2, 3).dblclick()
    expect(page.locator(f"{LARGE}{SHOWN} .heading")).to_contain_text("Layer 2, head 3")
    page.locator(".presenting_bar .before").click()
    expect(page.locator(f"{SHOWN} .vitrine.heads")).to_be_visible()
    page.keyboard.press("Escape")


def test_a_chart_of_plotly_is_presented_whole_and_large(visit):
    visited = visit(viewport={"width": 1366, "height": 650})
    page = visited.page
    page.goto(f"{visited.url}/positions?lesson=order-and-masks&step=4")
    expect(page.locator(".stPlotlyChart .main-svg").first).to_be_visible()
    stands_still(page)
    before = page.locator(".stPlotlyChart .main-svg").first.bounding_box()
    page.locator(".lesson_acts .present").click()
    chart = page.locator(f"{SHOWN} .main-svg").first
    page.wait_for_timeout(1500)  # it finds its size
    expect(chart).to_be_in_viewport(ratio=0.99)
    after = chart.bounding_box()
    assert after["width"] > 1.5 * before["width"]


GAP = """() => {
  const box = (key) => document.querySelector(`.st-key-${key}`).getBoundingClientRect();
  return Math.round(box("heads_chosen").top - box("heads_all").bottom);
}"""


def test_on_a_phone_figures_follow_in_the_order_of_the_screen_and_leave_no_gap(visit):
    """There the heads come right before the chosen one, whatever column of the page each is in."""
    page = visit(viewport={"width": 390, "height": 844}, has_touch=True).open()
    stands_still(page)
    before = page.evaluate(GAP)
    page.locator(f"{LARGE} .opener").click()
    page.locator(f"{LARGE} .menu .large").click()
    expect(page.locator(f"{LARGE}{SHOWN}")).to_be_visible()
    page.locator(".presenting_bar .before").click()
    expect(page.locator(SHOWN).locator(".vitrine.heads")).to_be_visible()
    page.locator(".presenting_bar .next").click()
    page.locator(".presenting_bar .next").click()
    table = page.locator(SHOWN).locator(".stages table")  # its numbers are larger than on the page
    type_size = "(each) => parseFloat(getComputedStyle(each).fontSize) * each.currentCSSZoom"
    whole = "(each) => each.closest('.scroll').scrollWidth <= each.closest('.scroll').clientWidth + 1"
    eventually(page, lambda: table.evaluate(type_size) >= 14.5 and table.evaluate(whole))
    page.locator(".presenting_bar .end").click()
    expect(page.locator(".presenting_bar")).to_have_count(0)
    stands_still(page)
    eventually(page, lambda: page.evaluate(GAP) == before)
