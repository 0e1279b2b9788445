"""The page of attention in the browser: lines, differences on the thumbnails, BertViz with hostile tokens."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from model.analysis.head_metrics import entropy
from tests.browser.looking import eventually, expect_painted, source, stands_still
from viz.i18n.format import token_sign

pytestmark = pytest.mark.browser

HOSTILE = "</script><script>alert(1)</script> <img src=x onerror=alert(1)> &lt;"
LINES = ".vitrine.lines"
# How many pixels are drawn between the two columns of tokens.
DRAWN = """
(canvas) => {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(Math.round(0.45 * width), 0, Math.round(0.05 * width), height);
  return data.filter((value, index) => index % 4 === 3 && value > 2).length;
}
"""
# Hues of drawn cells on the thumbnails: purple and green are differences, blue are weights.
HUES = """
(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const found = { purple: 0, green: 0, blue: 0 };
  for (let at = 0; at < data.length; at += 4) {
    const [r, g, b, a] = data.slice(at, at + 4);
    if (a < 40) continue;
    const near = (hue) => hue.every((part, index) => Math.abs(part - [r, g, b][index]) < 12);
    found.purple += near([150, 60, 190]);
    found.green += near([0, 134, 106]);
    found.blue += near([82, 110, 223]);
  }
  return found;
}
"""


def click(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).or_(
        page.get_by_role("radio", name=name, exact=True)
    ).first.click()


@pytest.mark.slow
def test_lines_follow_the_typing_and_a_token_keeps_its_own(visit, model):
    page = visit().open(source="I am a teacher.", target="我是老师。")
    click(page, "More")
    click(page, "lines")
    drawing = page.locator(LINES)
    expect(drawing).to_be_visible()
    page.wait_for_url("**draw=lines*")
    canvas = drawing.locator("canvas")
    stands_still(page)
    eventually(page, lambda: canvas.evaluate(DRAWN) > 0)
    everything = canvas.evaluate(DRAWN)
    drawing.evaluate("(node) => (node.marked = true)")
    box = canvas.bounding_box()
    canvas.hover(position={"x": box["width"] * 0.2, "y": 60})  # a query, left
    eventually(page, lambda: 0 < canvas.evaluate(DRAWN) < 0.7 * everything)
    expect(page.locator(".chip.lit").first).to_be_visible()
    source(page).fill("I am a good teacher.")
    expect_painted(page, model, "I am a good teacher.")
    expect(drawing).to_have_attribute("data-painted", " ".join(model.source_tokens("I am a good teacher.").labels))
    assert drawing.evaluate("(node) => node.marked")  # the same node: drawn again in place


@pytest.mark.slow
def test_the_thumbnails_show_differences_in_their_own_colours(visit):
    page = visit().open(source="I am a teacher.", target="我是老师。")
    atlas = page.locator(".vitrine.heads canvas.atlas")
    eventually(page, lambda: atlas.evaluate(HUES)["blue"] > 100)
    page.get_by_role("button", name="Pin").click()
    expect(page.locator(".pinned")).to_be_visible()
    source(page).fill("He is a teacher.")
    click(page, "differences")
    eventually(page, lambda: min(atlas.evaluate(HUES)[hue] for hue in ("purple", "green")) > 20)
    expect(page.locator(".vitrine.heatmap .aside")).to_contain_text("of this head's weight moved")
    click(page, "differences")
    eventually(page, lambda: atlas.evaluate(HUES)["purple"] == 0)


def test_heads_are_sorted_where_they_stand(visit, model):
    page = visit().open(source="I am a teacher.", target="我是老师。")
    names = page.locator(".vitrine.heads .name")
    expect(names.first).to_have_text("1.1")
    page.get_by_role("combobox", name="Order").click()
    page.get_by_role("option", name="lowest first").click()
    page.wait_for_url("**order=lowest*")
    found = entropy(model.trace("I am a teacher.", "我是老师。").attention("cross")).numpy()
    layer, head = np.unravel_index(found.argmin(), found.shape)
    expect(names.first).to_have_text(f"{layer + 1}.{head + 1}")
    expect(page.locator('.vitrine.heads .head[aria-pressed="true"]')).to_have_count(1)


@pytest.mark.slow
def test_bertviz_draws_hostile_tokens_as_text_and_asks_nobody(visit, model):
    """`visit` fails the test where a dialog opens, an error is logged or another machine is asked."""
    visited = visit(color_scheme="dark")
    page = visited.open(source=HOSTILE, attention="encoder")
    page.get_by_text("BertViz", exact=True).first.click()
    frame = page.frame_locator("iframe")
    labels = [token_sign(label) for label in model.source_tokens(HOSTILE).labels]
    expect(frame.locator("#left text")).to_have_text(labels)
    expect(frame.locator("#attention line")).to_have_count(len(labels) ** 2 * model.config.n_heads)
    colour = frame.locator("#left text").first.evaluate("(node) => getComputedStyle(node).fill")
    assert int(colour.split("(")[1].split(",")[0]) > 200  # light letters on the dark page
    click(page, "Model view")
    expect(frame.locator(".attn_background")).to_have_count(model.config.n_encoder_layers * model.config.n_heads)
    click(page, "Neuron view")
    expect(frame.locator("#collapsed #leftText text")).to_have_text(labels)
    frame.locator("#collapsed #leftText text").nth(2).hover()
    assert frame.locator("img, script[src]").count() == 0
    assert visited.foreign == []


@pytest.mark.slow
def test_each_figure_says_what_it_is_in_a_sentence_a_formula_and_code(visit):
    page = visit().open()
    for figure in (".vitrine.heatmap", ".vitrine.heads", ".vitrine.stages"):
        page.locator(f"{figure} .about").first.click()
        window = page.locator(".st-key-explained_figure_explanation")
        expect(window.locator(".katex").first).to_be_visible()
        expect(window.locator("code").first).to_contain_text("def ")
        sentence = page.locator(f"{figure} .about").first.get_attribute("title")
        expect(window.get_by_text(sentence)).to_be_visible()
        plot = page.locator(figure).first.bounding_box()
        assert plot["x"] + plot["width"] <= window.bounding_box()["x"]  # beside the figure, not over it
        close = window.locator(".st-key-explained_figure_close button")
        page.keyboard.press("Escape") if figure == ".vitrine.stages" else close.click()
        expect(window).to_have_count(0)
        expect(page.locator(".stMain .block-container")).to_have_css("padding-right", "25.6px")  # nor its room
