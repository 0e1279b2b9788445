"""Attention weights of one head, large."""

from __future__ import annotations

import html
from collections.abc import Sequence
from unicodedata import east_asian_width

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Bool, Float

HUE = "92, 124, 250"
# Opacity over the page's background: the same picture works on light and dark.
WEIGHT_SCALE = [[0.0, f"rgba({HUE}, 0)"], [1.0, f"rgba({HUE}, 1)"]]
LEGIBLE = 40  # labels on an axis; above that every k-th
LETTERS = 16  # of a label


def attention_heatmap(
    weights: Float[np.ndarray, "query key"],
    visible: Bool[np.ndarray, "query key"],
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    top: float,
    chosen: int,
    words: dict[str, str],
) -> go.Figure:
    """Rows are queries, columns are keys; masked cells hatched; `top` is the weight drawn darkest.

    words: the texts "query", "key", "weight" and "masked" in the language of the page.
    """
    shown = np.where(visible, weights, np.nan)
    hover = f"%{{customdata[0]}} → %{{customdata[1]}}<br>{html.escape(words['weight'])} %{{z:.6f}}<extra></extra>"
    names = np.empty((*weights.shape, 2), dtype=object)
    names[..., 0] = np.array([html.escape(token) for token in queries], dtype=object)[:, None]
    names[..., 1] = np.array([html.escape(token) for token in keys], dtype=object)[None, :]
    gap = 1 if weights.size < 2500 else 0
    heatmap = {
        "type": "heatmap",
        "z": shown.astype(np.float32),
        "customdata": names,
        "hovertemplate": hover,
        "hoverongaps": False,
        "colorscale": WEIGHT_SCALE,
        "zmin": 0,
        "zmax": top,
        "xgap": gap,
        "ygap": gap,
        "colorbar": {"title": {"text": words["weight"], "side": "right"}, "thickness": 12, "outlinewidth": 0},
    }
    row = {"type": "rect", "x0": -0.5, "x1": len(keys) - 0.5, "y0": chosen - 0.5, "y1": chosen + 0.5}
    # Room for the labels is reckoned here: with automargin, Plotly draws everything again once it has measured them.
    axis = {"showgrid": False, "zeroline": False, "automargin": False, "tickfont": {"family": "monospace", "size": 13}}
    across, down = _ticks(keys), _ticks(queries)
    layout = {
        "shapes": [{**row, "line": {"color": "#0072B2", "width": 2}}],
        "xaxis": {
            "title": {"text": words["key"]},
            "side": "top",
            "range": [-0.5, len(keys) - 0.5],
            "tickangle": -45,
            **across,
            **axis,
        },
        "yaxis": {"title": {"text": words["query"]}, "range": [len(queries) - 0.5, -0.5], **down, **axis},
        "margin": {"l": 34 + _width(queries), "r": 78, "t": 40 + round(0.71 * _width(keys)), "b": 10},
        "height": max(380, min(640, 150 + 26 * len(queries))),
    }
    # One call: each update of a figure validates all of it again.
    return go.Figure({"data": [heatmap, *_hatch(visible, words["masked"])], "layout": layout})


def _hatch(visible: Bool[np.ndarray, "query key"], masked: str) -> list[dict[str, object]]:
    """Masked cells as one hatched shape, so that a masked cell is never taken for a 0."""
    x: list[float | None] = []
    y: list[float | None] = []
    for row, cells in enumerate(visible):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], (~cells).astype(np.int8), [0]])))
        for start, end in zip(edges[::2] - 0.5, edges[1::2] - 0.5, strict=True):
            x += [start, end, end, start, start, None]
            y += [row - 0.5, row - 0.5, row + 0.5, row + 0.5, row - 0.5, None]
    if not x:
        return []
    pattern = {"shape": "/", "size": 6, "solidity": 0.25, "fgcolor": "rgba(128,128,128,0.6)"}
    return [
        {
            "type": "scatter",
            "x": x,
            "y": y,
            "fill": "toself",
            "fillpattern": {**pattern, "bgcolor": "rgba(128,128,128,0.12)"},
            "mode": "lines",
            "line": {"width": 0},
            "name": masked,
            "hoveron": "fills",
            "hoverinfo": "name",
            "showlegend": False,
        }
    ]


def _width(tokens: Sequence[str]) -> int:
    """Pixels of the widest label: 8 a character, 14 where it is as wide as it is high (Unicode annex 11)."""
    return max(sum(14 if east_asian_width(letter) in "WF" else 8 for letter in token[:LETTERS]) for token in tokens)


def _ticks(tokens: Sequence[str]) -> dict[str, object]:
    """Numeric axes with tokens as labels: category axes merge repeated tokens, and "<s>" is read as a tag."""
    step = -(-len(tokens) // LEGIBLE)
    places = list(range(0, len(tokens), step))
    return {
        "tickmode": "array",
        "tickvals": places,
        "ticktext": [html.escape(tokens[place][:LETTERS]) for place in places],
    }
