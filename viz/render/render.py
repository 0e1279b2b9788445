"""Figures for a reader."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from viz.figures.figure import Figure
from viz.render import chart, heatmap, panels  # noqa: F401  # their renderers; a page registers those of its own figures
from viz.render.reader import Reader
from viz.render.renderer import RENDERERS, Renderer


def render(figure: Figure, reader: Reader, answered: Iterable[str] = ()) -> Renderer[Any]:
    """The figure for this reader. answered: names of the clicks that do something."""
    return RENDERERS[type(figure)](figure, reader, answered)
