"""The laboratory's arithmetic in a browser: cells are typed into, vectors dragged and moved with keys."""

from __future__ import annotations

import csv

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import eventually, stands_still

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def opened(window, claim: str = "") -> Page:
    """The laboratory's arithmetic, at one of its claims."""
    page = window.open()
    page.get_by_role("link", name="Lab", exact=True).click()
    page.get_by_role("radio", name="By hand").click()
    expect(page.locator(".vitrine.matrices[data-painted]")).to_be_visible()
    if claim:
        page.get_by_role("radio", name=claim).click()
    return page


def cell(page: Page, name: str):
    return page.get_by_label(name, exact=True)


def computed(page: Page, name: str) -> list[str]:
    """The numbers of a computed matrix, as they stand there."""
    table = page.locator(".vitrine.matrices .matrix").filter(has=page.get_by_text(name, exact=True)).locator("td")
    return table.all_inner_texts()


def test_every_keystroke_in_a_cell_is_computed_and_a_bad_one_told(visit):
    page = opened(visit())
    expect(page.locator(".vitrine.matrices[data-painted]")).to_be_visible()
    eventually(page, lambda: computed(page, "Outputs")[:3] == ["1.94", "6.68", "1.6"])
    field = cell(page, "X, row 1, column 1")
    field.fill("")
    field.type("2.5", delay=60)
    eventually(page, lambda: computed(page, "Q")[:3] == ["2.5", "0", "3.5"])
    expect(field).to_be_focused()
    expect(field).to_have_value("2.5")
    eventually(page, lambda: "example=2.5%2C0%2C1" in page.url or "example=2.5,0,1" in page.url)
    page.keyboard.press("ArrowDown")
    expect(cell(page, "X, row 2, column 1")).to_be_focused()
    page.keyboard.type("x1")
    expect(page.get_by_role("alert").filter(has_text="X, row 2, column 1: “x1” is not a number")).to_be_visible()
    expect(cell(page, "X, row 2, column 1")).to_have_attribute("aria-invalid", "true")
    assert computed(page, "Q")[:3] == ["2.5", "0", "3.5"]
    page.get_by_role("button", name="As in the tutorial").click()
    eventually(page, lambda: computed(page, "Outputs")[:3] == ["1.94", "6.68", "1.6"])
    expect(cell(page, "X, row 2, column 1")).to_have_value("0")
    eventually(page, lambda: "example=" not in page.url)
    page.locator(".vitrine.matrices").get_by_role("button", name="Download").click()
    with page.expect_download() as download:
        page.locator(".vitrine.matrices").get_by_role("button", name="CSV", exact=True).click()
    table = list(csv.reader(download.value.path().read_text("utf-8-sig").splitlines()))
    assert table[0] == ["matrix", "row", "column", "value"]
    assert ["W_Q", "4", "3", "1"] in table
    assert len(table) == 1 + 48 + 9 * 13


def test_a_vector_is_dragged_and_moved_with_keys(visit):
    page = opened(visit(), claim="Dot product or cosine")
    expect(page.get_by_text("Here the claim fails")).to_be_visible()
    handles = page.locator(".vitrine.vectors .handle")
    expect(handles).to_have_count(3)
    stands_still(page)
    box = handles.nth(2).bounding_box()
    page.mouse.move(box["x"] + 13, box["y"] + 13)
    page.mouse.down()
    page.mouse.move(box["x"] + 13, box["y"] + 60, steps=4)
    page.mouse.move(box["x"] - 160, box["y"] + 80, steps=8)
    page.mouse.up()
    expect(page.get_by_text("Here the claim holds: a has")).to_be_visible()
    eventually(page, lambda: "vectors=" in page.url)
    stands_still(page)
    page.get_by_role("button", name="Back to the counter-example").click()
    expect(page.get_by_text("Here the claim fails")).to_be_visible()
    expect(handles.nth(2)).to_have_attribute("aria-valuetext", "(1.50, 3.00)")
    handles.nth(2).focus()
    for _ in range(4):
        page.keyboard.press("Shift+ArrowLeft")
    expect(handles.nth(2)).to_have_attribute("aria-valuetext", "(-2.50, 3.00)")
    expect(page.get_by_text("Here the claim holds: a has")).to_be_visible()


def test_a_finger_drags_too(visit):
    page = opened(visit(has_touch=True), claim="Dot product or cosine")
    handle = page.locator(".vitrine.vectors .handle").nth(2)
    expect(handle).to_be_visible()
    stands_still(page)
    handle.scroll_into_view_if_needed()
    before = page.evaluate("scrollY")
    box = handle.bounding_box()
    touch = page.context.new_cdp_session(page)
    at = {"x": box["x"] + 13, "y": box["y"] + 13}
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [at]})
    for step in range(1, 9):
        moved = {"x": at["x"] - 15 * step, "y": at["y"] + 5 * step}
        touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [moved]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(page.get_by_text("Here the claim holds: a has")).to_be_visible()
    assert page.evaluate("scrollY") == before


def test_a_click_on_a_head_and_on_a_query_chooses_it(visit):
    page = opened(visit(), claim="Dot product or cosine")
    title = page.locator(".vitrine.chart").filter(has_text="Each query of head")
    expect(title).to_contain_text("head 3.7")
    heads = page.locator(".vitrine.panels canvas")
    heads.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    eventually(page, lambda: "head 3.7" not in (title.text_content() or "head 3.7"))
    eventually(page, lambda: "head=" in page.url)
