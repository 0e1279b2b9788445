"""Clicks on the mask change the model: what is drawn, measured and said follows, on every page, until restored."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import eventually, stands_still

pytestmark = pytest.mark.browser

# The first panel of a view: a pixel in the middle of each of its cells, and where that is on the page.
CELLS = """
(root) => {
  if (!root.place || !root.canvas.width) return []; // not laid out yet
  const { left, top, wide, high, count } = root.place.places[0];
  const { width } = root.canvas.getBoundingClientRect();
  const ratio = root.canvas.width / width;
  const context = root.canvas.getContext("2d");
  return Array.from({ length: count[0] * count[1] }, (_, cell) => {
    const [x, y] = [left + ((cell % count[1]) + 0.5) * wide, top + (Math.floor(cell / count[1]) + 0.5) * high];
    const box = context.getImageData((x - 3) * ratio, (y - 3) * ratio, 6 * ratio, 6 * ratio).data;
    let blue = 0;
    for (let at = 0; at < box.length; at += 4) blue += box[at + 2] > box[at] + 60;
    return { x, y, seen: blue > box.length / 8 };
  });
}
"""


def opened(visit, **address: str) -> Page:
    page = visit().open(**address)
    page.get_by_role("link", name="Masks").click()
    page.wait_for_url("**/masks*")
    expect(page.get_by_text("Press a cell to hide or show it")).to_be_visible()  # the page before had panels too
    stands_still(page)
    expect(views(page).first).to_be_visible()
    return page


def views(page: Page):
    return page.locator(".vitrine.panels[data-painted]")


def seen(page: Page) -> list[bool]:
    return [cell["seen"] for cell in views(page).first.evaluate(CELLS)]


def click(page: Page, cell: int) -> None:
    stands_still(page)
    place = views(page).first.evaluate(CELLS)[cell]
    views(page).first.locator("canvas").click(position={"x": place["x"], "y": place["y"]})


def test_a_click_hides_and_shows_a_cell_and_restore_takes_all_back(visit):
    page = opened(visit, source="I am a teacher.", target="我是老师。")
    causal = [column <= row for row in range(6) for column in range(6)]
    eventually(page, lambda: seen(page) == causal)
    expect(page.locator(".badge.failed")).to_have_count(0)
    click(page, 2 * 6 + 5)  # the third token may now look at the last
    page.wait_for_url("**changes=decoder*show%3A2*5*")
    expect(page.locator(".row:has(.badge.failed) code")).to_contain_text("self_attention.weights")
    expect(page.get_by_text("A leak from the future")).to_be_visible()
    leaking = [shown or cell == 17 for cell, shown in enumerate(causal)]
    eventually(page, lambda: seen(page) == leaking)
    expect(page.get_by_text("Where weights moved")).to_be_visible()
    click(page, 12)  # and no longer at the first
    eventually(page, lambda: seen(page) == [shown and cell != 12 for cell, shown in enumerate(leaking)])
    expect(page.locator(".changed .what")).to_have_text("⚠ changed Decoder: 是 → 。 · Decoder: 是 ↛ <s>")
    page.get_by_role("link", name="Attention").click()
    expect(page.locator(".vitrine.heads[data-painted]")).to_be_visible()
    expect(page.locator(".badge.failed")).to_have_count(1)
    page.get_by_role("button", name="restore").click()
    expect(page.locator(".badge.failed")).to_have_count(0)
    expect(page.locator(".changed .what")).to_have_count(0)
    eventually(page, lambda: "changes=" not in page.url)


@pytest.mark.slow
def test_the_kind_is_in_the_address_and_a_cell_is_hidden_from_the_keyboard(visit):
    page = opened(visit, source="I am a teacher.", target="我是老师。")
    page.get_by_test_id("stButtonGroup").get_by_text("Encoder", exact=True).click()
    page.wait_for_url("**masked=encoder*")
    eventually(page, lambda: seen(page) == [True] * 36)
    stands_still(page)
    views(page).first.get_by_role("button", name="Download").focus()
    for key in ("Tab", "ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    eventually(page, lambda: seen(page) == [cell != 7 for cell in range(36)])


@pytest.mark.slow
def test_a_label_hides_its_whole_row_which_then_sees_nothing(visit):
    page = opened(visit, source="I am a teacher.", target="我是老师。")
    eventually(page, lambda: len(seen(page)) == 36)
    stands_still(page)
    box = views(page).first.evaluate(
        "(root) => { const p = root.place.places[0]; return [p.left - 10, p.top + 1.5 * p.high] }"
    )
    views(page).first.locator("canvas").click(position={"x": box[0], "y": box[1]})
    expect(page.get_by_text("Nothing to look at")).to_contain_text(
        "largest weight 0, largest output of the head 0, NaN 0"
    )
    eventually(page, lambda: seen(page)[6:12] == [False] * 6)
    page.get_by_role("radio", name="Encoder").or_(page.get_by_role("button", name="Encoder")).first.click()
    page.get_by_text("A padded batch", exact=True).click()
    expect(page.get_by_text("Masks of a padded batch")).to_be_visible()
    lights_up_the_text(page)
    page.get_by_text("A changed future", exact=True).click()
    expect(page.get_by_text("with the causal mask 0 ·")).to_be_visible()


def lights_up_the_text(page: Page) -> None:
    """A token of another text of the batch lights up where it stands in the page's text."""
    batch = views(page).filter(has_text="Masks of a padded batch")
    stands_still(page)
    batch.scroll_into_view_if_needed()
    # The second half, "teacher.", begins in its own text, and further on in the page's.
    x, y, here = batch.evaluate(
        """(root) => {
          const number = root.shown.header.panels.findIndex(({ name }) => name === "text 3");
          const { left, top, wide, high } = root.place.places[number];
          const { places } = root.shown.header.panels[number].rows;
          const row = places.findIndex((place, at) => place > at);
          return [left + wide / 2, top + (row + 0.5) * high, places[row]];
        }"""
    )
    batch.locator("canvas").hover(position={"x": x, "y": y})
    expect(page.locator(f".chip.lit[data-position='{here}']")).to_be_visible()
