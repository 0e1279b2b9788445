"""The contrast of words that are drawn on canvases, with what lies under them there: no style of the page tells it."""

from __future__ import annotations

import re

from playwright.sync_api import Page

# From now on every text that is drawn is noted with its colour and with what is under it, at five places along it.
NOTED = """
(() => {
  const found = (window.drawn = new Map());
  const pens = CanvasRenderingContext2D.prototype;
  const { getContext } = HTMLCanvasElement.prototype;
  HTMLCanvasElement.prototype.getContext = function (kind, options) {
    return getContext.call(this, kind, { ...options, willReadFrequently: true });
  };
  const { fillText } = pens;
  pens.fillText = function (words, x, y, ...rest) {
    const { width } = this.measureText(words);
    const left = x - width * { left: 0, start: 0, center: 0.5, right: 1, end: 1 }[this.textAlign];
    const under = [0.1, 0.3, 0.5, 0.7, 0.9].map((share) => {
      const place = this.getTransform().transformPoint({ x: left + share * width, y });
      return [...this.getImageData(Math.round(place.x), Math.round(place.y), 1, 1).data].join();
    });
    if (words.trim()) found.set([this.fillStyle, this.globalAlpha, ...under, words].join("|"), words);
    return fillText.call(this, words, x, y, ...rest);
  };
})();
"""
TAKEN = "() => { const found = [...window.drawn]; window.drawn.clear(); return found; }"
Colour = tuple[float, float, float]


def channels(colour: str) -> tuple[Colour, float]:
    """#rrggbb, rgb(…) and rgba(…) as three channels and an opacity."""
    if colour.startswith("#"):
        red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
        return (red, green, blue), 1.0
    red, green, blue, *opacity = (float(part) for part in re.findall(r"[\d.]+", colour))
    return (red, green, blue), opacity[0] if opacity else 1.0


def over(top: Colour, opacity: float, below: Colour) -> Colour:
    red, green, blue = (opacity * a + (1 - opacity) * b for a, b in zip(top, below, strict=True))
    return red, green, blue


def light(colour: Colour) -> float:
    """Relative luminance (WCAG 2.2)."""
    linear = [part / 255 / 12.92 if part <= 10.31 else ((part / 255 + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Colour, other: Colour) -> float:
    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)


def drawn(page: Page, background: str) -> list[tuple[str, float]]:
    """Each text that was drawn since the last call, and its contrast, on a page of this colour.

    A line or a letter under a part of it is not what it is read against: the middle one of the five places counts.
    """
    found = []
    for look, words in page.evaluate(TAKEN):
        colour, faint, *under = look.split("|")[:7]
        top, opacity = channels(colour)
        ratios = []
        for pixel in under:
            red, green, blue, alpha = (float(part) for part in pixel.split(","))
            below = over((red, green, blue), alpha / 255, channels(background)[0])
            ratios.append(contrast(over(top, opacity * float(faint), below), below))
        found.append((words, sorted(ratios)[2]))
    return found
