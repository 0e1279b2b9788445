"""The tree of a beam search by itself: it scrolls in its own frame, its first column stays, files have it whole."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.alone import mount
from tests.browser.server import PATIENCE
from viz.components.registry import pack

pytestmark = pytest.mark.browser
WIDTH, STEPS, ROWS = 360, 12, 40


def header(steps: int = STEPS) -> dict[str, Any]:
    """Candidates that fill every row of every step."""
    root = {"parent": -1, "step": 0, "row": 0, "sentence": "", "label": "", "fate": "kept", "probability": 1.0}
    nodes = [root]
    for step in range(1, steps + 1):
        for row in range(ROWS):
            parent = 0 if step == 1 else 1 + (step - 2) * ROWS
            place = {"parent": parent, "step": step, "row": row, "label": f"t{step}", "sentence": f"node {step} {row}"}
            nodes.append({**place, "fate": "cut" if row else "kept", "probability": 0.5, "open": True})
    words = {"continue": "go on", "score": "score", "download": "Download", "csv": ["candidate"]}
    best = {"node": 1 + (steps - 1) * ROWS, "text": "best", "score": -1.0}
    legend = [{"fate": fate, "name": fate} for fate in ("kept", "finished", "cut")]
    return {
        "nodes": nodes, "hypotheses": [best], "legend": legend, "words": words,
        "alt": "a tree", "file": "saved", "stamp": "a",
    }  # fmt: skip


@pytest.fixture
def tree(browser: Browser):
    context = browser.new_context(viewport={"width": 390, "height": 800}, is_mobile=True, has_touch=True)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.set_content("<meta name=viewport content='width=device-width'><body></body>")
    mount(page, "pages/predictions/beam_tree", pack(header()), WIDTH)
    yield page
    context.close()


def lefts(page: Page) -> list[float]:
    """Where the first two columns stand."""
    nodes = page.locator(".node")
    return [nodes.nth(at).evaluate("(node) => node.getBoundingClientRect().left") for at in (0, ROWS)]


def drag(page: Page, right: int, down: int) -> None:
    """A finger that moves so far over the tree."""
    touch = page.context.new_cdp_session(page)
    for step in range(11):
        place = {"x": 300 + right * step / 10, "y": 300 + down * step / 10}
        kind = "touchMove" if step else "touchStart"
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [place]})
        page.wait_for_timeout(20)
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_finger_scrolls_it_in_its_frame_and_the_first_column_stays(tree):
    frame = tree.locator(".scroll")
    assert tree.evaluate("() => document.documentElement.scrollWidth") <= 390
    assert frame.evaluate("(frame) => frame.clientHeight") <= 0.6 * 800 + 4
    before = lefts(tree)
    drag(tree, -150, 0)
    tree.wait_for_function("() => document.querySelector('.scroll').scrollLeft > 100")
    after = lefts(tree)
    assert after[0] == before[0]
    assert after[1] < before[1] - 100
    drag(tree, 0, -150)
    tree.wait_for_function("() => document.querySelector('.scroll').scrollTop > 100")
    assert tree.evaluate("() => [scrollX, document.documentElement.scrollLeft]") == [0, 0]


def test_its_path_is_marked_in_the_first_column_too_and_a_click_names_its_node(tree):
    tree.locator(".node").nth(2 * ROWS + 3).click()
    assert tree.evaluate("() => window.rows") == [["node", 2 * ROWS + 4]]
    marked = tree.locator(".node.path")
    assert [marked.nth(at).get_attribute("title").split(" · ")[0] for at in range(marked.count())] == [
        "node 1 0",
        "node 2 0",
        "node 3 3",
    ]


def test_its_files_have_what_the_frame_hides(tree):
    tree.get_by_role("button", name="Download").click()
    with tree.expect_download() as download:
        tree.get_by_role("button", name="SVG", exact=True).click()
    text = download.value.path().read_text("utf-8")
    assert text.count(f">t{STEPS}<") == ROWS
    told = [float(part.split(")")[0].split()[1]) for part in text.split("translate(")[1:] if "node 12 0" in part]
    assert told
    assert told[0] > ROWS * 32  # below the tree, not on it
    assert tree.locator(".scroll").evaluate("(frame) => frame.clientHeight") <= 0.6 * 800 + 4


COVERED = """() => {
  const cut = (box, by) => box.left < by.right && by.left < box.right && box.top < by.bottom && by.top < box.bottom;
  const boxOf = (node) => node.getBoundingClientRect();
  const by = boxOf(document.querySelector(".onward"));
  const edge = boxOf(document.querySelector(".scroll")).right - 40;
  const here = [...document.querySelectorAll(".node small")].filter((node) => boxOf(node).left < edge);
  return here.filter((node) => cut(boxOf(node), by)).length;
}"""


def test_its_button_leads_on_by_whole_columns_and_covers_no_number(tree):
    on, frame = tree.locator(".onward"), tree.locator(".scroll")
    assert tree.evaluate(COVERED) == 0
    left = frame.evaluate("(frame) => frame.scrollLeft")
    assert left == 0
    while on.is_visible():
        on.click()
        tree.wait_for_function("(left) => document.querySelector('.scroll').scrollLeft > left + 60", arg=left)
        tree.wait_for_timeout(400)  # a smooth way
        left = frame.evaluate("(frame) => frame.scrollLeft")
        assert not on.is_visible() or tree.evaluate(COVERED) == 0
    assert left > 0


LOOK = """(wanted) => {
  const frame = document.querySelector(".scroll");
  const whole = frame.scrollWidth <= frame.clientWidth;
  return String([whole, frame.matches("[data-goes-on]"), Boolean(frame.closest(".stacked"))]) === String(wanted);
}"""


@pytest.mark.parametrize(
    ("width", "whole", "fades", "stacked"),
    [(1000, True, False, False), (480, True, False, True), (300, False, True, False)],
)
def test_where_only_narrower_columns_fit_a_number_is_under_its_token_and_where_none_do_its_edge_fades(
    page, width, whole, fades, stacked
):
    """Beside a lesson it is seen whole, if it can be."""
    mount(page, "pages/predictions/beam_tree", pack(header(7)), width)
    page.wait_for_function(LOOK, arg=[whole, fades, stacked])
    on = page.locator(".onward")
    expect(on).to_be_visible(visible=fades)
    if fades:
        on.click()
        page.wait_for_function("document.querySelector('.scroll').scrollLeft > 100")
