"""The component of the page Norms and residual; the function packs its data and returns what mounts it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from viz.components.plots import Mount
from viz.components.registry import component, pack

_wiring = component("wiring", "plot")


def wiring(header: Mapping[str, Any], key: str) -> Mount:
    """Ways of placing norm, sublayer, dropout and short cut, one a row, drawn as wires.

    header: `rows`, each {name, formula, own: framed, boxes: [{text, kind: norm, sublayer, dropout or sum}], past: the
    way past the block, "bare", "" for none, or the name of a norm on it}; the rest as of a heatmap, `words.csv` of 3.
    """
    return partial(_wiring, data=pack(header), key=key)
