"""What a reload finds again: the pin and the token that was lit; and Back, which shows the model of before."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from streamlit.proto.BackMsg_pb2 import BackMsg

from tests.browser.looking import chips, eventually, expect_tokens, stands_still

pytestmark = pytest.mark.browser


@pytest.mark.slow
def test_the_pin_and_the_lit_token_are_there_after_a_reload(visit, model):
    page = visit().open(source="I am a teacher.", target="我是老师。")
    page.get_by_role("button", name="Pin").click()
    expect(page.locator(".kept")).to_contain_text("I am a teacher.")
    page.locator('input[aria-label="Source"]').fill("I am a student.")
    expect_tokens(page, "source", model.source_tokens("I am a student.").labels)
    chips(page, "source").nth(2).click()
    expect(chips(page, "source").nth(2)).to_have_class("chip lit")
    gone = page.locator(".tokens.source .gone").all_inner_texts()
    assert gone
    eventually(page, lambda: "pinned=" in page.url and "student" in page.url)
    page.reload()
    expect(page.locator(".kept")).to_contain_text("I am a teacher.")
    expect(page.locator(".tokens.source .gone")).to_have_text(gone)
    expect(chips(page, "source").nth(2)).to_have_class("chip lit")
    stands_still(page)
    page.get_by_role("button", name="● pinned").click()
    page.get_by_role("button", name="unpin").click()
    eventually(page, lambda: "pinned" not in page.url)


@pytest.mark.slow
def test_another_model_is_a_step_of_back_and_texts_come_back_with_theirs(visit):
    page = visit().open(source="I am a teacher.")

    def choose(name: str) -> None:
        page.get_by_role("combobox").first.click()
        page.get_by_role("option").get_by_text(name, exact=True).click()  # under which it says what the model does

    def shows(model: str, text: str) -> None:
        expect(page.get_by_role("combobox").first).to_have_value(model)
        expect(page.locator('input[aria-label="Source"]')).to_have_value(text)

    shows("eng-cmn", "I am a teacher.")
    stands_still(page)
    choose("sort")
    shows("sort", "9610273840")
    stands_still(page)
    page.go_back()
    shows("eng-cmn", "I am a teacher.")
    page.go_forward()
    shows("sort", "9610273840")


@pytest.mark.slow
def test_what_is_left_of_the_page_before_does_not_push_what_comes(visit):
    """A button stands where it stays from its first sight on."""
    page = visit().open()
    expect(page.get_by_text("What am I looking at?").first).to_be_visible()
    page.get_by_role("link", name="Training", exact=True).click()
    button = page.get_by_role("button", name="Begin and run")
    button.wait_for()
    first = button.bounding_box()
    expect(page.locator("html[data-turned]")).to_have_count(0, timeout=15_000)
    assert button.bounding_box() == first


def test_a_late_run_of_the_page_before_takes_no_button_away(visit, model):
    """What a text asks the script comes after the click on another page, as on a slow line: that run is of a page that
    is left, and Streamlit forgets in it what stands outside the pages, among it the menu.
    """
    visited = visit()
    late: list[bytes] = []
    holds = False

    def connected(socket) -> None:
        server = socket.connect_to_server()

        def sent(message: bytes) -> None:
            asked = BackMsg.FromString(message).rerun_script
            if holds and asked.fragment_id:
                late.append(message)
            else:
                server.send(message)
                if holds:  # of the page that was chosen
                    for each in late:
                        server.send(each)
                    late.clear()

        socket.on_message(sent)

    visited.page.route_web_socket(re.compile("/_stcore/stream$"), connected)
    page = visited.open(source="I am a teacher.")
    stands_still(page)
    holds = True
    page.locator('input[aria-label="Source"]').fill("I am a student.")
    eventually(page, lambda: bool(late))
    page.get_by_role("link", name="Masks", exact=True).click()
    eventually(page, lambda: not late)
    holds = False
    expect(page.locator("html[data-turned]")).to_have_count(0)
    stands_still(page)
    page.get_by_role("button", name="Menu", exact=True).click()
    with page.expect_download():
        page.get_by_role("button", name="Save this page").click()
    expect_tokens(page, "source", model.source_tokens("I am a student.").labels)
