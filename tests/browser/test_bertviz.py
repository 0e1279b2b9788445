"""BertViz's page by itself: tokens are whole where there is room, else shortened, and all of them is in their title."""

from __future__ import annotations

import pytest
import torch
from playwright.sync_api import Page

from model.analysis.attention_maps import Maps
from model.capture.trace import record
from tests.model.examples import network
from viz.i18n.format import token_sign
from viz.pages.attention.bertviz import document

pytestmark = pytest.mark.browser

TOKENS = ["▁a", "▁considerations", "</s>", "▁" + "international" * 3, "汽车" * 12]
SHOWN = [token_sign(token) for token in TOKENS]
# Of each token what is written, its title and its ends.
WRITTEN = """
(texts) => texts.map((text) => {
  const box = text.getBoundingClientRect();
  const title = text.querySelector("title")?.textContent;
  return { text: text.firstChild.data, title, left: box.left, right: box.right };
})
"""
COLUMNS = {
    "head": ("#left text", "#right text"),
    "model": ("g.detail text.token", None),
    "neuron": ("#collapsed #leftText text.token", "#collapsed #rightText text.token"),
}


@pytest.fixture
def maps():
    model = network(n_encoder_layers=1)
    with torch.inference_mode(), record(model) as trace:
        model(torch.tensor([[5, 6, 7, 3, 9]]), torch.tensor([[1, 4, 12]]))
    trace.source_tokens, trace.target_tokens = list(TOKENS), ["a", "b", "c"]
    return Maps(trace, "encoder")


@pytest.mark.parametrize("width", [340, 700, 1200])
@pytest.mark.parametrize("view", ["head", "model", "neuron"])
def test_no_token_is_cut(page: Page, maps: Maps, view: str, width: int):
    page.set_viewport_size({"width": width, "height": 700})
    page.set_content(document(maps, view, 0, 0, dark=False))
    if view == "model":
        page.locator(".attn_background ~ rect").first.dispatch_event("click")
        page.wait_for_timeout(100)  # it is scrolled into the frame
    left, right = COLUMNS[view]
    found = page.locator(left).evaluate_all(WRITTEN)
    found += page.locator(right).evaluate_all(WRITTEN) if right else []
    assert len(found) == 2 * len(TOKENS)
    for each, whole in zip(found, SHOWN * 2, strict=True):
        assert (each["title"] or each["text"]) == whole
        assert each["text"] == whole or (each["text"][-1] == "…" and whole.startswith(each["text"][:-1]))
        assert len(each["text"]) > 1 or whole == each["text"]
        assert each["left"] >= 0
        assert each["right"] <= width
    assert max(each["right"] for each in found[:5]) < min(each["left"] for each in found[5:])
    shown = [each["text"] for each in found[:5]]
    assert shown[:3] == SHOWN[:3] or width == 340
    if width == 1200 and view != "model":
        assert shown == SHOWN


def test_titles_are_there_after_another_layer_is_chosen(page: Page, maps: Maps):
    page.set_viewport_size({"width": 340, "height": 700})
    page.set_content(document(maps, "head", 0, 0, dark=False))
    page.evaluate("() => $('#layer').trigger('change')")
    page.wait_for_function("() => document.querySelectorAll('#left title').length > 1")
    assert page.locator("#left title").last.text_content() == SHOWN[-1]
