"""Small matrices side by side: no word is written over another, however few channels a head has."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from tests.browser.alone import mount
from viz.components.registry import pack

pytestmark = pytest.mark.browser

# What the last painting wrote, each with the box of its words: [words, left, top, right, bottom].
WRITTEN = """
(() => {
  const pens = CanvasRenderingContext2D.prototype;
  const { fillText, setTransform } = pens;
  pens.setTransform = function (...given) {
    window.written = [];
    return setTransform.apply(this, given);
  };
  pens.fillText = function (words, x, y, ...rest) {
    const { width } = this.measureText(words);
    const from = x - width * { left: 0, center: 0.5, right: 1 }[this.textAlign];
    const place = ([x, y]) => this.getTransform().transformPoint({ x, y });
    const corners = [[from, y - 5], [from + width, y + 5]].map(place);
    const sides = ["x", "y"].map((side) => corners.map((corner) => corner[side]));
    const [least, most] = [Math.min, Math.max].map((end) => sides.map((both) => end(...both)));
    if (words.trim()) window.written.push([words, ...least, ...most]);
    return fillText.call(this, words, x, y, ...rest);
  };
})();
"""
TOPS = (0.000123, 0.222, 12345.0)
NAMES = ("before: scores / √d_k", "before: + mask", "之前：加上掩码的分数", "o")


def panels(channels: int, top: float) -> bytes:
    """Four matrices of a head of so few channels, whose colours go from -top to top, with names wider than they are."""
    rows = [["▁the"], ["<s>", "▁the", "▁quick"], ["a token of sixteen"], ["a token of sixteen"]]
    described = [
        {
            "name": name,
            "line": number // 2,
            "rows": {"title": "", "labels": labels, "side": "source"},
            "columns": {"title": "channel", "labels": [""] * channels, "side": ""},
            "scale": {"low": -top, "high": top},
        }
        for number, (name, labels) in enumerate(zip(NAMES, rows, strict=True))
    ]
    values = [np.linspace(-top, top, len(each) * channels, dtype=np.float32) for each in rows]
    header = dict.fromkeys(("name", "sentence", "note", "stamp", "alt", "file"), "a")
    words = {name: name for name in ("masked", "visible", "changed", "missing", "download")} | {"csv": list("abcde")}
    arrays = [part for each in values for part in (each, np.ones(each.shape, np.uint8))]
    return pack({**header, "cell": 14, "panels": described, "words": words}, arrays)


@pytest.mark.parametrize("width", [240, 420, 900])
def test_names_and_the_ends_of_a_narrow_heads_scale_stand_apart(page, width):
    page.evaluate(WRITTEN)
    for channels in (1, 4, 8):
        for top in TOPS:
            page.evaluate("document.body.replaceChildren()")
            mount(page, "web/panels", panels(channels, top), width)
            written = page.evaluate("window.written")
            assert len([words for words, *_box in written if words[0] == "−"]) == 4
            together = "".join(words for words, *_box in written).replace(" ", "")
            assert all(name.replace(" ", "") in together for name in NAMES)
            for (one, *box), (other, *near) in combinations(written, 2):
                over = box[0] < near[2] and near[0] < box[2] and box[1] < near[3] and near[1] < box[3]
                assert not over, (channels, top, one, other)
            assert max(right for _words, _left, _top, right, _bottom in written) <= width
