"""The page Checkpoints, Evaluate, in Chromium: a file is sent, translated, stopped, gone on with, and looked into."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.looking import source
from tests.model.examples import sentences

pytestmark = pytest.mark.browser

PATIENCE = 120_000  # milliseconds
FIELD = '[data-testid="stFileUploaderDropzoneInput"]'


@pytest.mark.slow
def test_a_file_is_translated_stopped_gone_on_with_and_looked_into(visit: Callable[..., Visit]) -> None:
    page = visit().open()
    page.get_by_role("link", name="Checkpoints", exact=True).click()
    page.get_by_role("radio", name="Evaluate").click()
    expect(page.get_by_text("on a file of pairs")).to_be_visible()
    pairs = sentences(500)
    rows = "".join(f"{pair.source} {number}\t{pair.target}\n" for number, pair in enumerate(pairs))
    page.locator(FIELD).set_input_files({"name": "p.tsv", "mimeType": "text/tab", "buffer": rows.encode()})
    page.get_by_role("button", name="Translate 500 sentences").click()
    stop, go_on = (page.get_by_role("button", name=name, exact=True) for name in ("Stop", "Go on"))
    expect(page.get_by_text("BLEU so far")).to_be_visible(timeout=PATIENCE)
    expect(page.locator(".vitrine.progress .text")).to_contain_text("of 500 sentences")
    stop.click()
    expect(page.get_by_text("of 500 sentences are translated, and only they count")).to_be_visible(timeout=PATIENCE)
    go_on.click()
    expect(stop).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_text("Of 500 sentences with 500 references.")).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_text("tok:")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="All 500 sentences as CSV").click()
    lines = download.value.path().read_text(encoding="utf-8-sig").splitlines()
    assert lines[0] == "chrF,source,written,reference"
    assert len(lines) == 501
    before = source(page).input_value()
    table = page.locator(".st-key-evaluate_sentences").bounding_box()
    assert table
    page.mouse.click(table["x"] + 14, table["y"] + 55)  # the box of the first row
    expect(source(page)).not_to_have_value(before)
    chrf = {line.split(",")[1]: float(line.split(",")[0]) for line in lines[1:]}
    assert chrf[source(page).input_value()] == min(chrf.values())
