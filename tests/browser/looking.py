"""What a test reads from the page."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from model.inspectable import Inspectable

PIXELS = """
(canvases) => canvases.map((canvas) => {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const opacities = data.filter((_, index) => index % 4 === 3);
  return {
    print: data.reduce((sum, value) => (sum * 31 + value) % 1000000007, 0),
    drawn: opacities.filter((value) => value).length,
    darkest: Math.max(...opacities),
    width,
    height,
  };
})
"""


def source(page: Page) -> Locator:
    return page.locator('input[aria-label="Source"]')


def target(page: Page) -> Locator:
    return page.locator('input[aria-label="Target"]')


def chips(page: Page, side: str) -> Locator:
    return page.locator(f".vitrine .tokens.{side} .chip")


def thumbnails(page: Page) -> Locator:
    return page.locator(".vitrine.heads canvas")


def thumbnail(page: Page, layer: int, head: int) -> Locator:
    """Counted from 1, as on the screen."""
    return page.locator(".vitrine.heads .head").filter(has_text=f"{layer}.{head}").first


def pixels(page: Page) -> list[dict[str, int]]:
    """For every thumbnail: a `print` that changes with its pixels, how many are drawn, the darkest, its size."""
    return thumbnails(page).evaluate_all(PIXELS)


def expect_tokens(page: Page, side: str, labels: list[str]) -> None:
    expect(chips(page, side)).to_have_text([label if label != " " else "␣" for label in labels])


def expect_painted(page: Page, lens: Inspectable, text: str) -> None:
    """Chips and thumbnails have come to be those of this source."""
    labels = lens.source_tokens(text).labels
    expect(page.locator(".vitrine.heads")).to_have_attribute("data-painted", " ".join(labels))
    expect_tokens(page, "source", labels)


def figure(page: Page) -> list[dict]:
    """The large figure's data, as Plotly has it; while a new figure takes its place, there are two for a moment."""
    expect(page.locator(".js-plotly-plot")).to_have_count(1)
    return page.locator(".js-plotly-plot").evaluate(
        "(plot) => plot.data.map(({ type, name, zmax, fillpattern }) => ({ type, name, zmax, fillpattern }))"
    )
