"""A class in two browsers: the teacher's view comes, is left and found again; answers grow; names are text; it ends."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit
from tests.browser.layout import AXE
from tests.browser.looking import source, stands_still
from tests.browser.test_lesson_giving import SERIOUS
from tests.browser.test_present import CENTRE, LARGE, SHOWN

pytestmark = [pytest.mark.browser, pytest.mark.slow]

NAME = "<img src=x onerror=alert(1)> **=1+1**"
BEHIND = 0.3  # seconds between the two windows
AT = """([x, y]) => {
  const places = document.querySelector(".presenting_dot")?.style.translate.split(" ").map(parseFloat);
  return places && Math.hypot(places[0] - x, places[1] - y) < 4;
}"""


def class_of(visit: Callable[..., Visit], width: int = 1366, height: int = 650) -> tuple[Page, Page]:
    """A teacher on the page of attention, and one who has joined by the code in a window of this size."""
    teacher, other = visit().open(), visit(viewport={"width": width, "height": height})
    teacher.get_by_role("button", name="Menu").click()
    teacher.get_by_role("button", name="Begin a class session").click()
    expect(teacher.get_by_text("nobody follows yet")).to_be_visible()
    code = re.search(r"class=(\w+)", teacher.url)
    assert code
    page = other.page
    page.goto(f"{other.url}/lessons")
    page.get_by_placeholder("Code of a class session").fill(code[1].lower())
    page.get_by_role("button", name="Join").click()
    expect(page.get_by_text("You follow the teacher.")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/attention\?"))
    expect(teacher.get_by_text("1 follows")).to_be_visible()
    return teacher, page


def test_what_a_teacher_types_is_seen_at_once_left_by_a_click_and_found_again(visit):
    teacher, page = class_of(visit)
    expect(source(page)).to_have_value("She bought a red car yesterday.")
    source(teacher).fill("The old dog sleeps.")
    expect(source(page)).to_have_value("The old dog sleeps.")
    waits = []
    for letter in "abcde":
        source(teacher).press_sequentially(letter)
        since = time.perf_counter()
        page.wait_for_function("(letter) => __vitrine.fields.get('source').text.endsWith(letter)", arg=letter)
        waits.append(time.perf_counter() - since)
    assert sorted(waits)[2] < BEHIND
    page.get_by_role("link", name="Masks").click()
    expect(page.get_by_text("You look around by yourself.")).to_be_visible()
    expect(page).to_have_url(re.compile("/masks"))
    expect(teacher.get_by_text("nobody follows yet")).to_be_visible()
    teacher.get_by_role("link", name="Predictions").click()
    page.get_by_role("button", name="Back to the teacher").click()
    expect(page).to_have_url(re.compile("/predictions"))
    source(page).fill("Mine.")
    expect(page.get_by_text("You look around by yourself.")).to_be_visible()
    expect(source(teacher)).not_to_have_value("Mine.")
    teacher.reload()
    expect(teacher.get_by_role("button", name="End session")).to_be_visible()
    page.get_by_role("button", name="Back to the teacher").click()
    expect(source(page)).to_have_value("The old dog sleeps.abcde")


def test_what_a_teacher_presents_is_presented_with_the_pointer_on_the_same_cell_until_somebody_looks_around(visit):
    teacher, page = class_of(visit)
    stands_still(teacher)
    teacher.locator(f"{LARGE} h3").dblclick()
    expect(page.locator(f"{LARGE}{SHOWN}")).to_be_visible()
    teacher.wait_for_timeout(1500)  # both have found their size
    teacher.keyboard.press("l")
    for cell in ([0, 0], [5, 6]):
        teacher.mouse.move(*teacher.locator(f"{LARGE} .vitrine").evaluate(CENTRE, cell))
        since = time.perf_counter()
        page.wait_for_function(AT, arg=page.locator(f"{LARGE} .vitrine").evaluate(CENTRE, cell))
        assert time.perf_counter() - since < BEHIND
    page.keyboard.press("ArrowRight")  # no step of the teacher's, nor of his own
    expect(page.get_by_text("You look around by yourself.")).to_be_visible()
    expect(page.locator(SHOWN)).to_have_count(0)
    expect(teacher.locator(f"{LARGE}{SHOWN}")).to_be_visible()
    page.get_by_role("button", name="Back to the teacher").click()
    expect(page.locator(f"{LARGE}{SHOWN}")).to_be_visible()
    teacher.keyboard.press("Escape")
    expect(page.locator(SHOWN)).to_have_count(0)


def test_answers_grow_beside_the_question_names_are_text_and_nothing_is_left(visit, tmp_path):
    teacher, page = class_of(visit)
    teacher.get_by_role("link", name="Lessons").click()
    teacher.get_by_role("button", name="What a causal mask hides").click()
    bars = teacher.locator(".class_bars")
    expect(bars).to_contain_text("0 of 1 have answered")
    page.locator(".st-key-lesson_question button").first.click()
    expect(bars).to_contain_text("1 of 1 have answered")
    expect(page.get_by_text("You follow the teacher.")).to_be_visible()  # an answer lets nobody go
    teacher.locator(".lesson_acts .present").click()
    asked = teacher.locator(".presented_text .question")
    expect(asked).to_contain_text("1 of 1 have answered")
    expect(asked.locator(".options b")).to_have_text(["1", *["0"] * (asked.locator(".options > span").count() - 1)])
    teacher.keyboard.press("Escape")
    if AXE.exists():  # npm ci in viz/web brings it
        for each in (teacher, page):
            each.evaluate(AXE.read_text(encoding="utf-8"))
            assert not [fault for fault in each.evaluate(SERIOUS) if "class_" in fault]
    teacher.get_by_role("button", name="Answers").click()
    teacher.get_by_text("Ask for names").click()
    page.get_by_label("Your name, if you like").fill(NAME)
    page.keyboard.press("Enter")
    expect(teacher.get_by_text(NAME, exact=True)).to_be_visible()
    with teacher.expect_download() as download:
        teacher.get_by_role("button", name="Save answers as CSV").click()
    file = Path(tmp_path / "answers.csv")
    download.value.save_as(file)
    assert NAME in file.read_text(encoding="utf-8-sig")
    teacher.keyboard.press("Escape")
    expect(teacher.get_by_role("button", name="Answers")).to_be_focused()
    teacher.get_by_role("button", name="End session").click()
    teacher.get_by_role("button", name="End", exact=True).click()
    expect(page.get_by_text("The class session has ended.")).to_be_visible()
    expect(page.locator(".class_strip")).to_have_count(0)
    expect(teacher.locator(".class_strip, .class_bars")).to_have_count(0)


def test_who_follows_answers_and_takes_hints_beside_what_is_presented_with_the_pointer_on_the_same_head(visit):
    """On a phone, where the lesson's panel stands in the place of the presented text."""
    teacher, page = class_of(visit, width=390, height=844)
    teacher.get_by_role("link", name="Lessons").click()
    teacher.get_by_role("button", name="Attention, seen").click()
    expect(page.get_by_role("button", name="Next step")).to_be_visible()
    for _step in range(2):
        teacher.get_by_role("button", name="Next step").click()
        stands_still(teacher)
    teacher.locator(".lesson_acts .present").click()
    expect(page.locator(f"{SHOWN} .vitrine.heads")).to_be_visible()
    expect(page.get_by_role("button", name="Next step")).to_be_hidden()
    page.get_by_role("button", name="Hint").click()
    expect(page.locator(".st-key-lesson_remarks")).to_contain_text("few strong cells")
    page.locator(".st-key-lesson_question button").filter(has_text="3.8").click()
    expect(page.locator(".st-key-lesson_remarks")).to_contain_text("Right")
    teacher.keyboard.press("l")
    head, same = (each.locator(f"{SHOWN} .head").nth(19) for each in (teacher, page))
    box = head.bounding_box()
    teacher.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    box = same.bounding_box()
    page.wait_for_function(AT, arg=[box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])
    expect(page.get_by_text("You look around by yourself.")).to_have_count(0)
