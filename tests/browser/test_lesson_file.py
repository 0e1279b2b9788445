"""A lesson's file as an LMS or slides show it: in a frame that may run scripts and nothing else, without a network."""

from __future__ import annotations

import re
from functools import cache

import pytest
from playwright.sync_api import Browser, expect

from model.checkpoints.load import open_checkpoint
from model.lessons.lesson import read_lesson
from tests.browser.server import ROOT
from tests.viz.frame.test_lesson_file import LESSON
from viz.frame import lesson_file
from viz.frame.lesson_file import lesson_document

pytestmark = pytest.mark.browser


@cache
def opened(name: str):
    return open_checkpoint(ROOT / "checkpoints" / name)


def test_in_a_sandbox_steps_turn_questions_answer_heads_enlarge_and_values_are_said(browser: Browser, tmp_path):
    (tmp_path / "lesson.en.md").write_text(LESSON, encoding="utf-8")
    document = lesson_document(read_lesson(tmp_path / "lesson.en.md"), "en", opened)
    (tmp_path / "lesson.html").write_text(document.html(), encoding="utf-8")
    frame = '<iframe sandbox="allow-scripts" src="lesson.html" style="width: 1200px; height: 800px"></iframe>'
    (tmp_path / "slides.html").write_text(f"<body>{frame}", encoding="utf-8")
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    errors: list[str] = []
    page.on("console", lambda message: message.type in ("error", "warning") and errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: (errors.append(dialog.message), dialog.dismiss()))
    page.goto((tmp_path / "slides.html").as_uri())
    lesson = page.frame_locator("iframe")
    expect(lesson.locator("nav span")).to_have_text("step 1 of 4")
    expect(lesson.locator("section:visible")).to_have_count(1)

    question = document.more[lesson_file.MODULE]["questions"][0]
    options = lesson.locator("section:visible .options button")
    expect(options).to_have_text(question["options"])
    options.nth((question["right"] + 1) % len(question["options"])).click()
    expect(lesson.locator("section:visible .said")).to_have_text(question["said"]["wrong"])
    options.nth(question["right"]).click()
    expect(lesson.locator("section:visible .said")).to_have_text(question["said"]["right"])

    heading = lesson.locator(".heatmap .heading b:visible")
    expect(heading).to_have_text("Layer 1, head 1")
    lesson.locator(".heads .head:visible").nth(1).click()
    expect(heading).to_have_text("Layer 1, head 2")
    lesson.locator(".heatmap canvas:visible").hover(position={"x": 150, "y": 200})
    expect(lesson.locator(".heatmap .tip:visible")).to_contain_text(re.compile(r"weight [\d.]+"))
    lesson.locator("summary:visible").first.click()
    expect(lesson.locator("details math:visible").first).to_be_visible()

    lesson.get_by_role("button", name="Next step").click()
    expect(heading).to_be_visible()  # the figures of the same state come along
    page.keyboard.press("ArrowRight")
    film = lesson.locator(".training-film:visible")
    expect(film.locator(".standing")).to_contain_text("step 6")
    film.locator(".step.back").click()
    expect(film.locator(".standing")).to_contain_text("step 5")
    lesson.get_by_role("button", name="Next step").click()
    expect(heading).to_have_text("Layer 2, head 4")
    expect(lesson.locator("nav span")).to_have_text("step 4 of 4 · 0 of 1 right at the first guess, without a hint")
    context.close()
    assert not errors
