"""Models of one stack in the browser: what they guess can be clicked, and the button lets them write."""

import pytest
from playwright.sync_api import Locator, Page, expect

from model.checkpoints.load import open_checkpoint
from model.text.tokenizer import MASK
from tests.browser.looking import expect_tokens, stands_still, thumbnails
from tests.browser.server import ROOT
from viz.i18n.format import token_sign

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def shakespeare():
    return open_checkpoint(ROOT / "checkpoints" / "shakespeare")


@pytest.fixture(scope="module")
def fill_mask():
    return open_checkpoint(ROOT / "checkpoints" / "fill-mask")


def text(page: Page) -> Locator:
    return page.locator('input[aria-label="Text"]')


def shown(label: str) -> str:
    return token_sign(label.replace("\n", "⏎"))


def choices(page: Page) -> Locator:
    return page.locator(".vitrine .guess .choice .label")


@pytest.mark.slow
def test_a_guess_that_is_clicked_goes_on_with_the_text(visit, shakespeare):
    page = visit().open(model="shakespeare", source="To be, or")
    guess = shakespeare.guesses(shakespeare.trace("To be, or"))[0]
    expect(choices(page)).to_have_text([shown(each.label) for each in guess.choices])
    chosen = next(each for each in guess.choices if each.label.startswith("▁"))
    stands_still(page)  # they are drawn anew with the text
    choices(page).filter(has_text=shown(chosen.label)).first.click()
    longer = shakespeare.take("To be, or", 0, chosen.token)
    expect(text(page)).to_have_value(longer)
    expect_tokens(page, "source", shakespeare.source_tokens(longer).labels)
    config = shakespeare.config
    expect(thumbnails(page)).to_have_count(config.n_decoder_layers * config.n_heads)


@pytest.mark.slow
def test_masks_are_filled_by_a_click(visit, fill_mask):
    source = f"She bought a {MASK} car."
    page = visit().open(model="fill-mask", source=source)
    best = fill_mask.guesses(fill_mask.trace(source))[0].choices
    expect(choices(page)).to_have_text([shown(each.label) for each in best])
    stands_still(page)
    choices(page).nth(1).click()
    expect(text(page)).to_have_value(fill_mask.take(source, 0, best[1].token))
    expect(choices(page)).to_have_count(0)
    text(page).fill(source)
    expect(choices(page)).to_have_count(5)
    stands_still(page)
    page.get_by_role("button", name="Fill in").click()
    expect(text(page)).to_have_value(fill_mask.take(source, 0, best[0].token))
