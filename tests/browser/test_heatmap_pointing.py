"""The labelled heatmap by itself: what is hovered, clicked and read with the keyboard is what came in."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.alone import Shown
from tests.browser.looking import cells, eventually

pytestmark = pytest.mark.browser


def hovers(page: Page, *told: list[str | int]) -> None:
    """The last that is told of the pointer comes to be this."""
    eventually(page, lambda: page.evaluate("window.hovered")[-len(told) :] == [*told])


def test_hovering_names_the_pair_with_its_weight_and_a_click_chooses_the_row(page):
    visible = np.array([[True, False], [True, True]])
    shown = Shown(page, ["我", "是"], ["▁I", "▁am"], visible=visible)
    canvas, tip = page.get_by_role("img", name="what it shows"), page.locator(".tip")
    boxes = cells(shown.svg(), 4)

    def middle(box: dict[str, str]) -> dict[str, float]:
        return {"x": float(box["x"]) + float(box["width"]) / 2, "y": float(box["y"]) + float(box["height"]) / 2}

    canvas.hover(position=middle(boxes[3]))
    expect(tip).to_contain_text("是 → ·am")
    written = re.search(r"weight (\S+)", tip.inner_text())
    assert written
    assert float(written[1]) == pytest.approx(shown.values[1, 1], rel=5e-4)  # four digits
    hovers(page, ["target", 1], ["source", 1])
    canvas.hover(position=middle(boxes[1]))
    expect(tip).to_contain_text("masked")
    canvas.click(position=middle(boxes[2]))
    eventually(page, lambda: page.evaluate("window.rows") == [["row", 1]])
    canvas.click(position={"x": float(boxes[0]["x"]) - 9, "y": middle(boxes[0])["y"]})  # the label of the first row
    eventually(page, lambda: page.evaluate("window.rows") == [["row", 1], ["row", 0]])
    canvas.dblclick(position=middle(boxes[2]))  # which shows it large, and leaves what is chosen
    eventually(page, lambda: page.evaluate("window.rows.slice(2)") == [["row", 1], ["row", 0]])
    page.mouse.move(990, 890)
    expect(tip).to_be_hidden()
    hovers(page, ["target", -1], ["source", -1])


MARKED = """
(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.filter((_, at) => at % 4 === 0 && data[at] === 75 && data[at + 1] === 77 && data[at + 2] === 87).length;
}
"""


def test_where_both_axes_are_of_one_text_only_the_pointed_column_and_row_are_marked(page):
    labels = ["▁She", "▁bought", "▁car"]
    shown = Shown(page, labels, labels, sides=("source", "source"))
    canvas = page.get_by_role("img", name="what it shows")
    marked = []
    for cell in (4, 5):  # on the diagonal one token is pointed at, beside it two
        box = cells(shown.svg(), 9)[cell]
        x, y = (float(box[start]) + float(box[length]) / 2 for start, length in (("x", "width"), ("y", "height")))
        canvas.hover(position={"x": x, "y": y})
        page.wait_for_timeout(100)
        marked.append(canvas.evaluate(MARKED))
    two = len("·bought") + len("·car")
    assert marked[1] < 1.15 * marked[0] * two / (2 * len("·bought"))


HOVER = "([side, position]) => window.__vitrine.dispatchEvent(new CustomEvent('hover', { detail: { side, position } }))"


def test_columns_in_another_order_and_cells_light_up_with_their_tokens(page):
    """Axes whose labels are tokens in their own order, and cells that are tokens themselves."""
    tokens = {"side": "words", "labels": ["one", "two"], "places": [0, 1, 1, -1]}
    shown = Shown(page, ["a", "b"], ["x", "y"], chosen=-1, places=[7, 3], tokens=tokens)
    canvas = page.locator("canvas")
    boxes = cells(shown.svg(), 4)
    assert canvas.evaluate(MARKED) == 0
    lit = []
    for side, position, lights in (("source", 3, True), ("source", 1, False), ("words", 1, True), ("words", 0, True)):
        page.evaluate(HOVER, [side, position])
        page.wait_for_timeout(60)
        eventually(page, lambda lights=lights: (canvas.evaluate(MARKED) > 0) == lights)
        lit.append(canvas.evaluate(MARKED))
        page.evaluate(HOVER, [side, -1])
        eventually(page, lambda: canvas.evaluate(MARKED) == 0)
    assert lit[2] > 1.7 * lit[3]  # two cells, and one
    places = [{"x": float(box["x"]) + 5, "y": float(box["y"]) + 5} for box in boxes]
    canvas.hover(position=places[0])
    hovers(page, ["target", 0], ["source", 7], ["words", 0])
    expect(page.locator(".tip")).to_contain_text("one")
    canvas.hover(position=places[3])
    hovers(page, ["target", 1], ["source", 3], ["words", -1])
    canvas.hover(position=places[0])
    page.mouse.move(990, 890)
    hovers(page, ["target", -1], ["source", -1], ["words", -1])
    eventually(page, lambda: canvas.evaluate(MARKED) == 0)


def test_a_number_on_an_axis_that_is_no_text_lights_none_of_the_same_number(page):
    shown = Shown(page, ["a", "b"], ["x", "y"], chosen=-1, sides=("", ""))
    boxes = cells(shown.svg(), 4)
    page.locator("canvas").hover(position={"x": float(boxes[2]["x"]) + 5, "y": float(boxes[2]["y"]) + 5})
    expect(page.locator(".tip")).to_contain_text("b → x")
    assert page.evaluate("window.hovered") == []
    assert page.evaluate("window.__vitrine.lit ?? {}") == {}


def test_arrow_keys_read_cells_and_enter_chooses_the_row(page):
    shown = Shown(page, ["我", "是"], ["▁I", "▁am"])
    canvas, tip = page.get_by_role("img", name="what it shows"), page.locator(".tip")
    page.get_by_role("button", name="Download").focus()
    page.keyboard.press("Tab")
    expect(canvas).to_be_focused()
    expect(tip).to_contain_text("我 → ·I")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):  # the last one meets the edge
        page.keyboard.press(key)
    expect(tip).to_contain_text("是 → ·am")
    written = re.search(r"weight (\S+)", tip.inner_text())
    assert written
    assert float(written[1]) == pytest.approx(shown.values[1, 1], rel=5e-4)  # four digits
    hovers(page, ["target", 1], ["source", 1])
    page.keyboard.press("Enter")
    eventually(page, lambda: page.evaluate("window.rows") == [["row", 1]])
    assert canvas.evaluate("(canvas) => getComputedStyle(canvas).outlineStyle") == "solid"
    page.keyboard.press("Shift+Tab")
    expect(tip).to_be_hidden()
