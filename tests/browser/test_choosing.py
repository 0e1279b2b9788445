"""Clicks: a head, a query, a kind of attention. What is chosen is in the address and comes back."""

import re
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import (
    cells,
    chips,
    eventually,
    expect_painted,
    figure,
    pixels,
    source,
    stands_still,
    texts,
    thumbnail,
    thumbnails,
)
from viz.state.session import FIRST_SOURCE

pytestmark = pytest.mark.browser

STAGES = ".vitrine.stages"


def address(page: Page) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(urlsplit(page.url).query).items()}


def column(page: Page, index: int) -> list[float]:
    """A column of the stages table as numbers, full precision, from the cells' titles."""
    cells = page.locator(f"{STAGES} tbody tr td:nth-child({index + 1})")
    return [float(title) for title in cells.evaluate_all("(cells) => cells.map((cell) => cell.title)")]


def expect_column(page: Page, index: int, values, tolerance: float = 1e-4) -> None:
    """A column of the stages table comes to show these numbers."""
    eventually(
        page,
        lambda: (
            np.shape(shown := column(page, index)) == np.shape(values) and np.allclose(shown, values, atol=tolerance)
        ),
    )


def expect_drawn(page: Page, weights) -> None:
    """The large figure comes to show these weights."""

    def drawn() -> bool:
        found = [float(cell.get("fill-opacity", "nan")) for cell in cells(figure(page), weights.numel())]
        return len(found) == weights.numel() and np.allclose(found, weights.flatten().tolist(), atol=1 / 255)

    eventually(page, drawn)


def chosen_query(page: Page, label: str):
    return expect(page.locator(f"{STAGES} .picker .chip.chosen")).to_have_text(label)


@pytest.mark.slow
def test_a_click_on_a_thumbnail_opens_that_head_and_reload_restores_it(visit, model):
    page = visit().open()
    trace = model.trace(FIRST_SOURCE)
    for _ in range(2):  # as clicked, and as restored
        if "layer" not in address(page):
            thumbnail(page, 2, 3).click()
        expect(page.get_by_text("Layer 2, head 3")).to_be_visible()
        expect(page.locator('.vitrine.heads .head[aria-pressed="true"]')).to_have_count(1)
        expect(page.locator('.vitrine.heads .head[aria-pressed="true"]')).to_contain_text("2.3")
        page.wait_for_url(re.compile("layer=1&head=2"))
        query = trace.target_tokens.index(page.locator(f"{STAGES} .picker .chip.chosen").inner_text())
        weights = trace["decoder.layers.1.cross_attention.weights"][2, query]
        expect_column(page, 4, weights, 1e-5)
        expect_drawn(page, trace["decoder.layers.1.cross_attention.weights"][2])
        page.reload()
        expect_painted(page, model, FIRST_SOURCE)


@pytest.mark.slow
def test_a_click_on_a_query_changes_the_stages_and_stays_while_typing(visit, model):
    page = visit().open(source="I am a teacher.", target="我是老师。", layer="0", head="4", query="1")
    chosen_query(page, "我")
    trace = model.trace("I am a teacher.", "我是老师。")
    before = column(page, 1)
    page.locator(f"{STAGES} .picker .chip").nth(4).click()
    chosen_query(page, "师")
    eventually(page, lambda: not np.allclose(before, column(page, 1)))
    path = "decoder.layers.0.cross_attention"
    for index, name in enumerate(("scores", "scaled", "masked", "weights"), start=1):
        expect_column(page, index, trace[f"{path}.{name}"][4, 4])
    page.wait_for_url("**query=4*")
    page.locator('input[aria-label="Source"]').press("End")
    page.keyboard.type(" Yes")
    expect_painted(page, model, "I am a teacher. Yes")
    chosen_query(page, "师")
    page.wait_for_url(re.compile("query=4"))


def test_a_click_on_a_token_of_the_bar_chooses_the_query(visit):
    page = visit().open(source="I am a teacher.", target="我是老师。")
    chips(page, "target").nth(3).click()
    chosen_query(page, "老")
    chips(page, "source").nth(1).click()  # in cross-attention the target asks
    page.wait_for_timeout(500)
    chosen_query(page, "老")


@pytest.mark.slow
def test_a_click_on_a_token_chooses_of_the_side_that_the_page_is_about(visit, model):
    page = visit().open(source="I am a teacher.", target="我是老师。")
    page.get_by_role("link", name="Tokens and positions", exact=True).click()
    nearest = page.locator(".vitrine.chart .aside").filter(has_text="·").first
    expect(nearest).to_be_visible()
    ids = model.source_tokens("I am a teacher.").ids
    for place in (3, 0):
        stands_still(page)
        chips(page, "source").nth(place).click()
        expect(nearest).to_contain_text(f"· {ids[place]}")
        page.wait_for_url(f"**query={place}*")
    chips(page, "target").nth(2).click()
    page.wait_for_timeout(500)
    expect(nearest).to_contain_text(f"· {ids[0]}")


@pytest.mark.slow
def test_a_clicked_token_stays_lit_everywhere_until_it_is_another(visit, model):
    page = visit().open(source="I am a teacher.", target="我是老师。")
    token, lit = chips(page, "source").nth(1), page.locator(".chip.lit")
    stands_still(page)
    plain = pixels(page)
    token.click()
    source(page).hover()
    expect(lit).to_have_text(["·am", "·am"])  # the bar and the key of the steps; the pointer is elsewhere
    eventually(page, lambda: pixels(page) != plain)  # its column on the thumbnails
    source(page).fill("I am a good teacher.")
    expect_painted(page, model, "I am a good teacher.")
    expect(lit).to_have_text(["·am", "·am"])
    source(page).fill("We are good.")
    expect_painted(page, model, "We are good.")
    expect(lit).to_have_count(0)
    token.click()
    source(page).hover()
    expect(lit).to_have_count(2)
    token.click()
    source(page).hover()
    expect(lit).to_have_count(0)


@pytest.mark.slow
def test_a_click_on_a_row_of_the_large_figure_chooses_the_query(visit):
    page = visit().open(source="I am a teacher.", target="我是老师。")
    stands_still(page)
    box = cells(figure(page), 36)[4 * 6 + 1]
    place = {"x": float(box["x"]) + 5, "y": float(box["y"]) + 5}
    page.locator(".vitrine.heatmap canvas").click(position=place)
    chosen_query(page, "师")
    page.wait_for_url(re.compile("query=4"))
    # In the bar, the line on the best source and the line on the prediction, among the queries; the key.
    expect(page.locator(".chip.lit")).to_have_text(["·am", "师", "师", "师", "师", "·am"])


@pytest.mark.slow
def test_masked_cells_of_the_decoder_are_hatched(visit, model):
    page = visit().open(source="I am a teacher.", target="我是老师。", query="2")
    grey = re.compile(r"\(12[0-9], 12[0-9], 12[0-9], [1-9]")  # the hatch, where nothing else is
    eventually(page, lambda: all(each["drawn"] for each in pixels(page)))
    assert not any(grey.match(str(tuple(each["last"]))) for each in pixels(page))
    assert "url(#masked)" not in {cell["fill"] for cell in cells(figure(page), 36)}
    page.get_by_role("button", name="Decoder").or_(page.get_by_role("radio", name="Decoder")).first.click()
    page.wait_for_url("**attention=decoder*")
    expect(page.locator(f"{STAGES} td.masked.weight")).to_have_count(3)  # six tokens; the third sees three
    # The first token and the last one.
    eventually(page, lambda: all(grey.match(str(tuple(each["last"]))) for each in pixels(page)))
    expect(page.locator(f"{STAGES} td.masked").first).to_have_css(
        "background-image", re.compile("repeating-linear-gradient")
    )
    expect(page.get_by_text("target looks at earlier target")).to_be_visible()
    later = (np.triu(np.ones((6, 6)), 1) > 0).flatten().tolist()
    eventually(page, lambda: [cell["fill"] == "url(#masked)" for cell in cells(figure(page), 36)] == later)
    page.reload()
    expect(page.locator(f"{STAGES} td.masked.weight")).to_have_count(3)


@pytest.mark.slow
def test_the_scale_changes_the_thumbnails_and_the_colour_bar(visit, model):
    page = visit().open(source="I am a teacher.", target="我是老师。", layer="0", head="0")
    found = model.trace("I am a teacher.", "我是老师。").attention("cross")
    tops = found.amax(dim=(2, 3)).flatten().tolist()
    assert min(tops) < 0.9
    drawn = pytest.approx([255 * top for top in tops], abs=2)
    eventually(page, lambda: [each["darkest"] for each in pixels(page)] == drawn)
    marks = ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    eventually(page, lambda: [text for text in texts(figure(page)) if text[0].isdigit()] == marks)
    page.get_by_role("button", name="More").click()
    page.get_by_text("scale 0 to largest").click()
    page.wait_for_url("**scale=largest*")
    eventually(page, lambda: texts(figure(page))[-2] == f"{float(found[0, 0].max()):.3g}")
    eventually(page, lambda: all(each["darkest"] >= 254 for each in pixels(page)))


def test_hovering_a_token_lights_it_up_wherever_it_is(visit):
    page = visit().open(source="I am a teacher.", target="我是老师。")
    stands_still(page)  # nothing moves away from under the pointer
    chips(page, "target").nth(2).hover()
    expect(page.locator(".chip.lit")).to_have_text(["是"] * 3)  # in the bar, the hint and among the queries
    thumbnails(page).nth(9).hover()
    expect(page.locator(".vitrine.heads .caption")).to_contain_text("Layer 2, head 2:")
    expect(page.locator(".vitrine.heads .caption")).to_contain_text("→")
