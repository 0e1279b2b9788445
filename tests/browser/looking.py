"""What a test reads from the page."""

from __future__ import annotations

import time
from collections.abc import Callable
from xml.etree import ElementTree

from playwright.sync_api import Locator, Page, expect

from model.inference.text_model import TextModel
from tests.browser.server import PATIENCE
from viz.i18n.format import token_sign

PIXELS = """
(heads) => {
  const [columns, rows] = heads.dataset.cells.split(" ").map(Number);
  const atlas = heads.querySelector("canvas");
  const corner = atlas.getBoundingClientRect();
  const ratio = atlas.width / corner.width;
  return [...heads.querySelectorAll(".map")].map((map) => {
    const box = map.getBoundingClientRect();
    const [left, top] = [box.left - corner.left, box.top - corner.top].map((place) => Math.round(place * ratio));
    const [width, height] = [box.width, box.height].map((length) => Math.round(length * ratio));
    const laid = corner.width && width && height; // else nothing is painted yet
    if (!laid) return { print: 0, drawn: 0, darkest: 0, last: [0, 0, 0, 0], width: columns, height: rows };
    const { data } = atlas.getContext("2d").getImageData(left, top, width, height);
    const cell = (row, column) => {
      const x = Math.floor(((column + 0.5) * width) / columns);
      const y = Math.floor(((row + 0.5) * height) / rows);
      return data.slice(4 * (y * width + x), 4 * (y * width + x) + 4);
    };
    const cells = Array.from({ length: rows * columns }, (_, at) => cell(Math.floor(at / columns), at % columns));
    return {
      print: data.reduce((sum, value) => (sum * 31 + value) % 1000000007, 0),
      drawn: cells.filter((colour) => colour[3]).length,
      darkest: Math.max(...cells.map((colour) => colour[3])),
      last: [...cell(0, columns - 1)],
      width: columns,
      height: rows,
    };
  });
}
"""


FAILURE = ".st-key-draw_again, [data-testid=stException]"  # beside the sentence on an exception that nothing has caught


def eventually(page: Page, holds: Callable[[], bool]) -> None:
    """Something comes to hold: a page shows a change part by part."""
    end = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < end:
        if holds():
            return
        page.wait_for_timeout(100)
    assert holds()


CALM = """() => {
  const running = document.querySelector('[data-testid=stApp]').dataset.testScriptState !== 'notRunning';
  window.calm = running ? null : (window.calm ?? performance.now());
  return window.calm !== null && performance.now() - window.calm > 300;
}"""


def stands_still(page: Page) -> None:
    """All is drawn, and no run has begun: a button that is drawn anew between press and release is not clicked."""
    page.evaluate("() => (window.calm = null)")
    page.wait_for_function(CALM)


def source(page: Page) -> Locator:
    return page.locator('input[aria-label="Source"]')


def target(page: Page) -> Locator:
    return page.locator('input:is([aria-label="Target"], [aria-label="Output"])')


def chips(page: Page, side: str) -> Locator:
    return page.locator(f".vitrine .tokens.{side} .chip")


def thumbnails(page: Page) -> Locator:
    return page.locator(".vitrine.heads .map")


def thumbnail(page: Page, layer: int, head: int) -> Locator:
    """Counted from 1, as on the screen."""
    return page.locator(".vitrine.heads .head").filter(has_text=f"{layer}.{head}").first


def pixels(page: Page) -> list[dict]:
    """For every thumbnail: a `print` that changes with its pixels, how many cells are drawn, the darkest's opacity,
    the colour of the first row's last cell, and how many columns and rows there are.
    """
    return page.locator(".vitrine.heads").evaluate(PIXELS)


def expect_tokens(page: Page, side: str, labels: list[str]) -> None:
    expect(chips(page, side)).to_have_text([token_sign(label) for label in labels])


def expect_painted(page: Page, model: TextModel, text: str) -> None:
    """Chips and thumbnails have come to be those of this source."""
    labels = model.source_tokens(text).labels
    expect(page.locator(".vitrine.heads")).to_have_attribute("data-painted", " ".join(labels))
    expect_tokens(page, "source", labels)


def figure(page: Page) -> ElementTree.Element:
    """The large figure, as its menu saves it: SVG."""
    page.locator(".vitrine.heatmap .opener").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG", exact=True).click()
    return ElementTree.fromstring(download.value.path().read_text("utf-8"))


def texts(svg: ElementTree.Element) -> list[str]:
    """Titles of the axes, labels of columns and rows, ticks and title of the colour bar."""
    return [node.text or "" for node in svg.iter("{http://www.w3.org/2000/svg}text")]


def cells(svg: ElementTree.Element, count: int) -> list[dict[str, str]]:
    """The boxes of the cells, row by row; the first box is the background."""
    return [node.attrib for node in svg if node.tag.endswith("rect")][1 : 1 + count]
