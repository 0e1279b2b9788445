"""Pieces shown as one by a click: in the tokens and in the figure at once, by the channel, and after a reload."""

from __future__ import annotations

import pytest

from model.analysis.pieces import pieces
from tests.browser.looking import eventually, expect_tokens

pytestmark = pytest.mark.browser

TEXT = "unbelievably happens"


def test_a_click_merges_the_pieces_of_words_and_typing_keeps_it_so(visit, model):
    page = visit().open(source=TEXT)
    tokens = model.source_tokens(TEXT).labels
    runs = pieces(tokens, model.source_tokenizer.special_labels)
    assert len(runs) == 3
    expect_tokens(page, "source", tokens)
    page.get_by_role("button", name="Merge pieces").click()
    expect_tokens(page, "source", runs.labels)
    eventually(page, lambda: page.evaluate("new URL(location).searchParams.get('pieces')") == "merged")
    page.locator('input[aria-label="Source"]').fill("unbelievably tokenization")
    expect_tokens(page, "source", ["▁unbelievably", "▁tokenization", "</s>"])
    page.reload()
    expect_tokens(page, "source", ["▁unbelievably", "▁tokenization", "</s>"])
    page.get_by_role("button", name="Merge pieces").click()
    expect_tokens(page, "source", model.source_tokens("unbelievably tokenization").labels)
