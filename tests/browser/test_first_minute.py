"""A newcomer's first minute: what the guide on the first page tells to do is done, and what it promises is seen."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from model.analysis.blocks import blocks
from model.inference.text_model import TextModel
from tests.browser.looking import eventually, expect_tokens, source, stands_still
from tests.browser.test_map import MAP, PANEL, PRINT, expect_map
from viz.i18n.catalogue import _, speaking
from viz.pages.map.text import lines, place_name
from viz.state.session import FIRST_SOURCE

pytestmark = pytest.mark.browser

HINTS, BLOCKS = ".vitrine.lead .hint", f"{MAP} .areas .block"
SIZES = ((1440, 900), (1366, 650))
FACTS = "(all) => all.map((each) => [...each.children].map((word) => word.textContent))"


def first_page(visited) -> Page:
    page: Page = visited.page
    page.goto(visited.url)
    expect(page.locator(f"{MAP}[data-painted]")).to_be_visible()
    return page


def is_in_window(part: Locator) -> bool:
    """Whether it begins there, and ends there at the right."""
    box, size = part.bounding_box(), part.page.viewport_size
    return 0 <= box["x"] <= size["width"] - box["width"] and 0 <= box["y"] < size["height"]


def point_at(block: Locator) -> dict[str, str]:
    """What the panel says of a block that is pointed at beside its heads; it has stayed as wide and where it was."""
    panel = block.page.locator(PANEL)
    block.scroll_into_view_if_needed()
    before = panel.bounding_box()
    block.hover(position={"x": 2, "y": 2})
    expect(panel.locator("h4")).to_have_text(block.get_attribute("aria-label"))
    assert is_in_window(panel)
    after = panel.bounding_box()
    assert (after["x"], after["width"]) == (before["x"], before["width"])
    facts = panel.locator("dl > div")
    for part in (panel.locator("h4"), *facts.all()):
        box = part.bounding_box()
        assert after["x"] < box["x"] < box["x"] + box["width"] < after["x"] + after["width"]
    return dict(facts.evaluate_all(FACTS))


def type_letters(page: Page, model: TextModel) -> None:
    text, seen = FIRST_SOURCE, {page.locator(MAP).evaluate(PRINT)}
    source(page).press("End")
    for letter in " no":
        text += letter
        page.keyboard.type(letter)
        expect_map(page, model, text)
        expect_tokens(page, "source", model.source_tokens(text).labels)
        expect_tokens(page, "target", model.trace(text).target_tokens)
        count = len(seen) + (letter != " ")  # at the end it is no token
        eventually(page, lambda count=count: len(seen | {page.locator(MAP).evaluate(PRINT)}) >= count)
        seen.add(page.locator(MAP).evaluate(PRINT))
    source(page).fill(FIRST_SOURCE)
    expect_map(page, model, FIRST_SOURCE)


def point_and_click(page: Page, model: TextModel) -> None:
    found = {block.kind: block for block in blocks(model.trace(FIRST_SOURCE))}  # the last of each kind
    assert len(found) == 7
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        stands_still(page)
        for block in found.values():
            facts = point_at(page.get_by_role("button", name=place_name(block), exact=True))
            assert dict(lines(block, model.config)).items() <= facts.items()
    page.get_by_role("button", name=place_name(found["feed-forward"]), exact=True).click(position={"x": 2, "y": 2})
    page.wait_for_url("**/feed_forward*")
    expect(page.locator(".vitrine.heatmap[data-painted]").first).to_be_visible()
    page.get_by_role("link", name="Map", exact=True).click()
    expect_map(page, model, FIRST_SOURCE)


def loss(page: Page) -> float | None:
    """Loss of the training, as the sidebar says it; None before the first step."""
    found = re.search(r"loss\s([\d.]+)", page.locator(".vitrine.strip").inner_text())
    return float(found.group(1)) if found else None


def train(page: Page, _model: TextModel) -> None:
    """The tiny model's attention is filmed from its first step on, and its loss falls while one looks."""
    page.get_by_role("link", name="Training", exact=True).click()
    button = page.get_by_role("button", name="Begin and run")
    expect(button).to_be_visible()
    stands_still(page)
    assert is_in_window(button)
    button.click()
    film = page.locator(".vitrine.training-film")
    expect(film).to_be_visible()
    heads = film.locator(":has(> canvas.atlas)")
    eventually(page, lambda: loss(page) is not None)
    first, picture = loss(page), heads.evaluate(PRINT)
    eventually(page, lambda: loss(page) < 0.75 * first)
    assert heads.evaluate(PRINT) != picture
    page.locator(".vitrine.strip").get_by_role("button", name="Pause").click()
    strip = page.locator(".vitrine.strip")
    expect(strip).to_have_attribute("data-status", re.compile("paused|idle"))
    expect(strip.get_by_role("slider")).to_be_visible()
    page.get_by_role("link", name="Map", exact=True).click()
    expect(page.locator(f"{MAP}[data-painted]")).to_be_visible()
    expect(strip.get_by_role("slider")).to_be_hidden()  # nothing there follows the film


def pin(page: Page, _model: TextModel) -> None:
    """What the guide does not name, and the button in the input bar does."""
    page.get_by_role("button", name="Pin").click()
    expect(page.locator(".kept")).to_contain_text(FIRST_SOURCE)
    source(page).press("End")
    page.keyboard.type(" She left.")
    expect(page.locator(".tokens.source .chip.new").first).to_be_visible()
    facts = point_at(page.locator(BLOCKS).first)
    assert "largest change" in " ".join(facts)


STEPS = {
    "Type in the field above: every picture follows each letter.": type_letters,
    (
        "Point at a block, or tap it, to see what it does to this text; click it, or tap again, to open its page."
    ): point_and_click,
    ("On the page Training, press Begin and run: a tiny model learns from nothing as you watch."): train,
}


def test_every_step_of_the_guide_does_what_it_promises(visit, model):
    page = first_page(visit())
    expect(page.locator(HINTS)).to_have_text([*STEPS])
    first, second, third = STEPS.values()
    for step in (first, second, pin, third):
        step(page, model)
    stands_still(page)
    page.get_by_role("radio", name="中文", exact=True).click()
    with speaking("zh"):
        hints = [_(step) for step in STEPS]
    expect(page.locator(HINTS)).to_have_text(hints)
    stands_still(page)
    point_at(page.locator(BLOCKS).first)
    page.get_by_role("button", name="知道了").click()
    expect(page.locator(HINTS).first).to_be_hidden()
