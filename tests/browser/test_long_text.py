"""A long text in a browser: the chosen head first, the others as they come, cancelled, gone on with, and superseded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from model.checkpoints.native import save_checkpoint
from tests.benchmarks.long_text import long_model, long_text
from tests.browser.server import serve

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TOKENS = 4096  # that the model reads


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> Iterator[str]:
    """A server with a model that reads `TOKENS` tokens."""
    folder: Path = tmp_path_factory.mktemp("long")
    model = long_model(TOKENS)
    save_checkpoint(folder / "long", model.network, (model.source_tokenizer,) * 2, dict(model.training))
    with serve("app.py", VITRINE_MODELS=str(folder)) as address:
        yield address


def field(page: Page) -> Locator:
    return page.locator('input[aria-label="Text"]')


def bar(page: Page) -> Locator:
    return page.locator(".st-key-input_bar .vitrine.progress")


def waiting(page: Page) -> Locator:
    return page.locator(".vitrine.heads .head.waiting")


def test_the_chosen_head_comes_first_and_the_rest_can_be_cancelled(visit):
    page = visit().open(model="long")
    heads = page.locator(".vitrine.heads .head")
    expect(heads).to_have_count(32)
    field(page).fill(long_text(long_model(TOKENS), 0))
    # The picture of the text before is taken away, and the new one comes before the other heads.
    expect(page.locator("[data-awaited] .vitrine.heatmap, [data-behind] .vitrine.heatmap")).to_have_count(1)
    expect(page.locator(".vitrine.heatmap")).to_contain_text("each cell is the largest of 16 × 16")
    expect(page.locator("[data-behind]")).to_have_count(0)
    expect(bar(page)).to_contain_text(re.compile(r"\d+ of 32 heads"))
    expect(bar(page)).to_contain_text("all would be 2.15 GB")
    assert waiting(page).count() > 0
    expect(page.locator(".badge")).to_have_text("? checks follow")
    bar(page).get_by_role("button", name="Cancel").click()
    expect(bar(page)).to_contain_text("Cancelled: ")
    expect(page.locator(".badge")).to_have_text("? not checked: cancelled")
    page.wait_for_timeout(2000)
    count = waiting(page).count()
    assert 0 < count < 32
    page.wait_for_timeout(3000)
    assert waiting(page).count() == count  # nothing is computed any more
    waiting(page).last.click()  # but what one asks for
    expect(page.locator(".vitrine.heatmap .heading b").first).to_have_text("Layer 4, head 8")
    bar(page).get_by_role("button", name="Go on").click()
    expect(bar(page)).to_contain_text(re.compile(r"\d+ of 32 heads"))
    # A letter more ends it: all is of a short text again.
    field(page).fill("To be")
    expect(bar(page)).to_be_hidden()
    expect(waiting(page)).to_have_count(0)
    expect(page.locator(".check.passed")).to_be_visible()
    expect(page.locator(".vitrine.heatmap")).not_to_contain_text("each cell is the largest")
