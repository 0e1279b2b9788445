"""The chart by itself: what is drawn, hovered, clicked and saved is what came in."""

from __future__ import annotations

import csv
import io
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.alone import HOSTILE, mount
from tests.browser.looking import eventually
from viz.components.registry import pack

pytestmark = pytest.mark.browser
SVG = "{http://www.w3.org/2000/svg}"
WIDTH = """(text) => Object.assign(document.createElement("canvas").getContext("2d"), { font: "12px serif" })
    .measureText(text).width"""
BLUE, GREEN = "#0072b2", "#009e73"


class Shown:
    """A chart on an otherwise empty page."""

    def __init__(self, page: Page, series: list[dict[str, Any]], width: int = 600, **header: Any) -> None:
        self.page = page
        arrays = [np.asarray(each.pop(axis), np.float32) for each in series for axis in ("xs", "ys")]
        words = {"download": "Download", "csv": ["series", "place", "value"], "unnamed": "without room: {count}"}
        header = {"x": {"title": "layer"}, "y": {"title": "norm"}, "chosen": -1, "words": words, **header}
        header |= dict.fromkeys(("name", "sentence", "note", "stamp"), "a") | {"alt": "what it shows", "file": "saved"}
        mount(page, "web/chart", pack({**header, "series": series}, arrays), width)

    def saved(self, kind: str) -> str:
        self.page.get_by_role("button", name="Download").click()
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name=kind, exact=True).click()
        return download.value.path().read_text("utf-8-sig")

    def svg(self) -> ElementTree.Element:
        return ElementTree.fromstring(self.saved("SVG"))

    def texts(self) -> list[str]:
        return [node.text or "" for node in self.svg().iter(f"{SVG}text")]


def curves(svg: ElementTree.Element, colour: str) -> list[np.ndarray]:
    found = [node for node in svg.iter(f"{SVG}polyline") if node.get("stroke") == colour]
    return [np.array([pair.split(",") for pair in node.get("points").split()], float) for node in found]


def test_a_curve_is_drawn_to_scale_and_a_gap_where_there_is_no_number(page):
    ys = [0, 1, np.nan, 3, 4]
    line = {"name": "first", "colour": BLUE, "xs": range(5), "ys": ys}
    chart = Shown(page, [line], y={"title": "norm", "low": 0, "high": 4})
    pieces = curves(chart.svg(), BLUE)
    assert [len(piece) for piece in pieces] == [2, 2]
    points = np.concatenate(pieces)
    assert np.allclose(np.diff(points[:, 0]) / np.diff(points[:, 0])[0], [1, 2, 1])
    assert np.allclose(np.diff(points[:, 1]) / np.diff(points[:, 1])[0], [1, 2, 1])
    assert points[0, 1] > points[-1, 1]  # larger is higher


def test_a_logarithmic_axis_puts_powers_at_equal_distances_and_leaves_out_what_has_no_logarithm(page):
    line = {"name": "first", "colour": BLUE, "xs": [1, 2, 3, 4, 5], "ys": [1, 10, 100, 0, 1000]}
    chart = Shown(page, [line], y={"title": "wavelength", "log": True})
    pieces = curves(chart.svg(), BLUE)
    assert [len(piece) for piece in pieces][:1] == [3]
    assert np.ptp(np.diff(pieces[0][:, 1])) < 0.1
    assert {"1", "10", "100", "1,000"} <= set(chart.texts())


def test_a_logarithmic_axis_of_less_than_a_power_has_more_than_one_mark(page):
    line = {"name": "first", "colour": BLUE, "xs": [10, 20, 30], "ys": [0.4, 3, 7]}
    chart = Shown(page, [line], y={"title": "σ", "log": True}, tall=130)
    assert {"0.5", "1", "2", "5"} <= set(chart.texts())


def test_bars_begin_at_zero_and_carry_their_tokens(page):
    bars = {"name": "loss", "colour": GREEN, "mark": "bars", "xs": range(len(HOSTILE)), "ys": [2, 4, 0, 1, 1, 1, 1]}
    chart = Shown(page, [bars], x={"title": "token", "labels": HOSTILE, "side": "source"})
    svg = chart.svg()
    boxes = [node for node in svg.iter(f"{SVG}rect") if node.get("fill") == GREEN]
    heights = [float(box.get("height")) for box in boxes]
    assert len(boxes) == len(HOSTILE) - 1  # the one of 0 has no height
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.5)
    texts = [node.text for node in svg.iter(f"{SVG}text")]
    assert {"<s>", "</script><scrip…", "a&b", "我"} <= set(texts)
    assert page.locator("img, script").count() == 0


def test_the_pointer_reads_every_series_and_lights_the_token(page):
    tokens = ["a", "b", "c"]
    series = [
        {"name": "now", "colour": BLUE, "xs": range(3), "ys": [1, 2, 3]},
        {"name": "pinned", "colour": BLUE, "dash": True, "xs": range(3), "ys": [3, np.nan, 1]},
    ]
    chart = Shown(page, series, x={"title": "token", "labels": tokens, "side": "source"}, y={"title": "loss"})
    assert {"now", "pinned"} <= set(chart.texts())
    assert [node.get("stroke-dasharray") for node in chart.svg().iter(f"{SVG}polyline")].count("5 4") >= 1
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 90, box["y"] + 120)
    expect(page.locator(".tip")).to_contain_text("now: 3")
    expect(page.locator(".tip")).to_contain_text("pinned: 1")
    assert page.evaluate("window.hovered.at(-1)") == ["source", 2]
    page.mouse.click(box["x"] + box["width"] - 90, box["y"] + 40)
    chosen = "window.rows.map(([name, place]) => [name, place.index]).at(-1)"
    eventually(page, lambda: page.evaluate(chosen) == ["place", 2])
    page.mouse.move(2, 2)
    expect(page.locator(".tip")).to_be_hidden()
    page.get_by_role("button", name="Download").focus()
    for key in ("Tab", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(".tip")).to_contain_text("2")
    eventually(page, lambda: page.evaluate(chosen) == ["place", 1])


def test_a_series_that_begins_behind_the_first_token_is_named_and_clicked_by_its_own(page):
    """Losses: the first token has none."""
    line = {"name": "loss", "colour": BLUE, "xs": [1, 2], "ys": [0.25, 0.5]}
    axis = {"title": "token", "labels": ["<s>", "▁red", "</s>"], "side": "target"}
    Shown(page, [line], x=axis, y={"title": "loss (nats)"}, chosen=1)
    box = page.locator("canvas").bounding_box()
    last = box["x"] + box["width"] - 90, box["y"] + 120
    page.mouse.move(*last)
    expect(page.locator(".tip .pair")).to_have_text("</s>")
    expect(page.locator(".tip")).to_contain_text("loss (nats) 0.5")
    assert page.evaluate("window.hovered.at(-1)") == ["target", 2]
    page.mouse.click(*last)
    chosen = "window.rows.map(([name, place]) => [name, place.index]).at(-1)"
    eventually(page, lambda: page.evaluate(chosen) == ["place", 2])
    page.mouse.move(2, 2)
    page.get_by_role("button", name="Download").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".tip .pair")).to_have_text("·red")


def test_dots_carry_their_own_labels_and_the_table_every_number(page):
    dots = {"name": "tokens", "colour": GREEN, "mark": "dots", "labels": ['a"b', "c,d"]}
    chart = Shown(page, [dots | {"xs": [0.5, 1.5], "ys": [2, 1 / 3]}])
    assert {'a"b', "c,d"} <= set(chart.texts())
    table = list(csv.reader(io.StringIO(chart.saved("CSV"))))
    assert table[0] == ["series", "place", "value"]
    assert [row[1] for row in table[1:]] == ['a"b', "c,d"]
    assert np.float32(table[2][2]) == np.float32(1 / 3)


def named(svg: ElementTree.Element, labels: list[str]) -> dict[str, tuple[float, float, float, float]]:
    """Of each dot's name its left, right, top and bottom, and that none lies over a dot, another or the axis."""
    circles = [(float(node.attrib["cx"]), float(node.attrib["cy"])) for node in svg.iter(f"{SVG}circle")]
    boxes = {}
    for node in svg.iter(f"{SVG}text"):
        if node.text in labels:
            x, y = map(float, node.attrib["transform"].partition("(")[2].partition(")")[0].split())
            boxes[node.text] = (x, x + 7 * len(node.text), y - 6, y + 6)
    axis = min(float(node.attrib["points"].split(",")[0]) for node in svg.iter(f"{SVG}polyline"))
    for left, right, top, bottom in boxes.values():
        assert left > axis
        assert not [(x, y) for x, y in circles if left - 3 < x < right + 3 and top - 3 < y < bottom + 3]
        over = [left < box[1] and box[0] < right and top < box[3] and box[2] < bottom for box in boxes.values()]
        assert over.count(True) == 1
    return boxes


def test_no_name_lies_over_a_dot_or_another_name(page):
    labels = ["alone", "between", "crowd", "other"]
    dots = {"name": "tokens", "colour": GREEN, "mark": "dots", "labels": labels}
    chart = Shown(page, [dots | {"xs": [0, 0.5, 0.54, 1], "ys": [0, 1, 1.05, 2]}])
    assert len(named(chart.svg(), labels)) == 4
    assert not any("without room" in text for text in chart.texts())


@pytest.mark.parametrize("width", [330, 700])
def test_names_without_room_are_left_out_and_counted(page, width):
    rng = np.random.default_rng(0)
    labels = [f"token{number}" for number in range(50)]
    places = rng.normal(size=(2, 50)) ** 3  # crowded in the middle
    dots = {"name": "tokens", "colour": GREEN, "mark": "dots", "labels": labels, "xs": places[0], "ys": places[1]}
    chart = Shown(page, [dots], width=width)
    boxes = named(chart.svg(), labels)
    assert 5 < len(boxes) < 50
    assert f"without room: {50 - len(boxes)}" in chart.texts()
    assert named(chart.svg(), labels) == boxes


def test_a_name_that_is_there_several_times_in_one_place_is_written_once(page):
    dots = {"name": "tokens", "colour": GREEN, "mark": "dots", "labels": ["the", "the", "the", "cat"]}
    texts = Shown(page, [dots | {"xs": [1, 1, 3, 0], "ys": [1, 1, 1, 0]}]).texts()
    assert [texts.count(name) for name in ("the", "cat")] == [2, 1]
    assert not any("without room" in text for text in texts)


def test_of_many_dots_none_has_a_name_and_it_is_said(page):
    labels = [f"token{number}" for number in range(80)]
    dots = {"name": "tokens", "colour": GREEN, "mark": "dots", "labels": labels}
    texts = Shown(page, [dots | {"xs": np.arange(80), "ys": np.arange(80)}]).texts()
    assert "without room: 80" in texts
    assert not set(labels) & set(texts)


def test_a_dot_that_is_a_token_lights_up_with_it_and_lights_it(page):
    dots = {"name": "tokens", "colour": GREEN, "mark": "dots", "side": "source", "labels": ["one", "two"]}
    Shown(page, [dots | {"xs": [0, 1], "ys": [0, 1]}], width=400)
    canvas = page.locator("canvas")
    drawn = """(canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const grey = (_, at) => at % 4 === 0 && data[at] === 75 && data[at + 1] === 77 && data[at + 2] === 87;
      return data.filter(grey).length;
    }"""
    assert canvas.evaluate(drawn) == 0
    say = """([side, position]) =>
      window.__vitrine.dispatchEvent(new CustomEvent("hover", { detail: { side, position } }))"""
    page.evaluate(say, ["source", 1])
    eventually(page, lambda: canvas.evaluate(drawn) > 100)  # the ring, and what is behind its name
    page.evaluate(say, ["source", -1])
    eventually(page, lambda: canvas.evaluate(drawn) == 0)
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 20)
    eventually(page, lambda: page.evaluate("window.hovered.at(-1)") == ["source", 1])
    page.mouse.move(2, 500)
    eventually(page, lambda: page.evaluate("window.hovered.at(-1)") == ["source", -1])


def test_what_was_measured_is_not_measured_again(page):
    """A keystroke arranges hundreds of labels, and changes a few."""
    page.evaluate("""() => {
      const { measureText } = CanvasRenderingContext2D.prototype;
      window.measured = 0;
      CanvasRenderingContext2D.prototype.measureText = function (text) {
        window.measured += 1;
        return measureText.call(this, text);
      };
    }""")
    x = {"title": "token", "labels": [f"token {at}" for at in range(30)], "side": "source"}
    Shown(page, [{"name": "first", "colour": BLUE, "xs": range(30), "ys": range(30)}], x=x)
    first = page.evaluate("window.measured")
    assert first >= 30
    page.set_viewport_size({"width": 500, "height": 600})
    page.evaluate("document.body.style.width = '400px'")
    page.wait_for_function("document.querySelector('canvas').width === 400 * (window.devicePixelRatio || 1)")
    assert page.evaluate("window.measured") < first + 10  # other marks of the axes


@pytest.mark.parametrize("ys", [[], [np.nan, np.nan], [5.0], [-np.inf, np.inf]])
def test_nothing_to_draw_is_an_empty_plane(page, ys):
    chart = Shown(page, [{"name": "first", "colour": BLUE, "xs": range(len(ys)), "ys": ys}])
    assert "norm" in chart.texts()
    page.set_viewport_size({"width": 320, "height": 600})
    expect(page.locator("canvas")).to_be_visible()


def test_marks_are_lines_at_their_places_with_what_happened(page):
    line = {"name": "loss", "colour": BLUE, "xs": [0, 100], "ys": [1, 2]}
    marks = [{"x": 50, "text": "rate 1 → 2"}, {"x": 51, "text": HOSTILE[1]}, {"x": 300, "text": "outside"}]
    chart = Shown(page, [line], marks=marks)
    svg = chart.svg()
    dotted = [node for node in svg.iter(f"{SVG}polyline") if node.get("stroke-dasharray") == "2 3"]
    (curve,) = curves(svg, BLUE)
    places = [float(node.get("points").split(",")[0]) for node in dotted]
    assert places == pytest.approx([curve[:, 0].mean(), curve[0, 0] + 0.51 * np.ptp(curve[:, 0])])
    written = [node for node in svg.iter(f"{SVG}text") if node.text in ("rate 1 → 2", HOSTILE[1], "outside")]
    assert [node.text for node in written] == ["rate 1 → 2", HOSTILE[1]]
    assert written[0].get("transform").split()[1] != written[1].get("transform").split()[1]  # not over each other
    heights = [float(node.get("transform").split()[1].rstrip(")")) for node in written]
    assert max(heights) < curve[:, 1].min() - 4  # nor over the curve
    drawn = list(svg.iter())
    assert max(map(drawn.index, dotted)) < min(map(drawn.index, written))  # no line through a text
    assert page.locator("img, script").count() == 0


def test_a_text_that_is_longer_than_the_chart_is_cut(page):
    line = {"name": "loss", "colour": BLUE, "xs": [0, 100], "ys": [1, 2]}
    svg = Shown(page, [line], width=300, marks=[{"x": 90, "text": "a change of everything, " * 9}]).svg()
    (written,) = [node for node in svg.iter(f"{SVG}text") if (node.text or "").startswith("a change")]
    assert written.text.endswith("…")
    assert len(written.text) > 25
    width = page.evaluate(WIDTH, written.text)
    assert float(written.get("transform").split("(")[1].split()[0]) + width <= 300


def test_texts_of_many_marks_leave_room_for_the_curves(page):
    line = {"name": "loss", "colour": BLUE, "xs": [0, 100], "ys": [1, 2]}
    marks = [{"x": 50 + number / 10, "text": f"a change of {number}"} for number in range(20)]
    svg = Shown(page, [line], marks=marks).svg()
    assert sum(node.get("stroke-dasharray") == "2 3" for node in svg.iter(f"{SVG}polyline")) == 20
    written = [node.text for node in svg.iter(f"{SVG}text") if (node.text or "").startswith("a change")]
    assert written == [f"a change of {number}" for number in range(len(written))]
    assert 0 < len(written) <= 8
    (curve,) = curves(svg, BLUE)
    assert curve[:, 1].min() < 120


def test_another_theme_is_drawn_at_once(page):
    Shown(page, [{"name": "one", "xs": [0, 1], "ys": [1, 2], "colour": BLUE}])
    picture = "document.querySelector('canvas').toDataURL()"
    before = page.evaluate(picture)
    page.evaluate("document.body.style.color = 'rgb(250, 250, 250)'")
    page.wait_for_timeout(100)
    assert page.evaluate(picture) == before
    page.evaluate("document.body.className = 'dark'")
    eventually(page, lambda: page.evaluate(picture) != before)
