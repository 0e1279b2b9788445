"""The labelled heatmap by itself: what is drawn, hovered, clicked and saved is what came in."""

from __future__ import annotations

import csv
import io
import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import cells, texts
from viz.components import pack, sources

pytestmark = pytest.mark.browser

HOSTILE = [
    "<s>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a&b",
    "مرحبا بالعالم",
    "我",
    "\0",
]
MOUNT = """
async ([script, style, bytes, width]) => {
  const file = new Blob([script], { type: "text/javascript" });
  const { default: show } = await import(URL.createObjectURL(file));
  document.body.style.cssText = `margin: 0; width: ${width}px`;
  document.head.appendChild(document.createElement("style")).textContent = style;
  window.rows = [];
  window.hovered = [];
  const end = show({
    data: new Uint8Array(bytes),
    parentElement: document.body,
    setTriggerValue: (name, row) => window.rows.push([name, row]),
    setStateValue: (name, row) => window.rows.push([name, row]),
  });
  (window.ends ??= []).push(end);
  window.__vitrine.addEventListener("hover", ({ detail }) => window.hovered.push([detail.side, detail.position]));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}
"""


class Shown:
    """A heatmap on an otherwise empty page."""

    def __init__(self, page: Page, rows: list[str], columns: list[str], *, width: int = 500, **options: Any) -> None:
        shape = len(rows), len(columns)
        self.page = page
        self.visible = options.pop("visible", np.ones(shape, dtype=bool))
        weights = np.random.default_rng(0).dirichlet(np.ones(shape[1]), shape[0])
        self.values = options.pop("values", weights).astype(np.float32) * self.visible
        header = {
            "rows": {"title": "query (from)", "labels": rows},
            "columns": {"title": "key (to)", "labels": columns},
            "scale": {"low": options.pop("low", 0), "high": options.pop("high", 1), "title": "weight"},
            "words": {"masked": "masked", "download": "Download", "csv": ["query", "key", "weight", "masked"]},
            "chosen": options.pop("chosen", 0),
        }
        header |= dict.fromkeys(("name", "sentence", "note", "stamp"), "a") | {"alt": "what it shows", "file": "saved"}
        header["square"] = options.pop("square", False)
        header["columns"]["places"] = options.pop("places", None)
        header["tokens"] = options.pop("tokens", None)
        header["rows"]["side"], header["columns"]["side"] = options.pop("sides", ("target", "source"))
        assert not options
        script, style = sources("heatmap", "plot", "heat")
        data = pack(header, [self.values, self.visible.astype(np.uint8)])
        page.evaluate(MOUNT, [script, style, list(data), width])

    def saved(self, kind: str) -> bytes:
        self.page.get_by_role("button", name="Download").click()
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name=kind, exact=True).click()
        assert download.value.suggested_filename == f"saved.{kind.lower()}"
        return download.value.path().read_bytes()

    def svg(self) -> ElementTree.Element:
        return ElementTree.fromstring(self.saved("SVG").decode("utf-8"))


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1000, "height": 900}, device_scale_factor=1)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("top", [1.0, 0.37])
def test_cells_are_the_weights_in_rows_and_masked_ones_are_hatched(page, top):
    visible = np.tril(np.ones((4, 5), dtype=bool))
    shown = Shown(page, list("abcd"), list("vwxyz"), visible=visible, high=top)
    boxes = cells(shown.svg(), 20)
    assert [box["fill"] == "url(#masked)" for box in boxes] == list(~visible.flatten())
    drawn = [(float(box["fill-opacity"]), box["fill"]) for box in boxes if "fill-opacity" in box]
    assert {colour for _, colour in drawn} == {"rgb(92,124,250)"}
    expected = np.minimum(shown.values[visible] / top, 1)
    assert np.allclose([opacity for opacity, _ in drawn], expected, atol=1 / 255)
    places = [(float(box["y"]), float(box["x"])) for box in boxes]
    assert places == sorted(places)
    assert len(set(places)) == 20


def test_a_scale_below_zero_is_a_diverging_one(page):
    values = np.array([[-2, -1, 0, 1, 2]])
    boxes = cells(Shown(page, ["a"], list("vwxyz"), values=values, low=-2, high=2).svg(), 5)
    assert [box["fill"] for box in boxes[:2]] == ["rgb(213,94,0)"] * 2
    assert [box["fill"] for box in boxes[3:]] == ["rgb(0,114,178)"] * 2
    assert np.allclose([float(box["fill-opacity"]) for box in boxes], [0.85, 0.425, 0, 0.425, 0.85], atol=0.01)


def test_labels_are_shown_literally_in_their_places(page):
    keys = ["▁the", "▁the", "</s>", " "]
    shown = Shown(page, HOSTILE, keys)
    found = texts(shown.svg())
    assert found[:6] == ["key (to)", "query (from)", "▁the", "▁the", "</s>", "␣"]
    assert found[6:13] == ["<s>", "</script><scrip…", "<img src=x oner…", "a&b", "مرحبا بالعالم", "我", "␀"]
    assert found[-1] == "weight"
    assert page.locator("img, script").count() == 0


def test_cells_of_a_similarity_are_as_high_as_wide(page):
    names = [f"{index}" for index in range(60)]
    boxes = cells(Shown(page, names, names, width=330, square=True, values=np.ones((60, 60))).svg(), 3600)
    ends = [max(float(box[side]) for box in boxes) - min(float(box[side]) for box in boxes) for side in "xy"]
    assert ends[0] == pytest.approx(ends[1], abs=1)


@pytest.mark.parametrize(("count", "labelled"), [(1, 1), (40, 40), (41, 21), (128, 32)])
def test_long_axes_label_every_kth_token(page, count, labelled):
    names = [f"t{index}" for index in range(count)]
    found = texts(Shown(page, names, names, width=700).svg())
    assert [text for text in found if text in names] == names[:: -(-count // labelled)] * 2
    assert len([text for text in found if text in names]) == 2 * labelled


@pytest.mark.parametrize(("count", "width"), [(2, 330), (9, 330), (9, 700), (128, 500)])
@pytest.mark.parametrize("label", ["▁considerations", "我" * 16])
def test_no_label_is_cut(page, count, width, label):
    names = [f"{index}{label}" for index in range(count)]
    svg = Shown(page, names, names, width=width).saved("SVG").decode("utf-8")
    outside = page.evaluate(
        """(text) => {
          const svg = document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
          const [width, height] = svg.getAttribute("viewBox").split(" ").slice(2).map(Number);
          svg.style.cssText = `position: absolute; top: 0; left: 0; width: ${width}px; height: ${height}px`;
          document.body.appendChild(svg);
          return [...svg.querySelectorAll("text")].filter((text) => {
            const box = text.getBoundingClientRect();
            return box.left < -2 || box.top < -2 || box.right > width + 2 || box.bottom > height + 2;
          }).map((text) => text.textContent);
        }""",
        svg,
    )
    assert outside == []


@pytest.mark.parametrize("ratio", [1, 2])
def test_it_is_sharp_fills_its_width_and_follows_it(browser, ratio):
    page = browser.new_page(viewport={"width": 1000, "height": 900}, device_scale_factor=ratio)
    Shown(page, list("abc"), list("vwxyz"), width=500)
    size = "(canvas) => [canvas.width, canvas.height, canvas.clientWidth, canvas.clientHeight]"
    width, height, wide, high = page.locator("canvas").evaluate(size)
    assert (width, height, wide) == (500 * ratio, high * ratio, 500)
    page.evaluate("document.body.style.width = '320px'")
    page.wait_for_function("document.querySelector('canvas').clientWidth === 320")
    page.wait_for_timeout(100)
    assert page.locator("canvas").evaluate(size)[0] == 320 * ratio
    page.close()


def test_hovering_names_the_pair_with_its_exact_weight_and_a_click_chooses_the_row(page):
    visible = np.array([[True, False], [True, True]])
    shown = Shown(page, ["我", "是"], ["▁I", "▁am"], visible=visible)
    canvas, tip = page.get_by_role("img", name="what it shows"), page.locator(".tip")
    boxes = cells(shown.svg(), 4)

    def middle(box: dict[str, str]) -> dict[str, float]:
        return {"x": float(box["x"]) + float(box["width"]) / 2, "y": float(box["y"]) + float(box["height"]) / 2}

    canvas.hover(position=middle(boxes[3]))
    expect(tip).to_contain_text("是 → ▁am")
    written = re.search(r"weight (\S+)", tip.inner_text())
    assert written
    assert np.float32(written[1]) == shown.values[1, 1]
    assert page.evaluate("window.hovered.slice(-2)") == [["target", 1], ["source", 1]]
    canvas.hover(position=middle(boxes[1]))
    expect(tip).to_contain_text("masked")
    canvas.click(position=middle(boxes[2]))
    assert page.evaluate("window.rows") == [["row", 1]]
    page.mouse.move(990, 890)
    expect(tip).to_be_hidden()
    assert page.evaluate("window.hovered.slice(-2)") == [["target", -1], ["source", -1]]


MARKED = """
(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.filter((_, at) => at % 4 === 0 && data[at] === 0 && data[at + 1] === 114 && data[at + 2] === 178).length;
}
"""
HOVER = "([side, position]) => window.__vitrine.dispatchEvent(new CustomEvent('hover', { detail: { side, position } }))"


def test_columns_in_another_order_and_cells_light_up_with_their_tokens(page):
    """Axes whose labels are tokens in their own order, and cells that are tokens themselves."""
    tokens = {"side": "words", "labels": ["one", "two"], "places": [0, 1, 1, -1]}
    shown = Shown(page, ["a", "b"], ["x", "y"], chosen=-1, places=[7, 3], tokens=tokens)
    canvas = page.locator("canvas")
    boxes = cells(shown.svg(), 4)
    assert canvas.evaluate(MARKED) == 0
    lit = []
    for side, position in (("source", 3), ("source", 1), ("words", 1), ("words", 0)):
        page.evaluate(HOVER, [side, position])
        page.wait_for_timeout(60)
        lit.append(canvas.evaluate(MARKED))
        page.evaluate(HOVER, [side, -1])
    page.wait_for_timeout(60)
    assert [count > 0 for count in lit] == [True, False, True, True]
    assert lit[2] > 1.7 * lit[3]  # two cells, and one
    places = [{"x": float(box["x"]) + 5, "y": float(box["y"]) + 5} for box in boxes]
    canvas.hover(position=places[0])
    assert page.evaluate("window.hovered.slice(-3)") == [["target", 0], ["source", 7], ["words", 0]]
    expect(page.locator(".tip")).to_contain_text("one")
    canvas.hover(position=places[3])
    assert page.evaluate("window.hovered.slice(-3)") == [["target", 1], ["source", 3], ["words", -1]]
    canvas.hover(position=places[0])
    page.mouse.move(990, 890)
    page.wait_for_timeout(60)
    assert page.evaluate("window.hovered.slice(-3)") == [["target", -1], ["source", -1], ["words", -1]]
    page.wait_for_timeout(60)
    assert canvas.evaluate(MARKED) == 0


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
    expect(tip).to_contain_text("我 → ▁I")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):  # the last one meets the edge
        page.keyboard.press(key)
    expect(tip).to_contain_text("是 → ▁am")
    written = re.search(r"weight (\S+)", tip.inner_text())
    assert written
    assert np.float32(written[1]) == shown.values[1, 1]
    assert page.evaluate("window.hovered.slice(-2)") == [["target", 1], ["source", 1]]
    page.keyboard.press("Enter")
    assert page.evaluate("window.rows") == [["row", 1]]
    assert canvas.evaluate("(canvas) => getComputedStyle(canvas).outlineStyle") == "solid"
    page.keyboard.press("Shift+Tab")
    expect(tip).to_be_hidden()


def test_the_table_and_the_picture_are_saved(page):
    rows, columns = ['a"b', "c,d"], ["</s>", "我"]
    shown = Shown(page, rows, columns, visible=np.array([[True, False], [True, True]]))
    table = list(csv.reader(io.StringIO(shown.saved("CSV").decode("utf-8-sig"))))
    assert table[0] == ["query", "key", "weight", "masked"]
    assert [line[:2] for line in table[1:]] == [[row, column] for row in rows for column in columns]
    assert np.array_equal(np.array([line[2] for line in table[1:]], np.float32), shown.values.flatten())
    assert [line[3] for line in table[1:]] == ["False", "True", "False", "False"]
    picture = shown.saved("PNG")
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(picture[16:20], "big") == 3 * 500
