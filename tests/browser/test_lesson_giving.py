"""Giving a lesson: its steps presented, notes in a second window that leads, a link that opens what was seen."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.layout import AXE
from tests.browser.looking import source, stands_still, thumbnail
from viz.pages.lessons.shelf import lesson_named

pytestmark = pytest.mark.browser

TEXT = ".presented_text"
SHOWN = '[data-presented="figure"]'
PANEL = ".st-key-lesson_panel"
SERIOUS = """async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
  .filter(({ impact }) => impact === "serious" || impact === "critical")
  .map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(" ")).join("; ")}`)"""
REACHED = """() => {
  let each = document.activeElement;
  while (each?.shadowRoot?.activeElement) each = each.shadowRoot.activeElement;
  return (each?.textContent ?? "").trim();
}"""


def titles(name: str) -> list[str]:
    lesson = lesson_named(name)
    assert lesson is not None
    return [step.title for step in lesson.steps]


def open_step(visit, name: str, step: int, **options: object) -> Page:
    visited = visit(**options)
    return visited.open(lesson=name, step=str(step))


def test_steps_are_presented_and_the_notes_lead_them(visit):
    """Keys lead through the steps, of which each has its figure and its text in 24 pixels; so do the notes' buttons.

    Beside a lesson the whole sentence is seen; a question about heads is presented with all of them, in sight.
    """
    name = titles("attention-seen")
    page = open_step(visit, "attention-seen", 2, viewport={"width": 1280, "height": 720})
    stands_still(page)
    assert source(page).evaluate("(input) => input.scrollWidth <= input.clientWidth")
    page.locator(".lesson_acts .present").click()
    expect(page.locator(f"{TEXT} .title")).to_have_text(name[1])
    expect(page.locator(SHOWN)).to_be_visible()
    sizes = "(text) => [...text.querySelectorAll('p')].map((line) => parseFloat(getComputedStyle(line).fontSize))"
    assert min(page.locator(TEXT).evaluate(sizes)) >= 24
    expect(page.get_by_test_id("stSidebar")).to_be_hidden()
    expect(page.locator(PANEL)).to_be_hidden()
    page.keyboard.press("l")
    expect(page.locator(".presenting_dot")).to_have_count(1)
    page.keyboard.press("PageDown")
    expect(page.locator(f"{TEXT} .title")).to_have_text(name[2])
    expect(page.locator(f"{SHOWN}.st-key-heads")).to_be_visible()
    expect(page.locator(f"{TEXT} .question")).to_be_in_viewport(ratio=1)
    with page.context.expect_page() as opened:
        page.evaluate("window.open(location.href + '&notes=1')")
    notes = opened.value
    expect(notes.locator(".lesson_notes h1")).to_have_text(name[2])
    notes.locator(".lesson_notes .ahead").click()
    expect(page.locator(f"{TEXT} .title")).to_have_text(name[3])
    expect(notes.locator(".lesson_notes h1")).to_have_text(name[3])
    notes.close()
    page.keyboard.press("Escape")
    expect(page.locator(PANEL)).to_be_visible()


def test_a_link_opens_in_a_fresh_browser_what_the_teacher_saw(visit):
    page = open_step(visit, "attention-seen", 2)
    stands_still(page)
    thumbnail(page, 2, 4).click()
    heading = page.locator(".st-key-head_large .heading")
    expect(heading).to_contain_text("Layer 2, head 4")
    page.locator(".lesson_acts .link").click()
    field = page.locator(".lesson_acts .page_link input")
    expect(field).to_have_value(re.compile("layer=1&head=3"))  # of the click right before
    expect(page.locator(".lesson_acts .code svg path")).to_have_count(1)
    address = field.input_value()
    assert "run=" not in address
    copy = page.locator(".lesson_acts .page_link .copy")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")  # as without HTTPS
    page.evaluate("document.execCommand = () => false")
    copy.click()
    assert field.evaluate("each => each.selectionEnd - each.selectionStart") == len(address)
    expect(copy).to_have_text("Copy")
    page.evaluate("document.execCommand = () => true")
    copy.click()
    expect(copy).to_have_text("Copied")
    other = visit(viewport={"width": 1440, "height": 899}).page
    other.goto(f"{address}&hide=more,training,header")
    expect(other.locator(PANEL)).to_contain_text(titles("attention-seen")[1])
    expect(other.locator(".st-key-head_large .heading")).to_contain_text("Layer 2, head 4")
    for hidden in (".st-key-more_attention", ".st-key-training_box", ".st-key-input_bar"):
        expect(other.locator(hidden)).to_be_hidden()


def test_the_panel_is_reached_by_keys_alone_and_nothing_in_it_is_serious_to_axe(visit):
    page = open_step(visit, "attention-seen", 2)
    stands_still(page)
    page.get_by_role("button", name="End lesson").focus()
    reached = set()
    for _press in range(24):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(REACHED))
    assert {"Hint", "Back", "Next step", "Present", "Notes", "Link to this step", "Worksheet"} <= reached
    page.locator(".lesson_acts .present").focus()
    page.keyboard.press("Enter")
    expect(page.locator(f"{TEXT} .title")).to_be_visible()
    if AXE.exists():  # npm ci in viz/web brings it
        page.evaluate(AXE.read_text(encoding="utf-8"))
        assert not [each for each in page.evaluate(SERIOUS) if "present" in each]
        page.keyboard.press("Escape")
        expect(page.locator(PANEL)).to_be_visible()
        assert not [each for each in page.evaluate(SERIOUS) if "lesson" in each]


IN_SIGHT = """() => {
  const { top, bottom } = document.querySelector(".st-key-heads_all").getBoundingClientRect();
  const header = document.querySelector(".st-key-input_bar").getBoundingClientRect().bottom;
  return top >= header - 1 && top < document.querySelector(".st-key-lesson_panel").getBoundingClientRect().top - 100;
}"""


def test_on_a_phone_a_question_for_a_head_has_all_heads_in_sight_also_after_presenting(visit):
    """And the question itself, its button, and which step this is, while the text is read."""
    page = open_step(visit, "attention-seen", 3, viewport={"width": 390, "height": 844})
    stands_still(page)
    page.wait_for_function(IN_SIGHT)
    keys = ("question .stMarkdown", "pick button", "head", "next")
    for scrolled in (0, 60, 9999):
        page.locator(PANEL).evaluate("(panel, top) => panel.scrollTo(0, top)", scrolled)
        for key in keys:
            expect(page.locator(f"{PANEL} .st-key-lesson_{key}").first).to_be_in_viewport(ratio=1)
    expect(page.locator(".lesson_acts .present")).to_be_hidden()
    page.locator(".lesson_acts .more").click()
    for scrolled in (0, 90):  # the head is below what More opens, not over it
        page.locator(PANEL).evaluate("(panel, top) => panel.scrollTo(0, top)", scrolled)
        worksheet, head = (
            page.locator(each).bounding_box() for each in (".lesson_acts .worksheet", f"{PANEL} .st-key-lesson_head")
        )
        assert worksheet["y"] + worksheet["height"] <= head["y"] + 8
    page.locator(".lesson_acts .present").click()
    expect(page.locator(f"{TEXT} .question")).to_be_visible()
    figure, text, bar = (page.locator(each).bounding_box() for each in (SHOWN, TEXT, ".presenting_bar"))
    assert figure["y"] >= 0
    assert text["y"] + text["height"] <= bar["y"] + 1
    page.locator(".presenting_bar .end").click()
    page.wait_for_function(IN_SIGHT)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["causal-mask", "padding", "kv-cache"])
def test_a_worksheet_is_one_page_and_its_answers_another(visit, name):
    """Of those with figures that stand wide."""
    visited = visit()
    page = visited.page
    page.goto(f"{visited.url}/lessons?lesson={name}&worksheet=1")
    images = page.locator(".worksheet[data-ready] img")
    expect(images.nth(1)).to_be_visible()
    sizes = images.evaluate_all("(all) => all.map((each) => each.offsetWidth / each.dataset.width)")
    assert min(sizes) > 0.47  # of letters of nine points, or a figure is left out
    printed = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 2
