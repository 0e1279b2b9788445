"""Renderer: what the browser is told of a kind of figure, and its table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from viz.components.registry import Component, pack
from viz.figures.figure import Caption, Figure
from viz.i18n import catalogue
from viz.i18n.catalogue import _
from viz.i18n.format import in_turn, significant, stopped, with_label
from viz.i18n.messages import translated
from viz.render.reader import Reader

if TYPE_CHECKING:
    from pandas import DataFrame

    from model.analysis.pieces import Pieces

Table = list[tuple[Any, ...]]  # its lines
Axes = Mapping[str, "Pieces | None"]  # groups that each number of a click is of; "": a click is one number
F = TypeVar("F", bound=Figure)


class Renderer(ABC, Generic[F]):
    """One figure for one reader: header and arrays for the script of its kind, lines and columns of its table.

    component: mounts it. clicks: names of what can be clicked. `figure` is as this reader sees it: translated, its
    pieces grouped, its differences taken.
    """

    component: ClassVar[Component]
    clicks: ClassVar[Sequence[str]] = ()

    def __init__(self, figure: F, reader: Reader, answered: Iterable[str] = ()) -> None:
        self.answered = frozenset(answered)  # clicks that do something
        with catalogue.speaking(reader.language):
            figure = self.differing(translated(figure), reader.difference)
            self.figure, self.axes = (figure, {}) if figure.ungrouped else self.grouped(figure, reader.groups)
            self.caption, self.columns = self.figure.caption, list(self.titles())
            self.header = self._header()
        self._reader = reader

    def _header(self) -> dict[str, Any]:
        figure, caption = self.figure, self.caption
        first = [stopped(caption.finding)] if caption.finding else []
        alt = caption.alt or in_turn(*first, stopped(with_label(caption.name, self.summary())), caption.note)
        texts = {"alt": alt, "chosen": figure.chosen, "words": words(*self.columns, **figure.words)}
        return attributes(caption, "about") | about_header(caption) | texts | self.shape()

    @property
    def data(self) -> bytes:
        """Header and arrays, packed for the browser."""
        return pack(self.header, self.arrays())

    def table(self) -> DataFrame:
        """Numbers that are drawn, a line each."""
        import pandas

        with catalogue.speaking(self._reader.language):
            return pandas.DataFrame(self.lines(), columns=self.columns)

    @staticmethod
    def differing(figure: F, _difference: bool) -> F:
        """The figure with plain values in the place of compared ones: those of now, or differences from the pin."""
        return figure

    @staticmethod
    def grouped(figure: F, _groups: Mapping[str, Pieces]) -> tuple[F, Mapping[str, Axes]]:
        """The figure with each group of pieces as one token, and the groups on its axes by what can be clicked."""
        return figure, {}

    @abstractmethod
    def shape(self) -> dict[str, Any]:
        """Size of the drawing besides the arrays."""

    @abstractmethod
    def titles(self) -> Sequence[str]:
        """Names of the table's columns."""

    @abstractmethod
    def lines(self) -> Table:
        """Lines of the table."""

    def arrays(self) -> Sequence[NDArray[Any]]:
        return ()

    def summary(self) -> str:
        """The numbers in a few words, for screen readers."""
        return self.caption.sentence


RENDERERS: dict[type[Figure], type[Renderer[Any]]] = {}
Kind = TypeVar("Kind", bound=type[Renderer[Any]])


def renders(kind: type[Figure]) -> Callable[[Kind], Kind]:
    """Decorator of the renderer of a kind of figure."""

    def register(renderer: Kind) -> Kind:
        RENDERERS[kind] = renderer
        return renderer

    return register


def words(*columns: str, **more: str) -> dict[str, Any]:
    """Words that every figure needs in the browser; columns: of its CSV."""
    return {
        "masked": _("masked"),
        "missing": _("this token is not in the pinned text"),
        "odd": _("not a number, or infinite"),
        "odd_count": _("not a number, or infinite: {count}"),
        "unnamed": _("Names without room: {count}; point at their dots, or tap them"),
        "download": _("Download"),
        "copy": _("Copy as Python"),
        "csv": list(columns),
        **more,
    }


def about_header(caption: Caption) -> dict[str, str]:
    """The header's part on the "?" of a figure."""
    return {} if caption.about is None else {"about": caption.about.sentence}


def attributes(part: Any, *arrays: str) -> dict[str, Any]:
    """Attributes of an axis, a scale, a series or a panel, for the browser; without its arrays."""
    names = (each.name for each in fields(part) if each.name not in arrays)
    return {name: value for name in names if (value := getattr(part, name)) is not None}


def span(values: NDArray[Any]) -> tuple[str, str]:
    """The least and the largest finite value as they are written; "?" where there is none."""
    finite = values[np.isfinite(values)]
    return (significant(float(finite.min())), significant(float(finite.max()))) if finite.size else ("?", "?")


def crossed(
    rows: Sequence[str], columns: Sequence[str], values: NDArray[Any], visible: NDArray[Any]
) -> Iterable[tuple[Any, ...]]:
    """Row, column, value and visibility of each cell."""
    names = (np.repeat(np.array(rows, object), len(columns)).tolist(), list(columns) * len(rows))
    return zip(*names, values.ravel().tolist(), visible.ravel().tolist(), strict=True)
