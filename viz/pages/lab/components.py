"""Plots that the laboratory alone has: matrices that are typed into, vectors that are dragged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from viz.components.plots import Plot, Table, crossed, known
from viz.components.registry import component
from viz.components.view import Answer
from viz.i18n.catalogue import _

BLUE, VERMILION, GREEN, PURPLE = (0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167)
WEIGHT, PLAIN, ERROR = (92, 124, 250), (128, 128, 128), (230, 159, 0)


@dataclass(frozen=True)
class Matrix:
    """One of a calculation. values: None where it is typed; then `first` is the place of its first cell among all
    texts. colour: red, green, blue. top: the value that is drawn darkest, if not its largest.
    """

    name: str
    formula: str
    colour: tuple[int, int, int]
    values: NDArray[Any] | None = None
    _: KW_ONLY
    rows: Sequence[str]
    columns: Sequence[str]
    first: int = -1
    top: float = 0.0


@dataclass
class Matrices(Plot):
    """Lines of matrices, each line under its title; what is typed puts {texts: of all cells} into the state as `edit`.

    texts: of all typed cells; none: nothing is typed. wrong: the place of one that is no number, or -1; sentence_wrong:
    of it. The table has what is computed.
    """

    COMPONENT = staticmethod(component("pages/lab/matrices"))
    ANSWERS: ClassVar[Sequence[str]] = ("edit",)

    matrices: Mapping[str, Sequence[Matrix]]
    texts: Sequence[str] = ()
    on_edit: Answer | None = None
    wrong: int = -1
    sentence_wrong: str = ""

    def computed(self) -> list[tuple[Matrix, NDArray[Any]]]:
        return [(each, each.values) for line in self.matrices.values() for each in line if each.values is not None]

    def header(self) -> dict[str, Any]:
        lines = [
            {"title": title, "matrices": [known(each, "values") for each in line]}
            for title, line in self.matrices.items()
        ]
        typed = {"texts": list(self.texts), "wrong": self.wrong, "sentence_wrong": self.sentence_wrong}
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


@dataclass
class Vectors(Plot):
    """Vectors in the plane, the query first; moving one puts {places: x and y of each} into the state as `move`."""

    COMPONENT = staticmethod(component("pages/lab/vectors"))
    ANSWERS: ClassVar[Sequence[str]] = ("move",)

    places: Mapping[str, tuple[float, float]]
    colours: Sequence[str]
    on_move: Answer
    _: KW_ONLY
    tall: int

    def header(self) -> dict[str, Any]:
        described = zip(self.places.items(), self.colours, strict=True)
        vectors = [{"name": name, "place": list(place), "colour": colour} for (name, place), colour in described]
        return {"vectors": vectors, "tall": self.tall}

    def titles(self) -> Sequence[str]:
        return _("vector"), "x", "y"

    def lines(self) -> Table:
        return [(name, *place) for name, place in self.places.items()]

    def summary(self) -> str:
        return "; ".join(f"{name} = ({x:g}, {y:g})" for name, (x, y) in self.places.items())
