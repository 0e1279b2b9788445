"""Curves and tables of numbers, as plotly figures that can be zoomed."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from numpy import ndarray

from viz.components.registry import component, pack
from viz.components.view import PackedView, View

if TYPE_CHECKING:
    from numpy.typing import NDArray

GRID = "rgba(128,128,128,0.22)"
DIVERGING = [[0, "rgb(213,94,0)"], [0.5, "rgba(128,128,128,0)"], [1, "rgb(0,114,178)"]]


@dataclass(frozen=True)
class Curve:
    """A line through the points (xs, ys); dots: only these."""

    name: str
    xs: Float[ndarray, points]
    ys: Float[ndarray, points]
    colour: int
    dash: bool = False
    dots: bool = False
    width: float = 1.8


def colour(number: int) -> str:
    """A colour for each curve, readable on light and on dark."""
    return f"hsl({(215 + number * 137.5) % 360:.0f}, 62%, 50%)"


def curve_figure(
    curves: Sequence[Curve],
    x_title: str,
    y_title: str,
    log_y: bool = False,
    mark: float | None = None,
    until: float | None = None,
) -> go.Figure:
    """The curves with a legend above; mark: an x that is made out. until: the x up to which it shows them first."""
    figure = go.Figure()
    for curve in curves:
        line = {"color": colour(curve.colour), "width": curve.width, "dash": "dash" if curve.dash else "solid"}
        figure.add_scatter(
            x=curve.xs,
            y=curve.ys,
            name=html.escape(curve.name),
            mode="markers" if curve.dots else "lines",
            line=line,
            marker={"color": colour(curve.colour), "size": 3 + curve.width},
            hovertemplate="%{x:.6g}: %{y:.6g}<extra>%{fullData.name}</extra>",
            showlegend=True,
        )
    if mark is not None:
        figure.add_vline(mark, line={"color": "rgba(128,128,128,0.8)", "width": 1, "dash": "dot"})
    _lay_out(figure, x_title, y_title)
    if until is not None:
        figure.update_xaxes(range=[0, until])
    figure.update_yaxes(type="log" if log_y else "linear", exponentformat="power" if log_y else "none")
    return figure


def table_figure(values: Float[ndarray, "row column"], x_title: str, y_title: str, top: float = 1.0) -> go.Figure:
    """A table whose rows go down, its values from −top to top in two hues."""
    figure = go.Figure(
        go.Heatmap(
            z=values.astype(np.float32),
            zmin=-top,
            zmax=top,
            colorscale=DIVERGING,
            colorbar={"thickness": 10, "outlinewidth": 0},
            hovertemplate=f"{html.escape(y_title)} %{{y}}, {html.escape(x_title)} %{{x}}: %{{z:.6g}}<extra></extra>",
        )
    )
    _lay_out(figure, x_title, y_title)
    figure.update_yaxes(autorange="reversed")
    return figure


def _lay_out(figure: go.Figure, x_title: str, y_title: str) -> None:
    figure.update_layout(
        height=320,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.01, "x": 0},
        hoverlabel={"namelength": -1},
    )
    figure.update_xaxes(title_text=html.escape(x_title), gridcolor=GRID, zeroline=False)
    figure.update_yaxes(title_text=html.escape(y_title), gridcolor=GRID, zerolinecolor=GRID)


# What stands beside a plotly figure: its title, and the menu of its files.

_figure_files = component("figure_files", "plot")


def figure_files(arrays: Sequence[NDArray[np.float32]], header: Mapping[str, Any], key: str) -> View:
    """The title of the plotly figure in the same container, and the menu of its files.

    arrays: x and y of each of the header's `curves`, or one table with so many `columns`. header: `name`, the title;
    `file`, the name of what is saved; `words`, {download, csv: the names of the three columns}.
    """
    return PackedView(_figure_files, key, pack(header, arrays))
