"""The token bar by itself: what does not change stays as it is, for a click to end where it began."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.alone import mount
from tests.browser.contrast import channels, contrast, over
from viz.components.registry import pack

pytestmark = pytest.mark.browser

ITEM = {"label": "1.2", "value": "0.5", "exact": "0.512", "act": {"head": 1}, "token": None}
KEPT = {"text": "before", "model": "small", "stamp": ""}
DATA = {
    "source": [{"label": "a", "special": False}],
    "target": [],
    "notes": {"source": "", "target": ""},
    "texts": ["a"],
    "aside": False,
    "badges": [],
    "check": {"text": "0 checks", "passed": True, "title": ""},
    "guesses": [{"title": "b →", "choices": [{"token": 5, "label": "c", "probability": 0.25}]}],
    "words": {
        "source": "Source",
        "target": "Target",
        "guess": "go on",
        "fold": "fold",
        "unfold": "unfold",
        "back": "back",
        "on": "on",
        "follow": "checks follow",
    },
    "pieces": {"mergeable": True, "merged": False, "words": {"merge": "merge", "about": "about"}},
    "changed": {"text": "", "refused": "", "words": {}},
    "pin": {
        "pinned": KEPT,
        "differing": False,
        "comparable": True,
        "alignments": {side: {"inserted": [], "deleted": []} for side in ("source", "target")},
        "changes": [{"title": "head", "unit": "weight", "items": [ITEM]}],
        "words": dict.fromkeys(
            ("keep", "explanation", "pinned", "list", "none", "differences", "about", "release"), "w"
        ),
    },
}


def show(page, **changes):
    mount(page, "frame/token_bar", pack({**DATA, **changes}, []), 800)


@pytest.mark.parametrize(
    ("part", "said"),
    [(".guesses .choice", ["guess", {"number": 0, "token": 5}]), (".changes .change", ["change", {"head": 1}])],
)
def test_what_stays_the_same_is_not_drawn_again_between_press_and_release(page, part, said):
    show(page)
    if "change" in part:
        page.locator(".pinned").click()
    pressed = page.locator(part).first
    pressed.hover()
    page.mouse.down()
    show(page)  # the same again, as at any look at a training
    page.mouse.up()
    assert page.evaluate("window.rows") == [said]
    other = {**DATA["pin"], "changes": [{"title": "head", "unit": "weight", "items": [{**ITEM, "label": "2.1"}]}]}
    guesses = [{"title": "b →", "choices": [{"token": 6, "label": "d", "probability": 0.5}]}]
    show(page, pin=other, guesses=guesses)
    assert page.locator(part).first.inner_text().startswith("d" if "choice" in part else "2.1")
    assert "2.1" in page.locator(".changes .change").first.text_content()


def test_tokens_that_have_no_room_are_led_to_and_come_into_sight_where_they_are_lit(page):
    show(page, source=[{"label": f"token{number}", "special": False} for number in range(60)], guesses=[])
    row, back, on = (page.locator(f".of-source > {each}") for each in (".tokens", ".back", ".on"))
    expect(on).to_be_visible()
    expect(back).to_be_hidden()
    on.click()
    expect(back).to_be_visible()
    page.evaluate(
        "globalThis.__vitrine.dispatchEvent(new CustomEvent('hover', {detail: {side: 'source', position: 59}}))"
    )
    page.wait_for_function("(row) => row.scrollLeft + row.clientWidth > row.scrollWidth - 2", arg=row.element_handle())
    expect(on).to_be_hidden()
    show(page)  # one token
    expect(back).to_be_hidden()
    expect(page.locator(".guesses .choice")).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    show(page)  # folded on a phone, the guesses too
    expect(page.locator(".brief")).to_be_visible()
    expect(page.locator(".guesses .choice")).to_be_hidden()


def test_what_is_pinned_has_a_line_with_the_first_of_each_kind_and_on_a_phone_it_is_among_the_buttons(page):
    kinds = [
        {"title": title, "unit": "unit", "items": [{**ITEM, "label": f"{title} {number}"} for number in (1, 2)]}
        for title in ("heads", "layers")
    ]
    pin = {**DATA["pin"], "changes": kinds}
    source = [{"label": f"token{number}", "special": False} for number in range(7)]
    show(page, pin=pin, source=source, guesses=[])
    assert page.locator(".largest .change .label").all_inner_texts() == ["heads 1", "layers 1"]
    assert page.locator(".check").inner_text() == "✓ 0 checks"
    row = page.locator(".tokens.source").evaluate("(row) => [row.scrollWidth, row.clientWidth]")
    assert row[0] <= row[1]  # the buttons of the pin take no room of it
    page.locator(".largest .change").first.click()
    assert page.evaluate("window.rows") == [["change", {"head": 1}]]
    show(page, pin={**pin, "changes": []})
    assert page.locator(".largest").inner_text() == "w"  # nothing differs
    page.set_viewport_size({"width": 390, "height": 844})
    show(page, pin=pin)
    assert page.locator(".cluster > .pinned").is_visible()
    assert not page.locator(".largest").is_visible()


PASSED = {"text": "rows", "passed": True, "title": "largest"}
FAILED = {"text": "odd", "passed": False, "title": "why"}


def test_a_click_folds_the_line_and_the_next_unfolds_it(page):
    show(page, badges=[PASSED])
    tokens, brief, button = page.locator(".tokens.source"), page.locator(".brief"), page.locator(".fold")
    assert (tokens.is_visible(), brief.is_visible(), button.get_attribute("aria-expanded")) == (True, False, "true")
    button.click()
    assert (tokens.is_visible(), brief.inner_text(), button.get_attribute("aria-expanded")) == (False, "a", "false")
    assert page.locator(".check").is_visible()
    show(page, badges=[PASSED])
    assert not tokens.is_visible()
    brief.click()
    assert tokens.is_visible()


def test_the_chip_of_all_checks_opens_their_list_and_is_first_and_red_where_one_fails(page):
    show(page, badges=[PASSED], check=PASSED)
    chip = page.locator(".check")
    colour = "(chip) => getComputedStyle(chip).backgroundColor"
    before = chip.evaluate(colour)
    show(page, badges=[FAILED, PASSED], check=FAILED)
    first = min(page.locator(".cluster > :visible").all(), key=lambda each: each.bounding_box()["x"])
    assert first.text_content() == chip.text_content() == "✗ odd"
    assert chip.evaluate(colour) != before
    assert not page.locator(".badges").is_visible()
    chip.click()
    assert page.locator(".badges .row").all_inner_texts() == ["✗ odd\nwhy", "✓ rows\nlargest"]
    page.keyboard.press("Escape")
    assert not page.locator(".badges").is_visible()


def test_checks_that_follow_are_grey_and_can_be_read(page):
    show(page, badges=[PASSED], check=PASSED)
    page.evaluate("document.body.style.setProperty('--st-text-color', 'rgb(49, 51, 63)')")
    show(page, badges=None, check=None)
    badge = page.locator(".check")
    assert badge.inner_text() == "… rows"
    styles = badge.evaluate("(badge) => [getComputedStyle(badge).color, getComputedStyle(badge).backgroundColor]")
    (text, opacity), (under, share) = map(channels, styles)
    if styles[0].startswith("color("):  # of color-mix: from 0 to 1
        text = tuple(255 * part for part in text)
    background = over(under, share, (255, 255, 255))
    assert contrast(over(text, opacity, background), background) > 4.5


def test_a_badge_of_a_change_leaves_its_room_to_tokens_where_these_are_cut(page):
    """Signs stand without their words, as long as a token has no room beside them."""
    changed = {"text": "Decoder: causal mask off", "refused": "", "words": {"changed": "changed", "restore": "restore"}}
    few, many = ([{"label": f"token{number}", "special": False} for number in range(count)] for count in (1, 12))
    wide = "() => document.querySelector('.of-source').clientWidth"
    show(page, source=few, target=few, guesses=[], changed=changed)
    words = page.locator(".what .words")
    expect(words).to_be_visible()
    before = page.evaluate(wide)
    show(page, source=many, target=many, guesses=[], changed=changed)
    expect(words).to_be_hidden()
    expect(page.locator(".what bdi")).to_be_visible()
    assert page.evaluate(wide) > before
    show(page, source=few, target=few, guesses=[], changed=changed)
    expect(words).to_be_visible()
