"""Plots that several pages mount: a heatmap, lines from token to token, a chart, small matrices side by side.

A plot is packed when it is made and mounted when it is called: a page makes all its plots before it mounts the first,
so that the browser gets everything at once and paints it in one frame. Its table has the numbers that it draws, as the
CSV of its menu.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from viz.components.registry import component, pack
from viz.components.view import Answer, View, live
from viz.i18n.catalogue import _
from viz.i18n.format import in_turn, significant, stopped
from viz.state.pieces import merged
from viz.state.session import current_session

if TYPE_CHECKING:
    from pandas import DataFrame

    from model.analysis.pieces import Pieces

Table = list[tuple[Any, ...]]  # its lines
LEVELS = 65532  # of a thumbnail's value in 16 bits; the next say that a cell is not comparable, hidden, or not finite
ODD = 3  # among visible cells (1), masked ones (0) and hidden ones (2): not a number, or infinite
NAMED = 6  # series whose ends a chart's alternative text says


def words(*columns: str, **more: str) -> dict[str, Any]:
    """Words that every plot needs; columns: of its CSV."""
    return {
        "masked": _("masked"),
        "missing": _("this token is not in the pinned text"),
        "odd": _("not a number, or infinite"),
        "odd_count": _("not a number, or infinite: {count}"),
        "unnamed": _("{count} names have no room: point at their dots"),
        "download": _("Download"),
        "csv": list(columns),
        **more,
    }


@dataclass(frozen=True)
class Axis:
    """An axis of tokens, layers or numbers.

    labels: of rows, columns or places, in their order. side: whose tokens they are, so that one that is pointed at is
    lit in every plot. places: the tokens of that side, where labels are not they in their order; -1 for none. log, low,
    high, zero (begin there): of numbers.
    """

    title: str
    labels: Sequence[str] | None = None
    side: str | None = None
    places: Sequence[int] | None = None
    log: bool | None = None
    low: float | None = None
    high: float | None = None
    zero: bool | None = None


@dataclass(frozen=True)
class Scale:
    """Colours of values from `low` to `high`, diverging where low is negative; of differences from the pin.

    floor: where it goes by the logarithm, the least size that has a colour, on both sides of 0.
    """

    low: float
    high: float
    title: str = ""
    difference: bool = False
    floor: float | None = None


def known(thing: Any, *arrays: str) -> dict[str, Any]:
    """What is known of an axis, a scale, a series or a panel, for the browser; without its arrays."""
    names = (each.name for each in fields(thing) if each.name not in arrays)
    return {name: value for name in names if (value := getattr(thing, name)) is not None}


@dataclass(frozen=True)
class About:
    """What a plot shows, for who presses its "?": a sentence, formulas in LaTeX, and what computed it."""

    sentence: str
    formulas: Sequence[str] = ()
    ran: Sequence[Any] = ()


@dataclass(frozen=True)
class Heading:
    """What a plot is called, and what stands above it.

    file: the name of what is saved. stamp: what was painted, so that another drawing is known. note: numbers at its
    end. sentence: below the name. alt: for screen readers, made of these and the plot's numbers where it is empty.
    about: behind its "?".
    """

    name: str
    file: str
    stamp: str
    note: str = ""
    sentence: str = ""
    alt: str = ""
    about: About | None = None

    @property
    def told(self) -> dict[str, str]:
        """What the browser knows of its "?", as a part of the header."""
        return {} if self.about is None else {"about": self.about.sentence}

    @property
    def asked(self) -> dict[str, Answer]:
        """What pressing it does, among the view's acts."""
        return {} if self.about is None else {"about": self._ask}

    def _ask(self, _when: float) -> None:
        current_session().explained = self


@dataclass
class Plot(View, ABC):
    """A picture of a page. chosen: the framed row or band. words: more than every plot needs, by their keys.

    Where pieces are shown as one, it is made of its values so: each run of tokens is a row, a column or a place.
    summed: values are added up over the columns, or places, of a run, as weights to them are. apart: of the pieces in
    any case.
    """

    COMPONENT: ClassVar[Callable[..., Any]]
    ANSWERS: ClassVar[Sequence[str]] = ()  # what can be clicked; `on_NAME` is what a click does

    key: str
    heading: Heading
    chosen: int = field(default=-1, kw_only=True)
    words: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    summed: bool = field(default=False, kw_only=True)
    apart: bool = field(default=False, kw_only=True)
    data: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.component = type(self).COMPONENT
        self.acts = {name: getattr(self, f"on_{name}") for name in self.ANSWERS}
        if not self.apart:
            self.merge()
        heading = self.heading
        alt = heading.alt or in_turn(stopped(f"{heading.name}: {self.summary()}"), heading.note)
        said = {"alt": alt, "chosen": self.chosen, "words": words(*self.titles(), **self.words)}
        self.acts = {**self.acts, **heading.asked}
        self.data = pack(known(heading, "about") | heading.told | said | self.header(), self.arrays())

    def table(self) -> DataFrame:
        """The numbers that are drawn, a line each."""
        import pandas

        return pandas.DataFrame(self.lines(), columns=list(self.titles()))

    def merge(self) -> None:
        """Make it of the runs of tokens on its axes, if it has such; a click is answered with a run's first token."""

    @abstractmethod
    def header(self) -> dict[str, Any]:
        """What the script draws besides the arrays."""

    @abstractmethod
    def titles(self) -> Sequence[str]:
        """Names of the table's columns."""

    @abstractmethod
    def lines(self) -> Table:
        """Lines of the table."""

    def arrays(self) -> Sequence[NDArray[Any]]:
        return ()

    def summary(self) -> str:
        """The numbers in a few words."""
        return self.heading.sentence


def runs_on(axis: Axis) -> Pieces | None:
    """The runs of the tokens on an axis, where pieces are shown as one; None where it has others, or none."""
    if axis.side not in ("source", "target") or axis.labels is None or axis.places is not None:
        return None
    runs, labels = merged(current_session()).get(axis.side), list(axis.labels)
    if runs is None or (len(labels) - len(runs.tokens) not in (0, 1) and labels != runs.tokens[: len(labels)]):
        return None
    return runs.of_first(len(labels))


def in_runs(axis: Axis, runs: Pieces | None, of_last: bool = False) -> Axis:
    """The axis with a label for each run; of_last: where the axis says more than the tokens, that of the last."""
    if runs is None:
        return axis
    own = list(axis.labels or ())
    labels = [
        own[runs.of(run)[-1]] if of_last else label or own[runs.firsts[run]] for run, label in enumerate(runs.labels)
    ]
    return replace(axis, labels=runs.labels if own == runs.tokens else labels)


def to_first(act: Answer, axes: Mapping[str, Pieces | None]) -> Answer:
    """An answer that gets tokens for runs. axes: the runs that each number of a click is of; "": a click is one."""

    def told(clicked: Any) -> None:
        for name, runs in axes.items():
            at = int(clicked[name] if name else clicked)
            if runs is not None and 0 <= at < len(runs):
                clicked = {**clicked, name: runs.firsts[at]} if name else runs.firsts[at]
        act(clicked)

    return as_live(act, told)


def as_live(act: Answer, told: Answer) -> Answer:
    """`told`, which the channel gives where it gives `act`."""
    return live(told) if getattr(getattr(act, "func", act), "live", False) else told


def place_of(runs: Pieces | None, token: int) -> int:
    """Where a token stands on an axis; what is none stays."""
    return token if runs is None or not 0 <= token < len(runs.run_of) else runs.run_of[token]


def merged_values(
    values: NDArray[Any], rows: Pieces | None, columns: Pieces | None, join: Callable[[Pieces], Callable[..., Any]]
) -> NDArray[Any]:
    """Values (row, column) of runs. join: what is made of a run's, on both axes."""
    import torch

    found = torch.from_numpy(np.ascontiguousarray(values))
    for runs, axis in ((rows, 0), (columns, 1)):
        if runs is not None:
            found = join(runs)(found, axis)
    made: NDArray[Any] = found.numpy()
    return made


def averaged(
    values: NDArray[np.float32], rows: Pieces | None, columns: Pieces | None, summed: bool
) -> NDArray[np.float32]:
    """Means of values (row, column) over the rows and columns of runs; summed: over the columns their sums."""
    found = merged_values(values, rows, None, lambda runs: runs.mean)
    return merged_values(found, None, columns, lambda runs: runs.sum if summed else runs.mean)


class PlotTable(NamedTuple):
    """The table of a plot, and the name of its file."""

    file: str
    make: Callable[[], DataFrame]


def plot_tables(views: Iterable[View]) -> dict[str, PlotTable]:
    """By its name, the table of each plot among these."""
    return {plot.heading.name: PlotTable(plot.heading.file, plot.table) for plot in views if isinstance(plot, Plot)}


def span(values: NDArray[Any]) -> tuple[str, str]:
    """The least and the largest finite value as they are written; "?" where there is none."""
    finite = values[np.isfinite(values)]
    return (significant(float(finite.min())), significant(float(finite.max()))) if finite.size else ("?", "?")


@dataclass
class Heatmap(Plot):
    """Values (row, column) large, with labels and a colour bar; a click on a row, or on a cell, is answered.

    _: KW_ONLY
    visible: False on masked cells, 2 on those that the threshold hides; a difference that is not a number has no
    counterpart and is hatched too, and what else is not finite has a mark of its own. tokens: {side, labels, places},
    where cells are tokens. block: how many tokens a row and a column stand for, if not 1. highest, wanted: CSS pixels
    of all rows together, where those are thin, or the text is short. square: cells as high as wide. column: a framed
    column. texts: words inside the cells; texts_title: of their column. valued: below the words stand the values.
    cell_titles: of the table's columns for row, column and value, where axes and scale are called otherwise.
    """

    COMPONENT = staticmethod(component("web/heatmap"))
    ANSWERS: ClassVar[Sequence[str]] = ("row", "cell")

    values: NDArray[np.float32]
    rows: Axis
    columns: Axis
    scale: Scale
    visible: NDArray[np.bool_] | NDArray[np.uint8] | None = None
    column: int = -1
    tokens: Mapping[str, Any] | None = None
    block: tuple[int, int] | None = None
    highest: int | None = None
    wanted: int | None = None
    square: bool = False
    texts: Sequence[str] | None = None
    valued: bool | None = None
    texts_title: str = ""
    cell_titles: Sequence[str] = ()
    on_row: Answer | None = None
    on_cell: Answer | None = None

    def merge(self) -> None:
        rows, columns = runs_on(self.rows), runs_on(self.columns)
        if rows is None and columns is None:
            return
        if self.texts is not None:  # words cannot be averaged: those of the last token, and its number
            places = np.arange(self.values.size).reshape(self.values.shape)
            kept = merged_values(places, rows, columns, lambda runs: runs.last)
            self.texts, self.values = [self.texts[at] for at in kept.ravel()], self.values.ravel()[kept]
        else:
            self.values = averaged(self.values, rows, columns, self.summed)
        if self.visible is not None:
            self.visible = merged_values(self.visible, rows, columns, lambda runs: runs.largest)
        of_last = self.texts is not None
        self.rows, self.columns = in_runs(self.rows, rows, of_last), in_runs(self.columns, columns, of_last)
        self.chosen, self.column = place_of(rows, self.chosen), place_of(columns, self.column)
        axes = {"row": {"": rows}, "cell": {"row": rows, "column": columns}}
        self.acts = {name: act and to_first(act, axes[name]) for name, act in self.acts.items()}

    def header(self) -> dict[str, Any]:
        shape = {"column": self.column, "square": self.square, "cells": self.on_cell is not None}
        some = {name: getattr(self, name) for name in ("tokens", "block", "highest", "wanted", "texts", "valued")}
        sides = {"rows": known(self.rows), "columns": known(self.columns), "scale": known(self.scale)}
        odd = {"odd": count} if (count := self.odd()) else {}
        return shape | {name: value for name, value in some.items() if value is not None} | sides | odd

    def arrays(self) -> Sequence[NDArray[Any]]:
        return self._cells

    @cached_property
    def _cells(self) -> Sequence[NDArray[Any]]:
        """Values, and what each cell is."""
        values = np.asarray(self.values, np.float32)
        visible = np.ones(values.shape, np.uint8) if self.visible is None else self.visible.astype(np.uint8)
        if not np.isfinite(values).all():
            odd = np.isinf(values) if self.scale.difference else ~np.isfinite(values)
            visible = np.where(odd & (visible == 1), np.uint8(ODD), visible)
        return [values, visible]

    def odd(self) -> int:
        """Number of drawn cells that are not finite."""
        return int((self.arrays()[1] == ODD).sum())

    def titles(self) -> Sequence[str]:
        of_cells = self.cell_titles or (self.rows.title, self.columns.title, self.scale.title)
        return *of_cells, _("masked"), *(() if self.texts is None else (self.texts_title,))

    def lines(self) -> Table:
        values, visible = self.arrays()
        cells = crossed(self.rows.labels or (), self.columns.labels or (), values, visible)
        texts = [()] * values.size if self.texts is None else [(text,) for text in self.texts]
        return [(*cell, not seen, *text) for (*cell, seen), text in zip(cells, texts, strict=True)]

    def summary(self) -> str:
        rows, columns = self.values.shape
        low, high = span(self.values)
        sentence = _("{quantity} from {low} to {high}; {rows} × {columns} ({row} × {column})")
        titles = {"quantity": self.scale.title, "row": self.rows.title, "column": self.columns.title}
        said = sentence.format(low=low, high=high, rows=rows, columns=columns, **titles)
        return f"{said}; {words()['odd_count'].format(count=count)}" if (count := self.odd()) else said


@dataclass
class Lines(Heatmap):
    """A heatmap's values as lines from tokens to tokens, in a colour, [red, green, blue]."""

    COMPONENT = staticmethod(component("web/lines"))
    ANSWERS: ClassVar[Sequence[str]] = ("row",)

    _: KW_ONLY
    colour: Sequence[int]

    def header(self) -> dict[str, Any]:
        return super().header() | {"colour": list(self.colour)}


def crossed(
    rows: Sequence[str], columns: Sequence[str], values: NDArray[Any], visible: NDArray[Any]
) -> Iterable[tuple[Any, ...]]:
    """Of each cell its row, its column, its value, whether it is visible."""
    names = (np.repeat(np.array(rows, object), len(columns)).tolist(), list(columns) * len(rows))
    return zip(*names, values.ravel().tolist(), visible.ravel().tolist(), strict=True)


@dataclass(frozen=True)
class Series:
    """Places `xs` and values `ys` of a chart, as "line", "bars" or "dots"; over tokens a place is a token's number.

    labels: of dots. side: of dots that are its tokens, in their order. colours: of single bars or dots, where they are
    not the series' own. quiet: not in the legend.
    """

    name: str
    xs: NDArray[Any]
    ys: NDArray[Any]
    colour: str
    mark: str = "line"
    dash: bool = False
    quiet: bool = False
    labels: Sequence[str] | None = None
    side: str | None = None
    colours: Sequence[str] | None = None


@dataclass
class Chart(Plot):
    """Series over tokens, layers or numbers; a click on a place is answered.

    marks: {x, text}, lines at places of a numeric axis. tall: CSS pixels of the plane. of, place: titles of the table's
    first two columns, where they are not "series" and the x axis's.
    """

    COMPONENT = staticmethod(component("web/chart"))
    ANSWERS: ClassVar[Sequence[str]] = ("place",)

    series: Sequence[Series]
    x: Axis
    y: Axis
    _: KW_ONLY
    tall: int
    marks: Sequence[Mapping[str, Any]] = ()
    of: str = ""
    place: str = ""
    on_place: Answer | None = None

    def merge(self) -> None:
        runs = runs_on(self.x)
        if runs is None:
            return
        self.series = [self._in_runs(each, runs) for each in self.series]
        self.x = in_runs(self.x, runs)
        self.chosen = place_of(runs, self.chosen)
        self.acts = {name: act and to_first(act, {"index": runs}) for name, act in self.acts.items()}

    def _in_runs(self, series: Series, runs: Pieces) -> Series:
        """A series over tokens, over their runs: of each, what is known of its tokens."""
        at = np.array(runs.run_of)[series.xs.astype(int)]
        places, ys = np.unique(at), np.asarray(series.ys, np.float64)
        known = [ys[(at == place) & ~np.isnan(ys)] for place in places]
        join = np.sum if self.summed else np.mean
        found = np.array([join(each) if each.size else np.nan for each in known])
        colours = series.colours and [series.colours[int(np.argmax(at == place))] for place in places]
        return replace(series, xs=places, ys=found, colours=colours)

    def header(self) -> dict[str, Any]:
        series = [known(each, "xs", "ys") for each in self.series]
        marks = {"marks": list(self.marks)} if self.marks else {}
        return {"x": known(self.x), "y": known(self.y), "tall": self.tall, "series": series, **marks}

    def arrays(self) -> Sequence[NDArray[Any]]:
        return [np.asarray(axis, np.float32) for each in self.series for axis in (each.xs, each.ys)]

    def titles(self) -> Sequence[str]:
        return self.of or _("series"), self.place or self.x.title, self.y.title

    def lines(self) -> Table:
        labels, arrays = self.x.labels, self.arrays()
        lines: Table = []
        for each, xs, ys in zip(self.series, arrays[::2], arrays[1::2], strict=True):
            places = each.labels or ([labels[int(x)] for x in xs] if labels else xs.tolist())
            lines += [(each.name, place, y) for place, y in zip(places, ys.tolist(), strict=True)]
        return lines

    def summary(self) -> str:
        said = [(each.name, *span(np.asarray(each.ys))) for each in self.series if not each.quiet]
        ends = "; ".join(f"{name} {low} … {high}" for name, low, high in said[:NAMED])
        return _("{quantity} over {places}: {series}").format(quantity=self.y.title, places=self.x.title, series=ends)


@dataclass(frozen=True)
class Panel:
    """A matrix among others: values (row, column), None for a mask; visible, False on hidden cells; changed cells.

    name, note: above it. summed: values are added up over the columns of a run of pieces. scale: none for a mask.
    pinned: it is of the pinned trace, NaN where that has no such token.
    line: panels of another line begin a new one. chosen: a framed row. framed: a framed cell. choose: it can be
    clicked. joined: what stands between a cell's labels where it is pointed at.
    """

    name: str
    rows: Axis
    columns: Axis
    visible: NDArray[np.bool_]
    values: NDArray[np.float32] | None = None
    _: KW_ONLY
    changed: NDArray[np.bool_] | None = None
    note: str = ""
    scale: Scale | None = None
    pinned: bool | None = None
    line: int = 0
    chosen: int | None = None
    framed: Sequence[int] | None = None
    choose: bool | None = None
    joined: str | None = None
    summed: bool = False

    def in_runs(self, rows: Pieces | None, columns: Pieces | None) -> Panel:
        """The same matrix with each run of tokens as one."""

        def largest(found: NDArray[np.bool_]) -> NDArray[np.bool_]:
            return merged_values(found, rows, columns, lambda runs: runs.largest)

        values, of_axes = self.values, (rows, columns)
        if values is not None:
            values = averaged(np.asarray(values, np.float32), rows, columns, self.summed)
        return replace(
            self,
            rows=in_runs(self.rows, rows),
            columns=in_runs(self.columns, columns),
            visible=largest(self.visible),
            values=values,
            changed=None if self.changed is None else largest(self.changed),
            chosen=None if self.chosen is None else place_of(rows, self.chosen),
            framed=self.framed and [place_of(*pair) for pair in zip(of_axes, self.framed, strict=True)],
        )

    @property
    def flags(self) -> NDArray[np.uint8]:
        """(row, column): 1 where a cell is visible, and 2 more where it was changed."""
        flags = self.visible.astype(np.uint8)
        return flags if self.changed is None else flags | (2 * self.changed.astype(np.uint8))

    def header(self) -> dict[str, Any]:
        parts = known(self, "visible", "values", "changed", "summed")
        return {name: known(value) if isinstance(value, Axis | Scale) else value for name, value in parts.items()}


@dataclass
class Panels(Plot):
    """Small matrices side by side; a click on a cell is answered, −1 for a whole row's or column's label.

    _: KW_ONLY
    slot: the least width of a panel, cell: the largest of a cell, in CSS pixels. cells: titles of the table's columns
    for row, column, value and masked, where a panel's axes do not say them.
    """

    COMPONENT = staticmethod(component("web/panels"))
    ANSWERS: ClassVar[Sequence[str]] = ("cell",)

    panels: Sequence[Panel]
    slot: int | None = None
    cell: int | None = None
    cells: Sequence[str] = ()
    on_cell: Answer | None = None

    def merge(self) -> None:
        runs = [(runs_on(panel.rows), runs_on(panel.columns)) for panel in self.panels]
        if not any(map(any, runs)):
            return
        self.panels = [panel.in_runs(*of_panel) for panel, of_panel in zip(self.panels, runs, strict=True)]
        act, axes = self.on_cell, [{"row": rows, "column": columns} for rows, columns in runs]
        if act is not None:
            self.acts = {"cell": as_live(act, lambda clicked: to_first(act, axes[int(clicked["panel"])])(clicked))}

    def header(self) -> dict[str, Any]:
        sizes = {name: value for name in ("slot", "cell") if (value := getattr(self, name)) is not None}
        return {**sizes, "panels": [panel.header() for panel in self.panels]}

    def arrays(self) -> Sequence[NDArray[Any]]:
        none = np.zeros((0, 0), np.float32)
        each = ((none if panel.values is None else panel.values, panel.flags) for panel in self.panels)
        return [array for values, flags in each for array in (np.asarray(values, np.float32), flags)]

    def titles(self) -> Sequence[str]:
        return _("panel"), *(self.cells or (_("query"), _("key"), _("value"), _("masked")))

    def lines(self) -> Table:
        lines: Table = []
        for panel in self.panels:
            unknown = panel.scale is None or panel.values is None
            values = np.full(panel.visible.shape, np.nan) if unknown else np.asarray(panel.values, np.float32)
            columns = [label or str(place) for place, label in enumerate(panel.columns.labels or ())]
            cells = crossed(panel.rows.labels or (), columns, values, panel.flags & 1)
            lines += [(panel.name, row, column, value, not seen) for row, column, value, seen in cells]
        return lines

    def summary(self) -> str:
        said = (f"{panel.name} {panel.note}".strip() for panel in self.panels)
        return ". ".join(filter(None, (self.heading.sentence, ", ".join(said))))
