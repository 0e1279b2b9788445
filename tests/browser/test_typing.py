"""Everything moves while the user types, and nothing the user types is lost."""

import pytest
from playwright.sync_api import expect

from tests.browser.looking import eventually, expect_painted, expect_tokens, pixels, source, target, thumbnails
from viz.state.session import FIRST_SOURCE

pytestmark = pytest.mark.browser

MOST_MODULES = 42  # of ours, at the first visit; at the second they are there
LOADED = "performance.getEntriesByType('resource').map(({ name }) => name).filter((name) => name.includes('/web/'))"


def test_the_first_paint_shows_every_head_of_the_bundled_model(visit, model):
    page = visit().open()
    expect(thumbnails(page)).to_have_count(model.config.n_decoder_layers * model.config.n_heads)
    expect_painted(page, model, FIRST_SOURCE)
    trace = model.trace(FIRST_SOURCE)
    expect_tokens(page, "target", trace.target_tokens)
    eventually(page, lambda: all(each["drawn"] > 0 for each in pixels(page)))
    seen = pixels(page)
    assert len({each["print"] for each in seen}) == len(seen)  # no two heads look alike
    assert {(each["width"], each["height"]) for each in seen} == {(len(trace.source_tokens), len(trace.target_tokens))}
    assert page.locator(".vitrine.heads").evaluate("(node) => node.getRootNode() instanceof ShadowRoot")
    expect(page.locator(".badge.passed")).to_have_count(4)
    expect(page.locator(".badge.failed")).to_have_count(0)
    expect(page).to_have_title("Vitrine")


def test_typing_without_enter_redraws_chips_and_thumbnails(visit, model):
    page = visit().open()
    expect_painted(page, model, FIRST_SOURCE)
    before = pixels(page)
    source(page).press("End")
    page.keyboard.type(" She left")
    expect_painted(page, model, FIRST_SOURCE + " She left")

    def all_changed() -> bool:
        pairs = zip(before, pixels(page), strict=True)
        return all(old["print"] != new["print"] and new["width"] > old["width"] for old, new in pairs)

    eventually(page, all_changed)
    expect_tokens(page, "target", model.trace(FIRST_SOURCE + " She left").target_tokens)
    expect(target(page)).to_have_attribute("placeholder", model.generate(FIRST_SOURCE + " She left").text)
    expect(source(page)).to_be_focused()


def test_scripts_come_once_and_none_with_a_keystroke(visit, model):
    window, came = visit(), []
    window.page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: came.append(frame)))
    page = window.open()
    expect_painted(page, model, FIRST_SOURCE)
    before, loaded = len(came), page.evaluate(LOADED)
    source(page).press("End")
    page.keyboard.type(" She left")
    expect_painted(page, model, FIRST_SOURCE + " She left")
    frames = [frame.encode() if isinstance(frame, str) else frame for frame in came]
    assert any(b'"key": "stages"' in frame for frame in frames[before:])
    assert not any(b"function showChips" in frame for frame in frames)
    assert len(loaded) == len(set(loaded)) <= MOST_MODULES
    assert sum(name.endswith("/web/chips.js") for name in loaded) == 1
    assert page.evaluate(LOADED) == loaded


def test_the_caret_stays_where_it_is(visit, model):
    page = visit().open(source="I am a teacher.")
    field = source(page)
    field.evaluate("(input) => { input.focus(); input.setSelectionRange(6, 6); }")
    page.keyboard.type(" not")
    expect_painted(page, model, "I am a not teacher.")
    assert field.evaluate("(input) => [input.selectionStart, input.selectionEnd]") == [10, 10]
    page.keyboard.press("Backspace")
    expect_painted(page, model, "I am a no teacher.")
    assert field.evaluate("(input) => input.selectionStart") == 9
    expect(field).to_be_focused()


@pytest.mark.slow
def test_fast_typing_loses_no_character(visit, model):
    page = visit().open(source="")
    text = "The quick brown fox jumps over the lazy dog while 42 birds sing."
    for delay in (0, 15, 60):
        source(page).fill("")
        expect_painted(page, model, "")
        source(page).focus()
        page.keyboard.type(text, delay=delay)
        expect(source(page)).to_have_value(text)
        expect_painted(page, model, text)
        page.wait_for_timeout(500)
        expect(source(page)).to_have_value(text)
        expect_painted(page, model, text)


def test_an_input_method_is_not_disturbed(visit, model):
    page = visit().open(target="我", source="I am a teacher.")
    target(page).focus()
    page.keyboard.press("End")
    ime = page.context.new_cdp_session(page)
    ime.send("Input.imeSetComposition", {"text": "shi", "selectionStart": 3, "selectionEnd": 3})
    page.wait_for_timeout(1000)
    expect(target(page)).to_have_value("我shi")
    expect_tokens(page, "target", ["<s>", "我"])  # letters being composed are not a text yet
    ime.send("Input.insertText", {"text": "是"})
    expect(target(page)).to_have_value("我是")
    expect_tokens(page, "target", ["<s>", "我", "是"])


@pytest.mark.slow
def test_several_sentences_are_stepped_through_and_survive_a_reload(visit, model):
    page = visit().open()
    count = page.locator(".several .count")
    source(page).fill("I am a teacher.⏎He is a doctor.⏎We sing.")
    page.get_by_role("button", name="Make each line a sentence of its own").click()
    expect(count).to_have_text("1 / 3")
    page.get_by_role("button", name="the next sentence").click()
    expect_painted(page, model, "He is a doctor.")
    source(page).fill("He is a good doctor.")
    source(page).press("PageDown")
    expect(source(page)).to_have_value("We sing.")
    source(page).press("PageUp")
    expect_painted(page, model, "He is a good doctor.")
    page.wait_for_url("**sentence=2*")
    page.reload()
    expect(count).to_have_text("2 / 3")
    expect(source(page)).to_have_value("He is a good doctor.")
    page.get_by_role("button", name="Make them the lines of one text").click()
    expect(source(page)).to_have_value("I am a teacher.⏎He is a good doctor.⏎We sing.")
