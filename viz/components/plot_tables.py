"""What a plot draws, as the table that its menu saves as CSV: for the places of data under the views."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from viz.components.plots import PlotTable

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pandas import DataFrame

    from viz.components.plots import Mount

# What a plot was sent becomes the lines of its table.
Rows = Callable[[dict[str, Any], "list[NDArray[Any]]"], list[tuple[Any, ...]]]


def unpack(data: bytes) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Header and arrays of what `pack` has made."""
    start = 4 + int.from_bytes(data[:4], "little")
    header = json.loads(data[4:start])
    arrays = []
    for described in header.pop("arrays"):
        count = int(np.prod(described["shape"]))
        flat = np.frombuffer(data, described["type"], count, start + described["offset"])
        arrays.append(flat.reshape(described["shape"]))
    return header, arrays


def plot_tables(mounts: Iterable[Mount]) -> dict[str, PlotTable]:
    """By its name, the table of each of these whose lines are known here."""
    found = {}
    for mount in mounts:
        assert isinstance(mount, partial)
        header, arrays = unpack(mount.keywords["data"])
        if rows := _rows_of(header):
            found[header["name"]] = PlotTable(header["file"], partial(_table, rows, header, arrays))
    return found


def _rows_of(header: dict[str, Any]) -> Rows | None:
    if "series" in header:
        return _points
    if "panels" in header:
        return _panels
    sides = [header.get("rows"), header.get("columns")]
    if all(isinstance(side, dict) for side in sides):
        return _cells
    if all(isinstance(side, list) for side in sides):
        return _ranked
    return _wires if isinstance(sides[0], list) else None


def _table(rows: Rows, header: dict[str, Any], arrays: list[NDArray[Any]]) -> DataFrame:
    import pandas

    columns = list(header["words"]["csv"])
    if rows is _ranked:
        columns += [each["name"] for each in header["columns"]]
    return pandas.DataFrame(rows(header, arrays), columns=columns)


def _points(header: dict[str, Any], arrays: list[NDArray[Any]]) -> list[tuple[Any, ...]]:
    labels = header["x"].get("labels")
    found: list[tuple[Any, ...]] = []
    for index, series in enumerate(header["series"]):
        xs, ys = (each.tolist() for each in arrays[2 * index : 2 * index + 2])
        places = series.get("labels") or ([labels[int(x)] for x in xs] if labels else xs)
        found += [(series["name"], place, y) for place, y in zip(places, ys, strict=True)]
    return found


def _cells(header: dict[str, Any], arrays: list[NDArray[Any]]) -> list[tuple[Any, ...]]:
    values, visible = arrays
    rows, columns = (header[axis]["labels"] for axis in ("rows", "columns"))
    return [
        (row, column, value, not seen, *([header["texts"][at]] if header.get("texts") else []))
        for at, (row, column, value, seen) in enumerate(_crossed(rows, columns, values, visible))
    ]


def _panels(header: dict[str, Any], arrays: list[NDArray[Any]]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for index, panel in enumerate(header["panels"]):
        values, flags = arrays[2 * index : 2 * index + 2]
        known = np.full(flags.shape, np.nan) if panel.get("scale") is None else values
        columns = [label or str(place) for place, label in enumerate(panel["columns"]["labels"])]
        cells = _crossed(panel["rows"]["labels"], columns, known, flags & 1)
        found += [(panel["name"], row, column, value, not seen) for row, column, value, seen in cells]
    return found


def _crossed(rows: list[str], columns: list[str], values: NDArray[Any], visible: NDArray[Any]) -> Iterable[Any]:
    """Of each cell its row, its column, its value, whether it is visible."""
    names = (np.repeat(np.array(rows, object), len(columns)).tolist(), columns * len(rows))
    return zip(*names, values.ravel().tolist(), visible.ravel().tolist(), strict=True)


def _ranked(header: dict[str, Any], arrays: list[NDArray[Any]]) -> list[tuple[Any, ...]]:
    return [
        (row["rank"], row["label"], *values) for row, values in zip(header["rows"], arrays[0].tolist(), strict=True)
    ]


def _wires(header: dict[str, Any], arrays: list[NDArray[Any]]) -> list[tuple[Any, ...]]:
    return [(row["name"], row["formula"], row["own"]) for row in header["rows"]]
