"""Components of the laboratory's arithmetic: matrices that are typed into, vectors that are dragged.

Each function packs its data and returns what mounts it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viz.components.plots import Mount
from viz.components.registry import component, pack

_matrices = component("matrices", "plot", "picture")
_vectors = component("vectors", "plot")


@dataclass(frozen=True)
class Matrix:
    """One of a calculation. values: None where it is typed; then `first` is the place of its first cell among all
    texts. colour: red, green, blue. top: the value that is drawn darkest, if not its largest.
    """

    name: str
    formula: str
    colour: tuple[int, int, int]
    rows: Sequence[str]
    columns: Sequence[str]
    values: NDArray[Any] | None = None
    first: int = -1
    top: float = 0.0


def matrices(
    lines: Sequence[tuple[str, Sequence[Matrix]]],
    texts: Sequence[str],
    header: Mapping[str, Any],
    key: str,
    on_edit: Callable[[], None],
) -> Mount:
    """Lines of matrices, each line under its title; what is typed puts {texts: of all cells} into the state as `edit`.

    header: `name`, `sentence`; `wrong`, the place of a cell that is no number, or -1, and `sentence_wrong` of it;
    `file`, `stamp`, `words`, {download, csv: of four columns, row, column}.
    """
    arrays = [np.asarray(each.values, np.float32) for _title, line in lines for each in line if each.values is not None]
    described = [
        {"title": title, "matrices": [{k: v for k, v in vars(each).items() if k != "values"} for each in line]}
        for title, line in lines
    ]
    data = pack({**header, "lines": described, "texts": list(texts)}, arrays)
    return partial(_matrices, data=data, key=key, on_edit_change=on_edit)


def vectors(header: Mapping[str, Any], key: str, on_move: Callable[[], None]) -> Mount:
    """Vectors in the plane; moving one puts {places: x and y of each} into the state as `move`.

    header: `vectors`, the query first, each {name, place: [x, y], colour}; the rest as of a heatmap; `words.csv` of 3
    and `words.drag`.
    """
    return partial(_vectors, data=pack(header), key=key, on_move_change=on_move)
