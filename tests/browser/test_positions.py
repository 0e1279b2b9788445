"""Tokens and positions in the browser: typing, the laboratory's fields, other positions on every page."""

import csv
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect

from model.inference.text_model import TextModel
from tests.browser.looking import chips, eventually, pixels, source, stands_still
from tests.browser.test_hostile import INTRUDERS, SCRIPT

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def painted(page: Page, model: TextModel, text: str) -> None:
    """Every view has come to be of this text."""
    labels = " ".join(model.source_tokens(text).labels)
    plots = page.locator(".vitrine.plot")

    def same() -> bool:
        stamps = plots.evaluate_all("(all) => all.map((each) => each.dataset.painted)")
        return len(stamps) == 4 and set(stamps) == {labels}

    eventually(page, same)


def go(page: Page, name: str) -> None:
    page.get_by_role("link", name=name, exact=True).click()


def test_tokens_follow_the_typing_and_stay_text(visit, model):
    page = visit().open()
    go(page, "Tokens and positions")
    painted(page, model, "She bought a red car yesterday.")
    source(page).fill("Where is the station?")
    painted(page, model, "Where is the station?")
    canvas = page.locator(".vitrine.heatmap canvas")
    stands_still(page)
    box = canvas.bounding_box()
    canvas.click(position={"x": box["width"] / 2, "y": box["height"] - 12})  # the last row: </s>
    note = page.locator(".vitrine.chart").filter(has_text="Nearest tokens").locator(".aside")
    eventually(page, lambda: (note.text_content() or "").startswith("</s>"))
    source(page).fill(SCRIPT)
    painted(page, model, SCRIPT)
    page.locator(".vitrine.chart canvas").first.hover()
    assert page.evaluate(INTRUDERS) == 0


def test_the_laboratory_draws_what_its_fields_say(visit):
    page = visit().open()
    go(page, "Tokens and positions")
    page.get_by_role("radio", name="Compare encodings").click()
    page.get_by_role("radio", name="Wavelengths").click()
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    field = page.get_by_label("base (several: 1, 2)", exact=True).first
    field.fill("0")
    expect(page.get_by_role("alert")).to_contain_text("0 is out of range")
    field.fill("100, 50")
    expect(page.get_by_text("With base 50 instead of 100, 254 of 256 dimensions")).to_be_visible()
    lines = page.locator(".js-plotly-plot").first.locator(".scatterlayer .trace")
    expect(lines).to_have_count(2)
    page.get_by_role("radio", name="Moved by k").click()
    expect(page.get_by_text("a linear function.")).to_be_visible()


def test_a_figure_of_the_laboratory_is_saved_as_it_is_seen(visit):
    page = visit().open()
    go(page, "Tokens and positions")
    page.get_by_role("radio", name="Compare encodings").click()
    files = page.locator(".vitrine.figure")
    expect(page.locator(".js-plotly-plot")).to_have_count(2)
    expect(page.locator(".js-plotly-plot").first.locator(".scatterlayer .trace")).not_to_have_count(0)
    saved = {}
    for kind in ("PNG", "SVG", "CSV"):
        files.first.get_by_role("button", name="Download").click()
        with page.expect_download() as download:
            files.first.get_by_role("button", name=kind, exact=True).click()
        assert download.value.suggested_filename == f"positions-curves-1.{kind.lower()}"
        saved[kind] = download.value.path().read_bytes()
    assert saved["PNG"].startswith(b"\x89PNG")
    assert len(saved["PNG"]) > 10_000
    drawing = ElementTree.fromstring(saved["SVG"])
    words = "".join(drawing.itertext())
    assert "position p" in words
    assert "dimension 20" in words
    table = list(csv.reader(saved["CSV"].decode("utf-8-sig").splitlines()))
    assert table[0] == ["curve", "position p", "PE"]
    assert table[1][0].endswith("dimension 4")
    assert table[1][1:] == ["0", "0"]  # sin 0
    assert len(table) == 1 + 4 * 100  # bases and dimensions, positions


def test_other_positions_reach_every_page_and_can_be_taken_back(visit):
    page = visit().open()
    page.locator(".vitrine.heads[data-painted]").wait_for()
    stands_still(page)
    trained = [each["print"] for each in pixels(page)]
    go(page, "Tokens and positions")
    page.get_by_role("radio", name="In this model").click()
    page.get_by_role("radio", name="no positions").click()
    note = page.get_by_text("positions: no positions, up to 128 tokens — not as trained")
    expect(note).to_be_visible()
    expect(page.get_by_text("perplexity")).to_be_visible()
    stands_still(page)
    expect(page.locator(".vitrine.heatmap")).to_contain_text("Change of the attention")
    go(page, "Attention")
    page.locator(".vitrine.heads[data-painted]").wait_for()
    expect(note).to_be_visible()
    eventually(page, lambda: [each["print"] for each in pixels(page)] != trained)
    page.reload()
    expect(note).to_be_visible()  # the address bar holds it
    page.get_by_role("button", name="restore").click()
    expect(note).to_have_count(0)
    eventually(page, lambda: [each["print"] for each in pixels(page)] == trained)
    expect(chips(page, "source").first).to_be_visible()
