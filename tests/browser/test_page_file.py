"""The saved page: opens from a file without a network, shows what was closed too, says what is pointed at, runs nothing
of a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.app_reading import number
from tests.browser.looking import chips, eventually, expect_painted, thumbnail
from tests.browser.test_pages import settle

pytestmark = pytest.mark.browser

HOSTILE = '</script><img src=x onerror="document.title=1"> ]]> \u2028 **b** $x$ <!-- </template></style><b>'
SHORT = "</b> I see."  # every token has a place of its own on the map
TARGET = "我是老师。"
MOST = 5_000_000
Open = Callable[[Page, str], Page]


@pytest.fixture
def saved(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Saves a page under a name, and opens the file in a browser that reaches nothing else."""
    contexts, asked, errors = [], [], []  # type: list, list[str], list[str]

    def save(page: Page, name: str) -> Page:
        with page.expect_download() as download:
            page.get_by_role("button", name="Menu", exact=True).click()
            page.get_by_role("button", name="Save this page").click()
        assert download.value.suggested_filename == f"vitrine-{name}.html"
        file = tmp_path / f"{name}.html"
        download.value.save_as(file)
        assert file.stat().st_size < MOST
        contexts.append(browser.new_context(viewport={"width": 1440, "height": 900}, offline=True))
        opened = contexts[-1].new_page()
        opened.route("**/*", lambda route: route.continue_() if route.request.url == file.as_uri() else route.abort())
        opened.on("request", lambda request: asked.append(request.url))
        opened.on("console", lambda message: message.type in ("error", "warning") and errors.append(message.text))
        opened.on("pageerror", lambda error: errors.append(str(error)))
        opened.goto(file.as_uri())
        opened.wait_for_function("() => document.fonts.status === 'loaded'")
        return opened

    yield save
    for context in contexts:
        context.close()
    assert not [url for url in asked if not url.startswith(("file:", "data:"))]
    assert not errors


MIDDLE = """(plot, [row, column]) => {
  const { x, y } = plot.place;
  return { x: (x(column) + x(column + 1)) / 2, y: (y(row) + y(row + 1)) / 2 };
}"""


def pointed(page: Page, row: int, column: int) -> str:
    """What the large figure says of a cell."""
    figure = page.locator(".vitrine.heatmap").first
    figure.locator("canvas").hover(position=figure.evaluate(MIDDLE, [row, column]))
    tip = figure.locator(".tip")
    expect(tip).to_be_visible()
    return tip.inner_text()


def weight_in(tip: str) -> float:
    written = re.search(r"weight (\S+)", tip)
    assert written, tip
    return number(written[1])


@pytest.mark.slow
def test_offline_a_page_of_hostile_text_explains_says_values_and_shows_any_head(visit, model, saved):
    page = visit().open(source=HOSTILE, target=TARGET)
    expect_painted(page, model, HOSTILE)
    settle(page)
    before = page.locator(".stMain").inner_text()
    file = saved(page, "attention")
    eventually(page, lambda: page.locator("details .katex").count() == 0)  # the page is as it was
    assert page.locator(".stMain").inner_text() == before
    trace = model.trace(HOSTILE, TARGET)
    weights = trace.attention("cross")
    rows, columns = trace.target_tokens, trace.source_tokens
    expect(chips(file, "source")).to_have_text(chips(page, "source").all_inner_texts())
    expect(file.locator('input[aria-label="Source"]')).to_have_value(
        page.locator('input[aria-label="Source"]').input_value()
    )
    assert file.title() == page.title()

    explained = file.locator("details").filter(has_text="What am I looking at?")
    expect(explained.locator("[data-testid=stExpanderDetails]")).to_be_hidden()
    explained.locator("summary").click()
    expect(explained.get_by_text("Attention Is All You Need")).to_be_visible()
    expect(explained.locator(".katex-html").first).to_be_visible()
    loaded = "({ family, status }) => family.includes('KaTeX_Main') && status === 'loaded'"
    file.wait_for_function(f"() => [...document.fonts].some({loaded})")
    table = file.locator("details").filter(has_text="Data: every head")
    table.locator("summary").click()
    lines = model.config.n_decoder_layers * model.config.n_heads
    expect(table.locator("tbody tr")).to_have_count(lines)

    heading = file.locator(".vitrine.heatmap .heading b")
    layer, head = (int(each) - 1 for each in re.findall(r"\d+", heading.inner_text()))
    tip = pointed(file, 1, 2)
    assert rows[1] in tip
    assert columns[2] in tip
    assert weight_in(tip) == pytest.approx(float(weights[layer, head, 1, 2]), rel=5e-4, abs=1e-6)
    expect(chips(file, "source").nth(2)).to_have_class(re.compile(r"\blit\b"))  # wherever it is drawn
    other = (layer + 1) % len(weights), (head + 1) % model.config.n_heads
    thumbnail(file, other[0] + 1, other[1] + 1).click()
    expect(heading).to_have_text(f"Layer {other[0] + 1}, head {other[1] + 1}")
    for row, column in ((1, 2), (3, 0)):
        assert weight_in(pointed(file, row, column)) == pytest.approx(
            float(weights[*other, row, column]), rel=5e-4, abs=1e-6
        )
    expect(file.locator(".vitrine.stages .picker .muted")).to_contain_text(f"{other[0] + 1}.{other[1] + 1}")
    box = file.locator(".vitrine.heads .map").first.bounding_box()
    assert box
    file.mouse.move(box["x"] + 3, box["y"] + 3)
    cell = rows[int(3 / box["height"] * len(rows))], columns[int(3 / box["width"] * len(columns))]
    expect(file.locator(".vitrine.heads .caption")).to_contain_text(f"Layer 1, head 1: {' → '.join(cell)}")


@pytest.mark.slow
def test_the_saved_map_and_masks_say_what_is_pointed_at(visit, model, saved):
    page = visit().open(source=SHORT, target=TARGET)
    expect_painted(page, model, SHORT)
    trace = model.trace(SHORT, TARGET)
    page.get_by_role("link", name="Map", exact=True).click()
    expect(page.locator(".model_map[data-painted]")).to_be_visible()
    settle(page)
    file = saved(page, "map")
    head = file.locator(".model_map .areas .head").first
    expect(head).to_be_visible()
    place = head.bounding_box()
    file.mouse.move(place["x"] + 2, place["y"] + 2)
    expect(file.locator(".panel .cell")).to_contain_text(trace.source_tokens[0].replace("▁", "·"))
    head.click()  # which leads nowhere
    expect(file.locator(".panel .go")).to_be_hidden()
    same_place(page, file, ".vitrine.model_map")
    page.get_by_role("link", name="Masks", exact=True).click()
    expect(page.locator(".vitrine.panels[data-painted]")).to_have_count(3)
    settle(page)
    file = saved(page, "masks")
    same_place(page, file, ".vitrine.panels >> nth=1")
    panels = file.locator(".vitrine.panels").nth(1)
    spot = """(plot) => {
      const { left, top, wide, high } = plot.place.places[2]; // the weights
      return { x: left + wide / 2, y: top + 1.5 * high };
    }"""
    panels.locator("canvas").hover(position=panels.evaluate(spot))
    expect(panels.locator(".tip")).to_be_visible()
    layer, number = (int(each) - 1 for each in re.findall(r"\d+", panels.locator(".heading b").inner_text())[:2])
    said = panels.locator(".tip").inner_text().splitlines()
    assert float(said[-1]) == pytest.approx(float(trace.attention("decoder")[layer, number, 1, 0]), rel=5e-4, abs=1e-6)


def same_place(page: Page, file: Page, large: str) -> None:
    """The figure stands where it was, as large as it was."""
    place = "(node) => { const { x, y, width, height } = node.getBoundingClientRect(); return [x, y, width, height]; }"
    there, again = (each.locator(large).evaluate(place) for each in (page, file))
    assert again == pytest.approx(there, abs=12)


@pytest.mark.slow
def test_without_scripts_pictures_stand_for_the_figures(visit, browser, tmp_path):
    page = visit().open(source="I see.")
    settle(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Menu", exact=True).click()
        page.get_by_role("button", name="Save this page").click()
    download.value.save_as(tmp_path / "page.html")
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True, java_script_enabled=False)
    file = context.new_page()
    file.goto((tmp_path / "page.html").as_uri())
    pictures = file.locator(".vitrine.heatmap img, .vitrine.heads img")
    expect(pictures).to_have_count(2)
    expect(pictures.first).to_be_visible()
    context.close()


@pytest.mark.slow
def test_a_long_text_leaves_out_the_choice_of_a_head_and_says_so(visit, saved):
    page = visit().open(source="The cat sat on the mat and looked at the red car. " * 12, attention="encoder")
    settle(page)
    file = saved(page, "attention")
    expect(file.locator(".saved_note")).to_contain_text("no other head can be chosen here")
    heading = file.locator(".vitrine.heatmap .heading b")
    before = heading.inner_text()
    expect(thumbnail(file, 1, 1)).to_be_disabled()
    expect(file.locator(".vitrine.heads .caption")).not_to_contain_text("press one")
    assert "weight" in pointed(file, 1, 2)
    expect(heading).to_have_text(before)
