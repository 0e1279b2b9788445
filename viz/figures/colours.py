"""One colour for one thing wherever it is drawn. viz/web/colours.js and viz/web/common.css hold the same."""

from __future__ import annotations

# Of attention: Okabe and Ito's colours for its four, and the blue of its weights, which nothing else has.
QUERY, KEY, VALUE, OUTPUT = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
ATTENTION = "#5c7cfa"
LOSS = "#8c6d31"
PLAIN = "#7a8190"  # what stands by itself, and has no colour of its own
RESIDUAL = "#808296"
EXPECTED = "#888888"  # and what it is compared with
DIFFERENCE = ("#963cbe", "#008c6e")  # from the pinned trace, below 0 and above
PINNED = DIFFERENCE[0]  # the pinned trace, wherever it is drawn beside
RIGHT, WRONG, NOTICE = "#00875f", "#e03131", "#f59f00"
# Several of a kind, in their order: no blue, which is attention's; one alone is plain.
FIRST, SECOND, THIRD, FOURTH, FIFTH = "#e69f00", "#2a9d8f", "#8a63d2", "#cc6677", "#a0522d"
SERIES = (FIRST, SECOND, THIRD, FOURTH, FIFTH, "#8a9a3c", "#706f6b", "#b8860b", "#c71585", "#94795d")
BLUE = (195, 260)  # hues that are attention's
FIRST_HUE, GOLDEN = (
    40,
    112.7,
)  # of the circle without them: the first run's, which is its loss's, and the way to the next


def hue(number: int, turn: float = 0.0) -> int:
    """The colour of a run, or of a layer; far from that of the one before, and no blue, which is attention's. turn: to
    another figure of the same run, in degrees.
    """
    without_blue = (360 + FIRST_HUE - BLUE[1] + (number - 1) * GOLDEN + turn) % (360 - BLUE[1] + BLUE[0])
    return round(BLUE[1] + without_blue) % 360


def channels(colour: str) -> tuple[int, int, int]:
    """Red, green and blue of "#rrggbb"."""
    red, green, blue = bytes.fromhex(colour[1:])
    return red, green, blue
