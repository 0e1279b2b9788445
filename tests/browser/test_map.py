"""The map in the browser: it redraws while typing, in the same elements, and its blocks lead to their pages."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect

from tests.browser.looking import chips, eventually, source, stands_still
from viz.i18n.format import token_sign

pytestmark = pytest.mark.browser

MAP, PANEL = ".model_map", ".panel"
PRINT = """
(map) => {
  const canvas = map.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.reduce((sum, value) => (sum * 31 + value) % 1000000007, 0);
}
"""
KEPT = "(map) => map.kept && map.querySelector('.areas').firstChild.kept"
HOSTILE = " </script><img src=x onerror=alert(1)> a\u202eb 🙂"


def opened(visit, **address: str) -> Page:
    page = visit.open(**address)
    page.get_by_role("link", name="Map", exact=True).click()
    expect(page.locator(f"{MAP}[data-painted]")).to_be_visible()
    return page


def expect_map(page: Page, model, text: str) -> None:
    expect(page.locator(MAP)).to_have_attribute("data-painted", " ".join(model.source_tokens(text).labels))


@pytest.mark.slow
def test_typing_paints_again_in_the_same_elements(visit, model):
    page = opened(visit(), source="I am a teacher.")
    expect_map(page, model, "I am a teacher.")
    layers = model.config.n_encoder_layers + 2 * model.config.n_decoder_layers
    expect(page.locator(f"{MAP} .areas .head")).to_have_count(layers * model.config.n_heads)
    page.locator(MAP).evaluate("(map) => { map.kept = map.querySelector('.areas').firstChild.kept = true; }")
    before = page.locator(MAP).evaluate(PRINT)
    source(page).press("End")
    page.keyboard.insert_text(HOSTILE)
    expect_map(page, model, "I am a teacher." + HOSTILE)
    expect(source(page)).to_be_focused()
    eventually(page, lambda: page.locator(MAP).evaluate(PRINT) != before)
    assert page.locator(MAP).evaluate(KEPT)


@pytest.mark.slow
def test_the_map_follows_a_training(visit):
    """Every step changes the weights, and the picture with them, in the elements that are there."""
    page = visit().open(model="reverse", source="abc", target="c")
    page.get_by_role("link", name="Map", exact=True).click()
    shown, strip = page.locator(f"{MAP}[data-painted]"), page.locator(".vitrine.strip")
    expect(shown).to_be_visible()
    shown.evaluate("(map) => { map.kept = map.querySelector('.areas').firstChild.kept = true; }")
    prints = {shown.evaluate(PRINT)}
    for button, step in (("1: Train one step", "1"), ("Train 10 steps", "11")):
        page.get_by_role("button", name=button, exact=True).click()
        expect(strip).to_have_attribute("data-step", step)
        known = len(prints)
        eventually(page, lambda known=known: prints.add(shown.evaluate(PRINT)) or len(prints) > known)
    assert shown.evaluate(KEPT)


@pytest.mark.slow
def test_a_head_is_explained_lights_its_tokens_and_opens_large(visit, model):
    page = opened(visit(), source="I am a teacher.", target="我是老师。")
    head = page.get_by_role("button", name="Decoder · layer 2 · cross-attention · head 3", exact=True)
    stands_still(page)  # nothing moves away from under the pointer
    head.hover(position={"x": 2, "y": 2})
    expect(page.locator(f"{PANEL} h4")).to_have_text("Decoder · layer 2 · cross-attention · head 3")
    weight = float(model.trace("I am a teacher.", "我是老师。")["decoder.layers.1.cross_attention.weights"][2, 0, 0])
    label = token_sign(model.source_tokens("I am a teacher.").labels[0])
    expect(page.locator(f"{PANEL} .cell")).to_contain_text(f"<s> → {label}  {weight:.3g}"[:-1])
    expect(page.locator(f"{PANEL} dl")).to_contain_text("6 × 256")  # queries of 6 tokens
    expect(page.locator(".chip.lit")).to_have_text([label, "<s>"])
    head.click()
    expect(page.locator(".vitrine.heatmap[data-painted]")).to_contain_text("Layer 2, head 3")
    told = {"source": "I am a teacher.", "target": "我是老师。", "layer": "1", "head": "2", "attention": "cross"}
    eventually(page, lambda: {name: values[-1] for name, values in parse_qs(urlsplit(page.url).query).items()} == told)


@pytest.mark.slow
def test_the_map_is_saved_as_svg_and_fits_a_phone(visit, model):
    page = opened(visit(has_touch=True), source="I am a teacher.")
    page.locator(f"{MAP} .opener").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG", exact=True).click()
    svg = ElementTree.fromstring(download.value.path().read_text("utf-8"))
    pictures = [node for node in svg if node.tag.endswith("image")]
    layers = model.config.n_encoder_layers + model.config.n_decoder_layers
    heads = (layers + model.config.n_decoder_layers) * model.config.n_heads
    masked = model.config.n_decoder_layers * model.config.n_heads
    assert len(pictures) == heads + masked + layers + 4  # a hatch under causal heads, strips, two embeddings
    words = [node.text for node in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {token_sign(label) for label in model.source_tokens("I am a teacher.").labels} <= set(words)
    canvas = page.locator(f"{MAP} canvas").first
    wide = canvas.bounding_box()
    page.set_viewport_size({"width": 390, "height": 844})
    page.mouse.move(0, 0)
    page.reload()  # on a phone no mouse has pointed at a block before
    expect_map(page, model, "I am a teacher.")
    eventually(page, lambda: canvas.bounding_box()["width"] < 390)
    eventually(page, lambda: canvas.bounding_box()["height"] > 1.3 * wide["height"])  # the stacks under each other
    encoder, decoder = (page.get_by_role("button", name=f"{stack} · embedding") for stack in ("Encoder", "Decoder"))
    eventually(page, lambda: encoder.bounding_box()["y"] > decoder.bounding_box()["y"])
    stands_still(page)
    block = page.get_by_role("button", name="Encoder · layer 1 · feed-forward", exact=True)
    block.evaluate("(block) => block.scrollIntoView({ block: 'end' })")  # where the panel will come
    box = block.bounding_box()
    page.touchscreen.tap(box["x"] + 20, box["y"] + box["height"] / 2)
    expect(page.locator(f"{PANEL} h4")).to_have_text("Encoder · layer 1 · feed-forward")
    above = page.locator(PANEL).bounding_box()["y"]
    eventually(page, lambda: block.bounding_box()["y"] + block.bounding_box()["height"] <= above)
    page.wait_for_timeout(300)
    assert "feed_forward" not in page.url
    heads = [page.get_by_role("button", name=f"Encoder · layer 1 · self-attention · head {head}") for head in (1, 2)]
    heads[0].tap()
    expect(page.locator(f"{PANEL} h4")).to_have_text("Encoder · layer 1 · self-attention · head 1")
    block.tap()  # another block: shown first
    expect(page.locator(f"{PANEL} h4")).to_have_text("Encoder · layer 1 · feed-forward")
    heads[0].tap()
    heads[1].tap()  # anywhere in the block that was touched
    page.wait_for_url("**/attention*head=1*")
    expect(chips(page, "source")).to_have_count(len(model.source_tokens("I am a teacher.").labels))
