"""Curves and tables of numbers, as plotly figures that can be zoomed."""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Float
from numpy import ndarray
from plotly.subplots import make_subplots

from viz.components.registry import component, pack
from viz.components.view import PackedView, View
from viz.figures.colours import KEY, QUERY, SERIES
from viz.figures.figure import Caption
from viz.i18n.format import power_text, significant
from viz.render.renderer import about_header
from viz.render.view import about_click

if TYPE_CHECKING:
    from numpy.typing import NDArray

GRID = "rgba(128,128,128,0.22)"
DOTS = 50  # positions along a plane, and along a panel: where there are more, dots would be a band
DOTS_OF_PANEL = 32
PANEL, ABOVE = 96, 42  # pixels of a panel's height, and of the room for its titles
DECIMALS, DIGITS = ",.4~f", ",.4~r"  # of what is pointed at, on linear axes and on logarithmic ones
POWERS = range(-20, 21)  # of ten beside a logarithmic axis
DIVERGING = [[0, KEY], [0.5, "rgba(128,128,128,0)"], [1, QUERY]]


@dataclass(frozen=True)
class Curve:
    """A line through the points (xs, ys); dots: only these. fine: (xs, ys) of the line, where more is known."""

    name: str
    xs: Float[ndarray, points]
    ys: Float[ndarray, points]
    colour: int
    dash: bool = False
    dots: bool = False
    width: float = 1.8
    fine: tuple[Float[ndarray, between], Float[ndarray, between]] | None = None


@dataclass(frozen=True)
class Panel:
    """A small plane among others. row: what it has in common with those beside it."""

    row: str
    title: str
    curves: Sequence[Curve]


def colour(number: int) -> str:
    """A colour for each curve, readable on light and on dark."""
    return SERIES[number % len(SERIES)]


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
    for trace in _traces(curves, _longest(curves) <= DOTS, log_y):
        figure.add_trace(trace)
    if mark is not None:
        figure.add_vline(mark, line={"color": "rgba(128,128,128,0.8)", "width": 1, "dash": "dot"})
    _lay_out(figure, x_title, y_title)
    if until is not None:
        figure.update_xaxes(range=[0, until])
    _scale(figure, log_y)
    return figure


def panel_figure(panels: Sequence[Panel], columns: int, x_title: str, y_title: str, log_y: bool = False) -> go.Figure:
    """The panels, so many in a row, all with the same axes. A legend has each name once, if a panel has several."""
    rows = math.ceil(len(panels) / columns)
    height = rows * (PANEL + ABOVE) - ABOVE
    gaps = {"horizontal_spacing": 0.03, "vertical_spacing": ABOVE / height if rows > 1 else 0}
    figure = make_subplots(rows, columns, shared_xaxes="all", shared_yaxes="all", **gaps)
    several = any(len(panel.curves) > 1 for panel in panels)
    few = max(_longest(panel.curves) for panel in panels) <= DOTS_OF_PANEL
    known: set[str] = set()
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        for trace in _traces(panel.curves, few, log_y):
            trace.update(showlegend=several and trace.mode == "lines" and trace.name not in known)
            known.add(trace.name)
            figure.add_trace(trace, row + 1, column + 1)
        if column == 0 and panel.row:
            _write(figure, f"<b>{html.escape(panel.row)}</b>", 0, 1 - row * (PANEL + ABOVE) / height, 17)
        figure.update_xaxes(showticklabels=number + columns >= len(panels), row=row + 1, col=column + 1)
        left = figure.get_subplot(row + 1, column + 1).xaxis.domain[0]
        _write(figure, html.escape(panel.title), left, 1 - row * (PANEL + ABOVE) / height, 1)
    _lay_out(figure, "", "")
    figure.update_layout(
        height=height + ABOVE + (78 if several else 54),
        margin={"l": 8, "r": 8, "t": ABOVE + (30 if several else 6), "b": 48},
        legend={"yref": "container", "y": 1, "yanchor": "top"},
    )
    middle = {"xref": "paper", "x": 0.5, "showarrow": False, "yref": "paper", "y": 0, "yshift": -44}
    figure.add_annotation(text=html.escape(f"{y_title} · {x_title} →"), **middle)
    _scale(figure, log_y)
    return figure


def _traces(curves: Sequence[Curve], few: bool, log_y: bool) -> Iterator[go.Scatter]:
    """The line of each curve, and, where few, its points as dots; of a curve of dots these alone."""
    number = DIGITS if log_y else DECIMALS
    for curve in curves:
        same = {
            "name": html.escape(curve.name),
            "legendgroup": html.escape(curve.name),
            "hovertemplate": f"%{{fullData.name}}<br>%{{x:{DECIMALS}}}: %{{y:{number}}}<extra></extra>",
        }
        drawn = {"color": colour(curve.colour)}
        line = {**drawn, "width": curve.width, "dash": "dash" if curve.dash else "solid"}
        dots = go.Scatter(x=curve.xs, y=curve.ys, mode="markers", marker={**drawn, "size": 3 + curve.width}, **same)
        if curve.dots:
            yield dots.update(line=line, showlegend=True)
            continue
        xs, ys = curve.fine or (curve.xs, curve.ys)
        yield go.Scatter(x=xs, y=ys, mode="lines", line=line, showlegend=True, **same)
        if curve.fine and few:
            yield dots.update(showlegend=False)


def _longest(curves: Sequence[Curve]) -> int:
    return max((len(curve.xs) for curve in curves), default=0)


def _write(figure: go.Figure, text: str, x: float, y: float, up: int) -> None:
    """Words that begin at this place of the paper, so many pixels above it."""
    place = {"xref": "paper", "yref": "paper", "x": x, "y": y, "yshift": up, "xanchor": "left", "yanchor": "bottom"}
    figure.add_annotation(text=text, showarrow=False, font={"size": 11}, borderpad=0, **place)


def _scale(figure: go.Figure, log_y: bool) -> None:
    decades = {"tickvals": [10.0**power for power in POWERS], "ticktext": list(map(_power, POWERS))}
    figure.update_yaxes(**{"type": "log", **decades} if log_y else {"type": "linear", "exponentformat": "none"})


def _power(power: int) -> str:
    """A power of ten as axes have it."""
    return significant(10.0**power) if power < 5 else power_text(power)


def table_figure(values: Float[ndarray, "row column"], x_title: str, y_title: str, top: float = 1.0) -> go.Figure:
    """A table whose rows go down, its values from −top to top in two hues."""
    pointed = f"{html.escape(y_title)} %{{y}}, {html.escape(x_title)} %{{x}}"
    figure = go.Figure(
        go.Heatmap(
            z=values.astype(np.float32),
            zmin=-top,
            zmax=top,
            colorscale=DIVERGING,
            colorbar={"thickness": 10, "outlinewidth": 0},
            hovertemplate=f"{pointed}<br>%{{z:{DECIMALS}}}<extra></extra>",
        )
    )
    _lay_out(figure, x_title, y_title)
    figure.update_yaxes(autorange="reversed")
    return figure


def _letter(letter: str) -> float:
    """CSS pixels of a letter of a legend."""
    return 12.5 if unicodedata.east_asian_width(letter) in "WF" else 6.3


def _lay_out(figure: go.Figure, x_title: str, y_title: str) -> None:
    names = [html.unescape(each.name or "") for each in figure.data if each.showlegend]
    wide = max((sum(map(_letter, name)) for name in names), default=0)  # names stand below each other in columns
    figure.update_layout(
        height=320,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.01, "x": 0, "entrywidth": wide, "tracegroupgap": 0},
        hoverlabel={"align": "left"},  # its colours are in frame.css
    )
    figure.update_xaxes(title_text=html.escape(x_title), gridcolor=GRID, zeroline=False, separatethousands=True)
    figure.update_yaxes(title_text=html.escape(y_title), gridcolor=GRID, zerolinecolor=GRID, separatethousands=True)


# Heading of a plotly figure: its title, and the menu of its files.

_figure_files = component("pages/positions/figure_files")


def figure_files(arrays: Sequence[NDArray[np.float32]], header: Mapping[str, Any], key: str, above: Caption) -> View:
    """The title of the plotly figure in the same container, and the menu of its files.

    arrays: x and y of each of the header's `curves`, or one table with so many `columns`. header:
    `words`, {download, csv: the names of the three columns}. above: its name and its file, and what its "?" says.
    """
    named = {"name": above.name, "file": above.file, **about_header(above)}
    return PackedView(_figure_files, key, pack({**header, **named}, arrays), about_click(key, above))
