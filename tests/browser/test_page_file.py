"""The saved page: opens from a file without a network, shows the same, runs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.looking import chips, expect_painted
from tests.browser.test_pages import settle

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = '</script><img src=x onerror="document.title=1"> </template></style><b>'


def test_the_saved_pages_open_offline_and_show_the_same(visit, model, browser, tmp_path):
    page = visit().open(source=HOSTILE)
    expect_painted(page, model, HOSTILE)
    settle(page)
    shows_the_same(page, browser, tmp_path / "page.html", "attention", ".vitrine.heatmap", 3)
    page.get_by_role("link", name="Masks", exact=True).click()
    expect(page.locator(".vitrine.panels[data-painted]")).to_have_count(3)
    settle(page)
    shows_the_same(page, browser, tmp_path / "masks.html", "masks", ".vitrine.panels >> nth=1", 3)


def shows_the_same(page: Page, browser: Browser, file: Path, name: str, large: str, fewest: int) -> None:
    """Saved under this name, the page opens without a network, its large figure where it was, and no fewer pictures."""
    with page.expect_download() as download:
        page.get_by_role("button", name="Save this page").click()
    assert download.value.suggested_filename == f"vitrine-{name}.html"
    download.value.save_as(file)
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
    saved, asked, errors = context.new_page(), [], []
    saved.on("request", lambda request: asked.append(request.url))
    saved.on("console", lambda message: message.type == "error" and errors.append(message.text))
    saved.goto(file.as_uri())
    expect(chips(saved, "source")).to_have_text(chips(page, "source").all_inner_texts())
    expect(saved.locator('input[aria-label="Source"]')).to_have_value(HOSTILE)
    pictures = saved.locator("img")
    assert pictures.count() >= fewest
    drawn = "(all) => all.filter((image) => image.src).every((image) => image.complete && image.naturalWidth > 0)"
    assert pictures.evaluate_all(drawn)
    place = "(node) => { const { x, y, width, height } = node.getBoundingClientRect(); return [x, y, width, height]; }"
    there, again = (each.locator(large).evaluate(place) for each in (page, saved))
    assert again[0] == pytest.approx(there[0], abs=12)
    assert again[2:] == pytest.approx(there[2:], abs=12)
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    assert not errors
    assert saved.title() == page.title()
    context.close()
