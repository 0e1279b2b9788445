"""The saved page: opens from a file without a network, shows the same, runs nothing."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.looking import chips, expect_painted

pytestmark = pytest.mark.browser

HOSTILE = '</script><img src=x onerror="document.title=1"> </template></style><b>'


def test_the_saved_page_opens_offline_and_shows_the_same(visit, lens, browser, tmp_path):
    page = visit().open(source=HOSTILE)
    expect_painted(page, lens, HOSTILE)
    page.wait_for_timeout(500)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save this page").click()
    assert download.value.suggested_filename == "vitrine-attention.html"
    file = tmp_path / "page.html"
    download.value.save_as(file)
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
    saved, asked, errors = context.new_page(), [], []
    saved.on("request", lambda request: asked.append(request.url))
    saved.on("console", lambda message: message.type == "error" and errors.append(message.text))
    saved.goto(file.as_uri())
    expect(chips(saved, "source")).to_have_text(chips(page, "source").all_inner_texts())
    expect(saved.locator('input[aria-label="Source"]')).to_have_value(HOSTILE)
    pictures = saved.locator("img")
    assert pictures.count() >= 3  # thumbnails, stages, the large figure
    drawn = "(all) => all.filter((image) => image.src).every((image) => image.complete && image.naturalWidth > 0)"
    assert pictures.evaluate_all(drawn)
    place = "(node) => { const { x, y, width, height } = node.getBoundingClientRect(); return [x, y, width, height]; }"
    large, again = (each.locator(".vitrine.heatmap").evaluate(place) for each in (page, saved))
    assert again[0] == pytest.approx(large[0], abs=12)
    assert again[2:] == pytest.approx(large[2:], abs=12)
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    assert not errors
    assert saved.title() == page.title()
    context.close()
