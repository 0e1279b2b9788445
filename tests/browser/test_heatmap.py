"""The labelled heatmap by itself: what is drawn and saved is what came in."""

from __future__ import annotations

import csv
import io
from itertools import pairwise

import numpy as np
import pytest

from tests.browser.alone import HOSTILE, Shown
from tests.browser.looking import cells, eventually, texts

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("top", [1.0, 0.37])
def test_cells_are_the_weights_in_rows_and_masked_ones_are_hatched(page, top):
    visible = np.tril(np.ones((4, 5), dtype=bool))
    shown = Shown(page, list("abcd"), list("vwxyz"), visible=visible, high=top)
    boxes = cells(shown.svg(), 20)
    assert [box["fill"] == "url(#masked)" for box in boxes] == list(~visible.flatten())
    drawn = [(float(box["fill-opacity"]), box["fill"]) for box in boxes if "fill-opacity" in box]
    assert {colour for _, colour in drawn} == {"rgb(82,110,223)"}  # attention's blue, a little darker on a white page
    expected = np.minimum(shown.values[visible] / top, 1)
    assert np.allclose([opacity for opacity, _ in drawn], expected, atol=1 / 255)
    places = [(float(box["y"]), float(box["x"])) for box in boxes]
    assert places == sorted(places)
    assert len(set(places)) == 20


def test_a_scale_below_zero_is_a_diverging_one(page):
    values = np.array([[-2, -1, 0, 1, 2]])
    boxes = cells(Shown(page, ["a"], list("vwxyz"), values=values, low=-2, high=2).svg(), 5)
    assert [box["fill"] for box in boxes[:2]] == ["rgb(194,86,0)"] * 2
    assert [box["fill"] for box in boxes[3:]] == ["rgb(0,114,178)"] * 2
    assert np.allclose([float(box["fill-opacity"]) for box in boxes], [1, 0.5, 0, 0.5, 1], atol=0.01)


# The texts of a saved figure: [words, where they begin, where they end], down the page.
WRITTEN = r"""
(saved) => {
  document.body.innerHTML = saved;
  return [...document.querySelectorAll("text")].map((text) => {
    const [, y, turn] = text.getAttribute("transform").match(/-?[\d.]+/g).map(Number);
    const half = (turn ? text.getComputedTextLength() : Number(text.getAttribute("font-size"))) / 2;
    return [text.textContent, y - half, y + half];
  });
}
"""


def test_a_title_in_a_column_is_written_without_gaps_and_not_over_itself(page):
    """Chinese letters and short numbers stand, signs between them are turned: each begins where the last one ends. A
    title with a word in Latin letters is turned whole.
    """
    title = ["第", "2", "层", "‖", "均", "值", "− x‖ / ‖x‖", "，", "之", "差"]
    word = "激活 1 的 logit"
    rows, columns = list("abcdefghijklmnopq"), list("vwxyz")
    shown = Shown(page, rows, columns, title="第 2 层‖均值 − x‖ / ‖x‖，之差")
    found = [each for each in page.evaluate(WRITTEN, shown.saved("SVG").decode()) if each[0] in title]
    assert [words for words, _top, _bottom in found] == title
    gaps = [top - bottom for (_above, _top, bottom), (_below, top, _bottom) in pairwise(found)]
    assert min(gaps) > -0.5, gaps
    assert max(gaps) < 5, gaps
    whole = page.evaluate(WRITTEN, Shown(page, rows, columns, title=word).saved("SVG").decode())
    assert word in [words for words, _top, _bottom in whole]


LOGARITHMIC = np.array([[0, 5e-5, 1e-4, 1e-3, 0.05, 1.0]])


def by_logarithm(values):
    """How strong the colour of a size is between 0.0001 and 1."""
    return np.clip(1 + np.log10(np.maximum(np.abs(values), 1e-9)) / 4, 0, 1)


def test_a_scale_with_a_floor_colours_by_the_logarithm_and_says_its_powers_of_ten(page):
    svg = Shown(page, ["a"], list("uvwxyz"), values=LOGARITHMIC, floor=1e-4).svg()
    drawn = [float(box["fill-opacity"]) for box in cells(svg, 6)]
    assert np.allclose(drawn, by_logarithm(LOGARITHMIC[0]), atol=0.004)
    assert [text for text in texts(svg) if text[0].isdigit()] == ["0.0001", "0.01", "1"]
    page.evaluate("() => document.body.replaceChildren()")
    many = Shown(page, list("abcdef"), list("uvwxyz"), values=LOGARITHMIC.repeat(6, axis=0), floor=1e-4).svg()
    assert [text for text in texts(many) if text[0].isdigit()] == ["0.0001", "0.001", "0.01", "0.1", "1"]


def test_differences_with_a_floor_are_coloured_by_the_logarithm_on_both_sides(page):
    values = np.array([[-1, -0.01, 5e-5, 0.01, 1]])
    svg = Shown(page, ["a"], list("vwxyz"), values=values, low=-1, floor=1e-4).svg()
    boxes = cells(svg, 5)
    assert [boxes[0]["fill"], boxes[-1]["fill"]] == ["rgb(194,86,0)", "rgb(0,114,178)"]
    assert np.allclose([float(box["fill-opacity"]) for box in boxes], by_logarithm(values[0]), atol=0.01)
    assert {"−1", "±0.0001", "1"} < set(texts(svg))


@pytest.mark.parametrize("floor", [None, 1e-4])
def test_many_small_cells_have_the_colours_of_large_ones(page, floor):
    values = 10.0 ** np.random.default_rng(0).uniform(-5, 0, (90, 90))
    names = [f"{index}" for index in range(90)]
    Shown(page, names, names, values=values, floor=floor)
    painted = page.evaluate(
        """() => {
          const { canvas, place } = document.querySelector(".vitrine");
          const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const middle = (of, at) => Math.floor((of(at) + of(at + 1)) / 2);
          const each = Array.from({ length: 90 }, (_, at) => at);
          const opacity = (x, y) => data[4 * (y * width + x) + 3];
          return each.map((row) => each.map((column) => opacity(middle(place.x, column), middle(place.y, row))));
        }"""
    )
    expected = values if floor is None else by_logarithm(values)
    assert np.allclose(np.array(painted) / 255, expected, atol=0.01)


def test_labels_are_shown_literally_in_their_places(page):
    keys = ["▁the", "▁the", "</s>", " "]
    shown = Shown(page, HOSTILE, keys)
    found = texts(shown.svg())
    assert found[:6] == ["key (to)", "query (from)", "·the", "·the", "</s>", "·"]
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
    eventually(page, lambda: page.locator("canvas").evaluate(size)[0] == 320 * ratio)
    page.close()


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
