"""The channel in a real browser: nothing typed is lost, nothing painted is of another input, with and without it."""

from __future__ import annotations

import random
import re

import pytest
from playwright.sync_api import CDPSession, Page, WebSocketRoute, expect

from tests.browser.looking import chips, eventually, expect_painted, expect_tokens, source, stands_still, target

pytestmark = pytest.mark.browser

# What every view painted last, and the numbers of moments in which it did: kept from here on.
WATCH = """
() => {
  window.painted = {};
  for (const [key, view] of window.__vitrine.views) {
    let moment = view.moment;
    window.painted[key] = [moment];
    const paint = (next) => window.painted[key].push((moment = next));
    Object.defineProperty(view, 'moment', { get: () => moment, set: paint });
  }
}
"""
# The stamps of all that is painted of the text: one and the same, or a frame mixes two inputs.
STAMPS = """
() => [...document.querySelectorAll('*')].map((host) => host.shadowRoot).filter((root) => root)
  .filter((root) => !root.host.hasAttribute('data-behind'))
  .flatMap((root) => [...root.querySelectorAll('[data-painted]')]).map((part) => part.dataset.painted)
"""


def compose(keyboard: CDPSession, text: str) -> None:
    """Type letter by letter with an input method, which shows what is not complete yet, and accept it."""
    for end in range(1, len(text) + 1):
        keyboard.send("Input.imeSetComposition", {"text": text[:end], "selectionStart": end, "selectionEnd": end})
    keyboard.send("Input.insertText", {"text": text})


def in_order(page: Page) -> bool:
    return page.evaluate(
        "() => Object.values(window.painted).every((all) => all.every((at, n) => !n || at > all[n - 1]))"
    )


def test_an_input_method_composes_and_only_what_is_complete_is_read(visit, model):
    page = visit().open(source="I see ")
    page.evaluate(
        """() => {
          const { channel } = window.__vitrine;
          const send = channel.send;
          window.sent = [];
          channel.send = (message) => (message.text !== undefined && window.sent.push(message.text), send(message));
        }"""
    )
    source(page).focus()
    page.keyboard.press("End")
    keyboard = page.context.new_cdp_session(page)
    compose(keyboard, "nihao")
    expect(source(page)).to_have_value("I see nihao")
    expect_painted(page, model, "I see nihao")
    sent = page.evaluate("window.sent")
    assert sent == ["I see nihao"]
    compose(keyboard, "cat")  # a frame that comes while the next word is composed leaves it alone
    expect(source(page)).to_have_value("I see nihaocat")


def test_a_paste_keeps_its_line_breaks_as_signs_and_can_be_undone(visit, model):
    page = visit().open(source="I see")
    source(page).focus()
    page.keyboard.press("End")
    source(page).evaluate(
        """(input) => {
          const data = new DataTransfer();
          data.setData('text/plain', ' the cat.\\r\\nThe dog.');
          input.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
        }"""
    )
    expect(source(page)).to_have_value("I see the cat.⏎The dog.")
    expect_painted(page, model, "I see the cat.\nThe dog.")
    page.keyboard.press("Control+z")
    expect(source(page)).to_have_value("I see")
    expect_painted(page, model, "I see")


def test_a_reload_while_typing_keeps_what_was_typed(visit, model):
    page = visit().open(source="I see")
    source(page).press("End")
    page.keyboard.type(" the cat.")
    page.reload()
    expect(source(page)).to_have_value("I see the cat.")
    expect_painted(page, model, "I see the cat.")


@pytest.mark.slow
def test_another_page_opened_in_the_middle_of_typing_shows_all_of_it(visit, model):
    page = visit().open(source="I")
    source(page).press("End")
    page.keyboard.type(" see the")
    page.get_by_role("link", name="Masks").click()
    page.keyboard.type(" c")  # into the field, or nowhere once the link has the focus
    page.wait_for_url("**/masks*")
    stands_still(page)
    value = source(page).input_value()
    assert value.startswith("I see the")
    expect_tokens(page, "source", model.source_tokens(value).labels)
    source(page).press("End")
    page.keyboard.type(" dog.")
    expect_tokens(page, "source", model.source_tokens(value + " dog.").labels)
    assert len(set(page.evaluate(STAMPS))) == 1


@pytest.mark.slow
def test_windows_of_one_browser_do_not_mix(visit, model):
    first = visit()
    one, other = first.open(source="I see the cat."), first.context.new_page()
    other.goto(f"{first.url}/attention?source=The dog.")
    expect_tokens(other, "source", model.source_tokens("The dog.").labels)
    for letter in " Yes":
        for page in (one, other):
            source(page).press("End")
            source(page).press(letter if letter != " " else "Space")
    expect_painted(one, model, "I see the cat. Yes")
    expect_painted(other, model, "The dog. Yes")


@pytest.mark.slow
def test_without_a_channel_the_script_draws_and_says_so_and_with_it_again_the_channel(visit, model):
    visited = visit()
    routes: list[WebSocketRoute] = []
    open_again = False

    def refuse(route: WebSocketRoute) -> None:
        if open_again:
            route.connect_to_server()
        else:
            routes.append(route)
            route.close()

    visited.page.route_web_socket(re.compile("/channel$"), refuse)
    page = visited.open(source="I am a teacher.")
    expect(page.get_by_text("The live channel cannot be had here")).to_be_visible()
    source(page).press("End")
    page.keyboard.type(" She left")
    expect_painted(page, model, "I am a teacher. She left")
    expect(source(page)).to_have_value("I am a teacher. She left")
    page.locator(".vitrine.heads .head").nth(3).click()
    expect(page.locator(".vitrine.heatmap .heading").first).to_contain_text("Layer 1, head 4")
    open_again = True
    page.evaluate("window.dispatchEvent(new Event('online'))")
    eventually(page, lambda: page.evaluate("window.__vitrine.channel.isOpen()"))
    expect(page.get_by_text("The live channel cannot be had here")).to_have_count(0)
    page.keyboard.press("Escape")
    source(page).press("End")
    page.keyboard.type(" now")
    expect_painted(page, model, "I am a teacher. She left now")


def test_a_lost_connection_is_opened_again_and_brings_what_was_typed_meanwhile(visit, model):
    page = visit().open(source="I am a teacher.")
    source(page).press("End")
    page.evaluate("window.__vitrine.channel.socket.close()")
    page.keyboard.type(" She left")
    expect_painted(page, model, "I am a teacher. She left")
    expect(target(page)).to_have_attribute("placeholder", model.generate("I am a teacher. She left").text)


def test_an_older_frame_never_replaces_a_newer_one(visit, model):
    """As where the script's message and the channel's overtake each other."""
    page = visit().open(source="I am a teacher.")
    page.evaluate("window.older = { ...window.__vitrine.views.get('heads').given }")
    source(page).press("End")
    page.keyboard.type(" She left")
    expect_painted(page, model, "I am a teacher. She left")
    page.evaluate(
        """async () => {
          const loaded = performance.getEntriesByType('resource').map(({ name }) => name);
          const { mount } = await import(loaded.find((name) => name.endsWith('/web/views.js')));
          const { name, module } = window.__vitrine.views.get('heads');
          mount(name, module, window.older);
        }"""
    )
    expect_painted(page, model, "I am a teacher. She left")


@pytest.mark.slow
def test_a_hidden_window_is_sent_nothing_of_a_training(visit):
    page = visit().open(model="reverse", source="abcdefgh")
    strip = page.locator(".vitrine.strip")
    page.get_by_role("button", name="Train on", exact=True).click()
    eventually(page, lambda: int(strip.get_attribute("data-step") or 0) > 5)
    hide = "(hidden) => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
    hide += " document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(hide, True)
    page.wait_for_timeout(700)
    step = strip.get_attribute("data-step")
    page.wait_for_timeout(700)
    assert strip.get_attribute("data-step") == step
    page.evaluate(hide, False)
    eventually(page, lambda: strip.get_attribute("data-step") != step)
    page.locator(".vitrine.strip").get_by_role("button", name="Pause").click()
    expect(strip).to_have_attribute("data-status", "paused")


@pytest.mark.slow
def test_typing_while_a_model_trains_mixes_no_two_texts(visit):
    page = visit().open(model="reverse", source="abc")
    strip = page.locator(".vitrine.strip")
    page.get_by_role("button", name="Train on", exact=True).click()
    expect(strip).to_have_attribute("data-status", "running")
    stands_still(page)
    page.evaluate(WATCH)
    source(page).press("End")
    for letter in "defghij":
        page.keyboard.press(letter)
        page.wait_for_timeout(random.Random(letter).randrange(20, 400))
        stamps = set(page.evaluate(STAMPS))
        assert len(stamps) == 1, stamps
    expect(chips(page, "source")).to_have_text([*"abcdefghij", "</s>"])
    assert in_order(page)
    page.locator(".vitrine.strip").get_by_role("button", name="Pause").click()
    expect(strip).to_have_attribute("data-status", "paused")


@pytest.mark.parametrize(
    "count", [pytest.param(1_500, marks=pytest.mark.slow), pytest.param(10_000, marks=pytest.mark.fuzz)]
)
def test_thousands_of_keystrokes_over_all_pages_lose_no_letter_and_are_painted_in_order(visit, model, count):
    """Letters, deletions, pauses and pages by chance: what is painted is of one text, and in the end of the last."""
    chance = random.Random(1)
    page = visit().open(source="I see")
    names = ("Map", "Tokens and positions", "Attention", "Masks", "Norms and residual", "Feed-forward", "Predictions")
    text = "I see"
    done = 0
    while done < count:
        page.get_by_role("link", name=chance.choice(names), exact=True).click()
        if chance.random() < 0.7:
            stands_still(page)
        source(page).focus()
        source(page).press("End")
        page.evaluate(WATCH)
        for _ in range(chance.randrange(20, 120)):
            if text and (chance.random() < 0.35 or len(text) > 60):
                page.keyboard.press("Backspace")
                text = text[:-1]
            else:
                letter = chance.choice("etaoin shrdlu")
                page.keyboard.press("Space" if letter == " " else letter)
                text += letter
            done += 1
            if chance.random() < 0.05:
                page.wait_for_timeout(chance.randrange(600))
            if chance.random() < 0.1:
                stamps = set(page.evaluate(STAMPS))
                assert len(stamps) <= 1, stamps
        assert in_order(page)
        expect(source(page)).to_have_value(text)
        expect_tokens(page, "source", model.source_tokens(text).labels)
    assert done >= count
