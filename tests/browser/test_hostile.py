"""Texts that want to be code stay text; the page never asks another machine for anything."""

import pytest
from playwright.sync_api import expect

from model.text.tokenizer import clean
from tests.browser.looking import (
    chips,
    eventually,
    expect_painted,
    expect_tokens,
    figure,
    pixels,
    source,
    target,
    texts,
    thumbnails,
)

pytestmark = pytest.mark.browser

SCRIPT = "</script><script>window.__hacked=1;alert(1)</script>"
TEXTS = {
    "script": SCRIPT,
    "image": '<img src=x onerror="window.__hacked=1;alert(1)">',
    "vector": "<svg onload=window.__hacked=1><a xlink:href='javascript:alert(1)'>",
    "markdown": "![a](https://example.com/a.png) [b](javascript:alert(1)) $x$ :red[d]",
    "right to left": "مرحبا بالعالم שלום ab",
    "emoji": "🙂👩🏽‍🚀🇨🇳 ok",
    "null": "a\u202eb\u2028c",
}
RELOADED = ("script", "image", "markdown", "null")
AT_ONCE = ("script", "right to left")  # the others are checked with the long tests
# Whether any document or shadow root holds an element that only a text could have brought.
INTRUDERS = """
() => {
  const roots = [document];
  for (const root of roots) {
    roots.push(...[...root.querySelectorAll('*')].map((node) => node.shadowRoot).filter((shadow) => shadow));
  }
  const wanted = 'img[src="x"], [onerror], [onload], [href^="javascript"], img[src*="example.com"]';
  const found = roots.flatMap((root) => [...root.querySelectorAll(wanted)]);
  const scripts = [...document.scripts].filter((script) => script.textContent.includes('__hacked'));
  return found.length + scripts.length + (window.__hacked === undefined ? 0 : 1000);
}
"""


@pytest.mark.parametrize(
    "name", [name if name in AT_ONCE else pytest.param(name, marks=pytest.mark.slow) for name in TEXTS]
)
def test_texts_are_shown_literally_and_never_run(visit, model, name):
    page, text = visit().open(), TEXTS[name]
    source(page).fill(text)
    expect_painted(page, model, text)
    target(page).fill(text)
    expect_tokens(page, "target", model.target_tokens(text).labels)
    labels = model.source_tokens(text).labels
    eventually(page, lambda: chips(page, "source").evaluate_all("(all) => all.map((chip) => chip.title)") == labels)
    thumbnails(page).first.hover()
    page.locator(".vitrine.heatmap canvas").hover()
    page.wait_for_timeout(500)
    assert page.evaluate(INTRUDERS) == 0
    if name in RELOADED:  # and from the address
        page.reload()
        expect_painted(page, model, text)
        expect(source(page)).to_have_value(text)
        assert page.evaluate(INTRUDERS) == 0


def test_the_axes_of_the_large_figure_show_tokens_literally(visit, model):
    page = visit().open(source="<b>a</b> &amp; <br>", target="<b>我", attention="cross")
    expect_painted(page, model, "<b>a</b> &amp; <br>")
    labels = [*model.source_tokens("<b>a</b> &amp; <br>").labels, *model.target_tokens("<b>我").labels]
    dotted = [label.replace("▁", "·") for label in labels]
    eventually(page, lambda: texts(figure(page))[2 : 2 + len(labels)] == dotted)
    assert page.evaluate(INTRUDERS) == 0


def test_ten_thousand_characters_are_cut_with_a_note(visit, model):
    text = ("The old house " * 1000)[:10_000]
    page = visit().open()
    source(page).fill(text)
    left_out = model.source_tokens(text).left_out
    note = f"{left_out:,} tokens left out: this model reads {model.config.max_length}"
    expect(page.locator(".vitrine.bar .note").first).to_have_text(note)
    expect(chips(page, "source")).to_have_count(model.config.max_length)
    eventually(page, lambda: pixels(page)[0]["width"] == model.config.max_length / 2)  # a cell for two tokens
    expect(source(page)).to_have_value(text)


@pytest.mark.parametrize("text", ["", pytest.param("   ", marks=pytest.mark.slow)])
def test_an_empty_text_is_a_sentence_too(visit, model, text):
    page = visit().open()
    source(page).fill(text)
    expect_painted(page, model, text)
    expect_tokens(page, "target", model.trace(text).target_tokens)
    expect(page.locator(".check.passed")).to_be_visible()
    expect(page.locator(".badge.failed")).to_have_count(0)


@pytest.mark.slow
def test_a_lone_surrogate_does_not_end_the_session(visit, model):
    page = visit().open()
    source(page).evaluate(
        """(input) => {
          Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(input, 'a\\ud800b');
          input.dispatchEvent(new InputEvent('input', { bubbles: true }));
        }"""
    )
    page.wait_for_timeout(1500)
    source(page).fill("I am a teacher.")
    expect_painted(page, model, clean("I am a teacher."))


@pytest.mark.slow
def test_everything_works_without_a_network(visit, model):
    """Requests to other machines are counted, and refused by the browser; here all that loads late is opened too."""
    visited = visit()
    page = visited.open()
    source(page).fill("I am a teacher.")
    expect_painted(page, model, "I am a teacher.")
    page.get_by_text("What am I looking at?").click()
    expect(page.locator(".katex").first).to_be_visible()
    expect(page.get_by_text("class MultiHeadAttention")).to_be_visible()
    page.get_by_text("Data", exact=True).click()
    expect(page.locator('[data-testid="stDataFrame"] canvas').first).to_be_visible()
    page.wait_for_timeout(2000)
    assert visited.foreign == []
    assert visited.local > 20  # the counter sees requests
    fonts = page.evaluate("() => [...document.fonts].filter((font) => font.status === 'error').length")
    assert fonts == 0


def test_a_request_to_another_machine_would_be_seen_and_refused(visit):
    visited = visit()
    page = visited.open()
    blank = visited.context.new_page()  # ours has a policy that lets no request come so far
    refused = blank.evaluate("() => fetch('https://example.com/').then(() => false, () => true)")
    assert refused is True
    eventually(page, lambda: visited.foreign == ["https://example.com/"])
    visited.foreign.clear()
    visited.errors.clear()
