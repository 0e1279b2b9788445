"""The grid of heads and the steps of a query by themselves: their files, their words, and what is lit in them."""

from __future__ import annotations

import csv
import io
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.alone import mount
from tests.browser.looking import PIXELS, eventually
from viz.figures.axis import Axis
from viz.figures.figure import Caption
from viz.figures.head_grid import HeadGrid
from viz.figures.query_steps import QuerySteps
from viz.pages.attention import components  # noqa: F401  # renderers of these
from viz.render.reader import Reader
from viz.render.render import render

pytestmark = pytest.mark.browser
GRID, STAGES = "pages/attention/head_grid", "pages/attention/steps"
CHANNELS = 5
SVG = "{http://www.w3.org/2000/svg}"
# Pixels of the colour that frames a lit token's row and column.
LIT = """
(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) found += data[at] === 75 && data[at + 1] === 77 && data[at + 2] === 87;
  return found;
}
"""
HOVER = "([side, position]) => window.__vitrine.dispatchEvent(new CustomEvent('hover', { detail: { side, position } }))"


def saved(page: Page, kind: str) -> bytes:
    page.get_by_role("button", name="Download").click()
    with page.expect_download() as download:
        page.get_by_role("button", name=kind, exact=True).click()
    assert download.value.suggested_filename == f"saved.{kind.lower()}"
    return download.value.path().read_bytes()


def lines(page: Page) -> list[list[str]]:
    return list(csv.reader(io.StringIO(saved(page, "CSV").decode("utf-8-sig"))))


def grid(page: Page, heads: int, length: int, block: int = 1, floor: float | None = None) -> np.ndarray:
    """So many heads of one layer, causal."""
    weights = np.random.default_rng(0).dirichlet(np.ones(length), (heads, length)).astype(np.float32)
    visible = np.tril(np.ones((length, length), np.uint8))
    labels = [f"t{place}" for place in range(length * block)]
    figure = HeadGrid(
        Caption("name", "saved", "a", sentence="caption", alt="what it shows"),
        weights,
        np.zeros(weights.shape, bool),
        visible,
        [1.0] * heads,
        Axis("query", labels, "target"),
        Axis("key", labels, "source"),
        order=[(0, head) for head in range(heads)],
        head=(0, 0),
        notes=["H 1"] * heads,
        waiting=[False] * heads,
        across=8,
        block=(block, block),
        floor=floor,
        words={"metric": "a", "hidden": "a", "quantity": "weight"},
    )
    mount(page, GRID, render(figure, Reader()).data, 700)
    return weights


def test_every_head_is_in_the_table_as_exactly_as_it_was_sent(page):
    weights = grid(page, 3, 4)
    names, *rows = lines(page)
    assert names[:4] == ["layer", "head", "query", "key"]
    digits, power = names[4].removeprefix("weight ± ").split("×10")
    error = float(f"{digits}e{power.translate(str.maketrans('⁻⁰¹²³⁴⁵⁶⁷⁸⁹', '-0123456789'))}")
    assert error < 1e-5
    assert [row[:4] for row in rows[:5]] == [["1", "1", "t0", f"t{key}"] for key in range(4)] + [["1", "1", "t1", "t0"]]
    assert error == pytest.approx(float(weights.max()) / 65532 / 2, rel=0.01)
    assert np.abs(np.array([float(row[4]) for row in rows]) - weights.flatten().astype(np.float64)).max() <= error
    masked = np.array([row[5] for row in rows]).reshape(3, 4, 4)
    assert (masked == np.where(np.tril(np.ones((4, 4))), "False", "True")).all()
    assert page.get_by_role("group", name="what it shows").count() == 1


def test_a_table_of_too_many_cells_says_how_many_heads_it_leaves_out(page):
    grid(page, 23, 96, block=5)
    found = lines(page)
    assert len(found) == 1 + 21 * 96 * 96 + 2  # 200,000 cells at most, whole heads
    assert found[96 * 96][:4] == ["1", "1", "t475", "t475"]
    assert found[-2:] == [
        ["largest of 5 × 5 cells"],
        ["Heads left out: 2; show fewer heads, or a shorter text"],
    ]


OPACITIES = """(heads) => {
  const { picture } = heads;
  const { data } = picture.getContext("2d").getImageData(0, 0, picture.width, picture.height);
  return Array.from({ length: picture.width * picture.height }, (_, at) => data[4 * at + 3]);
}"""


@pytest.mark.parametrize("floor", [None, 1e-2])
def test_thumbnails_are_coloured_by_the_weight_or_from_a_floor_on_by_its_logarithm(page, floor):
    weights = grid(page, 1, 9, floor=floor)[0]
    painted = np.array(page.locator(".vitrine.heads").evaluate(OPACITIES)).reshape(9, -1)[:, :9] / 255
    expected = weights if floor is None else np.clip(1 + np.log10(weights) / 2, 0, 1)
    assert np.allclose(painted, np.tril(expected), atol=0.005)
    assert not floor or (np.tril(weights)[np.tril(weights) > 0] < floor).any()


@pytest.mark.slow
def test_the_picture_has_every_head_and_what_is_masked(page):
    grid(page, 10, 6)
    svg = ElementTree.fromstring(saved(page, "SVG").decode("utf-8"))
    images = [node for node in svg if node.tag == f"{SVG}image"]
    assert len(images) == 2 * 10
    places = page.locator(".map").evaluate_all("(maps) => maps.map((map) => map.getBoundingClientRect().width)")
    assert [float(image.get("width", 0)) for image in images[::2]] == pytest.approx(places, abs=0.6)
    assert {"1.1", "1.10", "H 1"} <= {node.text for node in svg.iter(f"{SVG}text")}
    assert saved(page, "PNG").startswith(b"\x89PNG")


def test_a_token_lit_elsewhere_is_framed_on_every_thumbnail(page):
    grid(page, 8, 24)
    atlas = page.locator(".atlas")
    before = page.locator(".heads").evaluate(PIXELS)
    assert atlas.evaluate(LIT) == 0
    page.evaluate(HOVER, ["source", 3])
    eventually(page, lambda: atlas.evaluate(LIT) >= 8 * 2 * before[0]["height"])
    one = atlas.evaluate(LIT)
    page.evaluate(HOVER, ["target", 5])
    eventually(page, lambda: atlas.evaluate(LIT) > 1.5 * one)
    for side in ("source", "target", "elsewhere"):
        page.evaluate(HOVER, [side, -1])
    eventually(page, lambda: page.locator(".heads").evaluate(PIXELS) == before)


def stages(page: Page, note: str = "") -> list[np.ndarray]:
    random = np.random.default_rng(1)
    scores = random.normal(size=3).astype(np.float32)
    masked = np.where([True, True, False], scores / 2, -np.inf).astype(np.float32)
    weights = (np.exp(masked) / np.exp(masked).sum()).astype(np.float32)
    weighted = (weights[:, None] * random.normal(size=(3, CHANNELS))).astype(np.float32)
    arrays = [scores, scores / 2, masked, weights, weighted, weighted.sum(axis=0)]
    names = ("key", "score", "scaled", "masked", "weight", "weighted value")
    figure = QuerySteps(
        Caption("name", "saved", "a", note, alt="what it shows"),
        arrays,
        Axis("query", ["q"], "target", [0]),
        Axis("key", ["a", "b,", '"c'], "source", [0, 1, 2]),
        names=[(name, "f") for name in names],
        special=([False], [False] * 3),
        masked=[False, False, True],
        chosen=0,
        words={"query": "q"},
    )
    mount(page, STAGES, render(figure, Reader()).data, 700)
    return arrays


def test_the_steps_are_saved_with_every_channel(page):
    scores, scaled, _masked, weights, weighted, output = stages(page, note="2 others are left out")
    names, *rows, total, note = lines(page)
    assert names == [
        "key",
        "score",
        "scaled",
        "masked",
        "weight",
        *(f"weighted value [{at}]" for at in range(CHANNELS)),
    ]
    assert [row[0] for row in rows] == ["a", "b,", '"c']
    assert rows[2][3] == "−∞"
    for at, row in enumerate(rows):
        expected = [scores[at], scaled[at], weights[at], *weighted[at]]
        assert np.array([*row[1:3], *row[4:]], np.float32).tolist() == [np.float32(value) for value in expected]
    assert np.allclose(np.array(total[5:], float), output)
    assert note == ["2 others are left out"]
    expect(page.get_by_role("table", name="what it shows")).to_be_visible()


def test_the_steps_are_saved_as_they_stand_on_the_page(page):
    stages(page)
    svg = ElementTree.fromstring(saved(page, "SVG").decode("utf-8"))
    strips = [node for node in svg if node.tag == f"{SVG}image"]
    assert len(strips) == 4  # of each key, and their sum
    words = [node.text for node in svg.iter(f"{SVG}text")]
    assert {"score", "weighted value", "a", "b,", "Σ", "−∞"} <= set(words)
    assert saved(page, "PNG").startswith(b"\x89PNG")
