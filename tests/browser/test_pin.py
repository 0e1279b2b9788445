"""The pin: what is kept, what is new and gone in the tokens, what changed most; on every page."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from model.analysis.comparison import Comparison
from tests.browser.looking import chips, eventually, expect_tokens, stands_still

pytestmark = pytest.mark.browser

BEFORE, AFTER = "I am a teacher.", "I am a good student."


def test_a_pinned_text_stays_beside_what_is_typed(visit, model):
    page = visit().open(source=BEFORE, target="我是老师。")
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.locator(".kept")).to_contain_text(BEFORE)
    expect(page.locator(".changes")).to_have_text("nothing differs from the pin")
    page.locator('input[aria-label="Source"]').fill(AFTER)
    expect_tokens(page, "source", model.source_tokens(AFTER).labels)
    comparison = Comparison(model.trace(AFTER, "我是老师。"), model.trace(BEFORE, "我是老师。"))
    new = [comparison.trace.source_tokens[place].replace("▁", "·") for place in comparison.source.inserted]
    gone = [comparison.pinned.source_tokens[place].replace("▁", "·") for place in comparison.source.deleted]
    assert new
    assert gone
    expect(page.locator(".tokens.source .chip.new")).to_have_text(new)
    expect(page.locator(".tokens.source .gone")).to_have_text(gone)
    expect(page.locator(".tokens.target .gone")).to_have_count(0)
    changes = comparison.changes
    head = changes[changes["kind"] == "head"].iloc[0]
    page.get_by_role("button", name="● pinned").click()
    first = page.locator(".changes .change").first
    expect(first).to_contain_text(f"{head['layer'] + 1}.{head['head'] + 1}")
    change = pytest.approx(head["change"], abs=1e-4)
    eventually(page, lambda: float(first.get_attribute("title").rpartition(": ")[2]) == change)
    stands_still(page)  # changes are drawn anew with the text
    first.click()
    expect(page.get_by_text(f"Layer {head['layer'] + 1}, head {head['head'] + 1}", exact=True)).to_be_visible()
    stands_still(page)
    expect(page.locator(".changes .list")).to_have_count(4)
    if not page.locator(".kept").is_visible():
        page.get_by_role("button", name="● pinned").click()
    page.get_by_role("button", name="unpin").click()
    expect(page.locator(".kept")).to_have_count(0)
    expect(chips(page, "source").locator("xpath=self::*[contains(@class, 'new')]")).to_have_count(0)
