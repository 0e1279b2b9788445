"""Figures that the laboratory alone has: matrices that are typed into, vectors that are dragged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from viz.components.registry import component
from viz.figures.figure import Figure
from viz.i18n.catalogue import _
from viz.render.renderer import Renderer, Table, attributes, crossed, renders


@dataclass(frozen=True)
class Matrix:
    """Matrix of a calculation. values: None where it is typed; then `first` is the place of its first cell among all
    texts. colour: "#rrggbb". top: the value that is drawn darkest, if not its largest.
    """

    name: str
    formula: str
    colour: str
    values: NDArray[Any] | None = None
    _: KW_ONLY
    rows: Sequence[str]
    columns: Sequence[str]
    first: int = -1
    top: float = 0.0


@dataclass(frozen=True, eq=False)
class Matrices(Figure):
    """Lines of matrices, each line under its title; what is typed puts {texts: of all cells} into the state as `edit`.

    texts: of all typed cells; none: nothing is typed. wrong: the place of one that is no number, or -1; sentence_wrong:
    of it. The table has what is computed.
    """

    matrices: Mapping[str, Sequence[Matrix]]
    texts: Sequence[str] = ()
    wrong: int = -1
    sentence_wrong: str = ""


@renders(Matrices)
class MatricesRenderer(Renderer[Matrices]):
    """Lines of matrices; the arrays are of the computed ones."""

    component = component("pages/lab/matrices")
    clicks: ClassVar[Sequence[str]] = ("edit",)

    def computed(self) -> list[tuple[Matrix, NDArray[Any]]]:
        return [
            (each, each.values) for line in self.figure.matrices.values() for each in line if each.values is not None
        ]

    def shape(self) -> dict[str, Any]:
        figure = self.figure
        lines = [
            {"title": title, "matrices": [attributes(each, "values") for each in line]}
            for title, line in figure.matrices.items()
        ]
        typed = {"texts": list(figure.texts), "wrong": figure.wrong, "sentence_wrong": figure.sentence_wrong}
        return {"lines": lines, **typed}

    def arrays(self) -> Sequence[NDArray[Any]]:
        return [np.asarray(values, np.float32) for _matrix, values in self.computed()]

    def titles(self) -> Sequence[str]:
        return _("matrix"), _("row"), _("column"), _("value")

    def lines(self) -> Table:
        return [
            (matrix.name, row, column, value)
            for matrix, values in self.computed()
            for row, column, value, _seen in crossed(matrix.rows, matrix.columns, values, values)
        ]


@dataclass(frozen=True, eq=False)
class Vectors(Figure):
    """Vectors in the plane, the query first; moving one puts {places: x and y of each} into the state as `move`."""

    places: Mapping[str, tuple[float, float]]
    colours: Sequence[str]
    _: KW_ONLY
    tall: int


@renders(Vectors)
class VectorsRenderer(Renderer[Vectors]):
    """Vectors by their names, places and colours."""

    component = component("pages/lab/vectors")
    clicks: ClassVar[Sequence[str]] = ("move",)

    def shape(self) -> dict[str, Any]:
        described = zip(self.figure.places.items(), self.figure.colours, strict=True)
        vectors = [{"name": name, "place": list(place), "colour": colour} for (name, place), colour in described]
        return {"vectors": vectors, "tall": self.figure.tall}

    def titles(self) -> Sequence[str]:
        return _("vector"), "x", "y"

    def lines(self) -> Table:
        return [(name, *place) for name, place in self.figure.places.items()]

    def summary(self) -> str:
        return "; ".join(f"{name} = ({x:g}, {y:g})" for name, (x, y) in self.figure.places.items())
