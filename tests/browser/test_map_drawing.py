"""The map by itself: every part of a small model is drawn where it belongs and as it was computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

import viz.state.checkpoints
from model.capture.trace import Trace
from model.checkpoints.load import open_checkpoint
from tests.app_reading import body, opened
from tests.browser.alone import mount
from tests.browser.looking import eventually
from tests.browser.server import PATIENCE
from tests.viz.components.test_registry import unpack
from tests.viz.small import write_small
from viz.figures.colours import KEY, VALUE
from viz.i18n.format import token_sign

pytestmark = pytest.mark.browser

SVG = "{http://www.w3.org/2000/svg}"
TEXT = "The cat sees."
KEYS, VALUES, WIDEST = KEY, VALUE, 9


@dataclass
class Sent:
    """What the page of the map sends of a small model, and that model's trace."""

    data: bytes
    header: dict
    arrays: list[np.ndarray]
    trace: Trace


@pytest.fixture(scope="module")
def sent(tmp_path_factory) -> Sent:
    folder = tmp_path_factory.mktemp("map")
    model = open_checkpoint(write_small(folder / "small", n_decoder_layers=3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(viz.state.checkpoints, "CHECKPOINTS", folder)
        app = opened("map", source=TEXT)
    assert not app.exception
    (proto,) = [e.proto for e in app.get("bidi_component") if e.proto.component_name == "vitrine_model_map"]
    data = body(proto.bytes)
    return Sent(data, *unpack(data), model.trace(TEXT))


@pytest.fixture(scope="module")
def mounted(browser: Browser, sent: Sent) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1000, "height": 900})
    page.set_default_timeout(PATIENCE)
    mount(page, "pages/map/model_map", sent.data, 900)
    yield page
    page.close()


@pytest.fixture(scope="module")
def svg(mounted: Page) -> ElementTree.Element:
    mounted.locator(".opener").click()
    with mounted.expect_download() as download:
        mounted.get_by_role("button", name="SVG", exact=True).click()
    return ElementTree.fromstring(download.value.path().read_text("utf-8"))


def lines(svg: ElementTree.Element) -> list[tuple[dict[str, str], np.ndarray]]:
    """Each line's look and its points."""
    found = svg.iter(f"{SVG}polyline")
    return [
        (node.attrib, np.array([point.split(",") for point in node.attrib["points"].split()], float)) for node in found
    ]


def test_tokens_are_at_the_bottom_and_predictions_at_the_top(svg, sent):
    heights: dict[str, list[float]] = {}
    for node in svg.iter(f"{SVG}text"):
        place = node.attrib["transform"].removeprefix("translate(").partition(")")[0]
        heights.setdefault(node.text or "", []).append(float(place.split()[1]))
    embeddings = [places for words, places in heights.items() if words.startswith("embedding ×")]
    guesses = [min(heights[token_sign(label)]) for label in sent.header["predictions"]["labels"]]
    tokens = [max(heights[token_sign(label)]) for label in (*sent.trace.source_tokens, *sent.trace.target_tokens)]
    assert max(guesses) < min(map(min, embeddings))
    assert max(map(max, embeddings)) < min(tokens)


def test_the_stream_is_as_thick_as_its_norm(svg, sent):
    flows = {block["name"]: block["flow"] for block in sent.header["blocks"] if block["flow"] is not None}
    thickest = max(flows.values())
    drawn = [float(look["stroke-width"]) for look, _points in lines(svg)]
    for name, flow in flows.items():
        if "residual" in name:
            expected = 1 + (WIDEST - 1) * flow / thickest
            assert min(abs(width - expected) for width in drawn) < 1e-6, name


def test_keys_and_values_go_from_the_encoder_to_every_cross_attention(mounted, svg, sent):
    names = [f"Decoder · layer {layer} · cross-attention" for layer in (1, 2, 3)]
    areas = mounted.locator(".areas .block").evaluate_all(
        "(all) => all.map((each) => [each.ariaLabel, each.offsetLeft, each.offsetTop, each.offsetHeight])"
    )
    places = [tuple(place) for name, *place in areas if name in names]
    assert len(places) == 3
    for colour in (KEYS, VALUES):
        ends = [points[-1] for look, points in lines(svg) if look["stroke"] == colour]
        for left, top, high in places:
            assert any(abs(x - left) < 3 and top <= y <= top + high for x, y in ends), (colour, top)


def test_norms_are_lines_of_mean_and_deviation(svg, sent):
    shown = [array for block, array in zip(sent.header["blocks"], sent.arrays, strict=True) if block["kind"] == "norm"]
    drawn = lines(svg)
    for array in shown:
        for values, width in zip(array, ("0.8", "1.6"), strict=True):
            paths = [
                -points[:, 1] for look, points in drawn if look["stroke-width"] == width and len(points) == len(values)
            ]
            assert max(np.corrcoef(values, path)[0, 1] for path in paths) > 0.999


def test_heads_strips_and_embeddings_are_pictures(svg, sent):
    kinds = [block["kind"] for block in sent.header["blocks"]]
    heads = 2 * sum(kind.endswith("attention") for kind in kinds)
    hatched = 2 * 3  # under the heads of the decoder
    strips, embeddings = kinds.count("feed-forward"), 2 * kinds.count("embedding")
    assert len(list(svg.iter(f"{SVG}image"))) == heads + hatched + strips + embeddings


def test_pointing_tells_shapes_parameters_and_operations_and_a_click_opens(mounted, sent):
    names = [block["name"] for block in sent.header["blocks"]]
    panel = mounted.locator(".panel dl > div")
    shown = "(all) => all.map((each) => [...each.children].map((word) => word.textContent))"
    for name in ("Encoder · layer 2 · feed-forward", "Decoder · layer 3 · cross-attention"):
        block = mounted.get_by_role("button", name=name, exact=True)
        block.hover(position={"x": 30, "y": 3})
        said = dict(sent.header["blocks"][names.index(name)]["lines"])
        assert {"parameters", "matrix products"} <= set(said)
        eventually(mounted, lambda said=said: dict(panel.evaluate_all(shown)) == said)
        assert any(f"{len(sent.trace.source_tokens)} × 16" in text for text in said.values())
        block.click(position={"x": 30, "y": 3})
    head = mounted.get_by_role("button", name="Decoder · layer 3 · cross-attention · head 2", exact=True)
    head.click()
    number = names.index("Decoder · layer 3 · cross-attention")
    opened_first = {"block": names.index("Encoder · layer 2 · feed-forward"), "head": None}
    told = [opened_first, {"block": number, "head": None}, {"block": number, "head": 1}]
    eventually(mounted, lambda: mounted.evaluate("window.rows") == [["open", each] for each in told])


def test_a_token_lit_elsewhere_is_lit_on_the_map(mounted):
    pixels = """() => {
        const map = document.querySelector(".model_map");
        const [canvas, head] = [map.querySelector("canvas"), map.querySelector(".areas .head")];
        const [whole, box] = [canvas.getBoundingClientRect(), head.getBoundingClientRect()];
        const place = [box.left - whole.left, box.top - whole.top, box.width, box.height];
        const ratio = canvas.width / whole.width;
        return [...canvas.getContext("2d").getImageData(...place.map((each) => Math.round(each * ratio))).data].join();
    }"""  # of a head's map, not of the tokens alone
    mounted.mouse.move(0, 0)
    mounted.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    plain = mounted.evaluate(pixels)
    light = "window.__vitrine.dispatchEvent(new CustomEvent('hover', { detail: { side: 'source', position: %d } }))"
    mounted.evaluate(light % 1)
    mounted.wait_for_function(f"(plain) => ({pixels})() !== plain", arg=plain)
