"""Words in cells, beside a scale, pointed at or of what is pinned: legible on every colour that a scale can give."""

from __future__ import annotations

import numpy as np
import pytest

from tests.browser.alone import mount
from tests.browser.contrast import NOTED, drawn
from viz.components.registry import pack

pytestmark = pytest.mark.browser

THEMES = {"light": ("rgb(49, 51, 63)", "#ffffff"), "dark": ("rgb(250, 250, 250)", "#0e1117")}
LABELS = list("abcdefghi")
HEADER = dict.fromkeys(("name", "sentence", "note", "stamp", "alt", "file"), "a")
LIT = "window.__vitrine.dispatchEvent(new CustomEvent('hover', { detail: { side: 'source', position: 2 } }))"
AXIS = {"title": "title", "labels": LABELS, "side": "source"}


@pytest.fixture(params=THEMES)
def themed(page, request):
    """An empty page of a theme's colours, and its background."""
    colour, background = THEMES[request.param]
    page.evaluate(NOTED)
    page.evaluate(
        "([colour, background]) => (document.documentElement.style = `color: ${colour}; background: ${background};"
        " --st-background-color: ${background}`)",
        [colour, background],
    )
    return page, background


def assert_legible(themed, words: set[str]) -> None:
    found = drawn(*themed)
    assert words <= {text for text, _ratio in found}
    faint = [each for each in found if each[1] < 4.5]
    assert not faint, faint


def assert_lit_is_legible(themed) -> None:
    """A token that is lit elsewhere lights up here, and can still be read."""
    page, _background = themed
    pixels = "() => document.querySelector('canvas').toDataURL()"
    plain = page.evaluate(pixels)
    page.evaluate(LIT)
    page.wait_for_function(f"(plain) => ({pixels})() !== plain", arg=plain)
    assert_legible(themed, {"c"})


@pytest.mark.parametrize(("low", "difference"), [(0, False), (-1, False), (-1, True)])
def test_words_in_cells_of_every_strength(themed, low, difference):
    page, _background = themed
    values = np.linspace(low, 1, len(LABELS), dtype=np.float32)[None]
    header = {
        **HEADER,
        "rows": {"title": "rows", "labels": ["row"], "side": "target"},
        "columns": AXIS,
        "scale": {"low": low, "high": 1, "title": "scale", "difference": difference},
        "texts": [f"t{place}" for place in range(len(LABELS))],
        "words": {"masked": "masked", "download": "Download", "csv": list("abcde")},
        "chosen": 0,
    }
    data = pack(header, [values, np.ones(values.shape, np.uint8)])
    mount(page, "web/heatmap", data, 900)
    assert_legible(themed, {"row", "a", "c", "scale", "t0", "t4", "t8"})
    assert_lit_is_legible(themed)


def test_words_of_panels_and_of_what_is_pinned(themed):
    page, _background = themed
    described = {
        "note": "note",
        "line": 0,
        "rows": AXIS,
        "columns": AXIS,
        "scale": {"low": 0, "high": 1},
        "choose": True,
    }
    shown = [{**described, "name": "own"}, {**described, "name": "other", "pinned": True}]
    values = np.eye(len(LABELS), dtype=np.float32)
    words = {name: name for name in ("masked", "visible", "changed", "missing", "download")} | {"csv": list("abcde")}
    data = pack({**HEADER, "panels": shown, "words": words}, [values, values.astype(np.uint8)] * 2)
    mount(page, "web/panels", data, 900)
    assert_legible(themed, {"own", "other", "note", "title", "a", "1.00"})
    assert_lit_is_legible(themed)
