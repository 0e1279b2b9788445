"""The tensors of a file as a table: names and sizes at once, what they measure as far as it is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from viz.components.registry import component, pack
from viz.components.view import PackedView, View
from viz.i18n.catalogue import _, ngettext
from viz.i18n.format import bytes_text, shape_text
from viz.pages.checkpoints import tensor
from viz.pages.checkpoints.measuring import TensorStatistics, TensorTable
from viz.pages.checkpoints.subjects import Subject, asked_place, choose_tensor, chosen_place
from viz.state.session import Session
from viz.ui.job_view import follow, job_progress
from viz.ui.parts import data_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from model.analysis.weights.statistics import Statistics
    from model.checkpoints.tensors import TensorInfo

MOST = 10  # rows in view
HIGHEST = 255  # of a bar of a small histogram
BINS = 64  # bars of it
_tensor_tree = component("pages/checkpoints/tensor_tree")


@dataclass(frozen=True)
class Column:
    """A column beside the names: of numbers, shares (written in percent), counts (above 0 in red), texts, or pictures.

    values: of each tensor, NaN where there is none; of texts the texts; of pictures (tensor, bar) counts.
    """

    title: str
    values: NDArray[Any] | Sequence[str]
    kind: str = "number"


def totals(table: Sequence[TensorInfo]) -> str:
    """Numbers of tensors, parameters and bytes, each place of the file counted once."""
    own = {info.place: info for info in table}.values()
    tied = (
        _(", {count} of them in another's place").format(count=len(table) - len(own)) if len(own) < len(table) else ""
    )
    return _("{tensors}{tied} · {parameters} parameters · {bytes}").format(
        tensors=ngettext("{count} tensor", "{count} tensors", len(table)).format(count=f"{len(table):,}"),
        tied=tied,
        parameters=f"{sum(info.elements for info in own):,}",
        bytes=bytes_text(sum(info.bytes for info in own)),
    )


def tree(
    measurements: TensorTable,
    file: str,
    columns: Callable[[], Sequence[Column]],
    key: str,
    chosen: int,
    sorting: int = -1,
    sentence: str = "",
) -> Callable[[], View]:
    """Function that draws the tensors with their known values, in any thread; a click chooses one.

    columns: of what is known by then. chosen: the number of the tensor that is shown. sorting: the column by which they
    are sorted, if by any. sentence: beside the field that searches, by default the totals.
    """
    table = measurements.table
    number = {info.name: place for place, info in enumerate(table)}
    header = {
        "names": [info.name for info in table],
        "shapes": [shape_text(info.shape) for info in table],
        "dtypes": [measurements.type_of(info) for info in table],
        "elements": [info.elements for info in table],
        "bytes": [info.bytes for info in table],
        "same": [-1 if info.place == info.name else number.get(info.place, -1) for info in table],
        "sentence": sentence or totals(table),
        "chosen": chosen,
        "jump": asked_place(table) is not None,
        "sorted": sorting,
        "most": MOST,
        "alt": _("Tensors of {file}: {totals}. Arrow keys move, Enter chooses.").format(
            file=file, totals=totals(table)
        ),
        "file": file,
        "stamp": file,
        "words": {
            "fixed": [_("tensor"), _("shape"), _("type"), _("bytes")],
            "search": _("Search the names"),
            "expand": _("open all"),
            "collapse": _("close all"),
            "none": _("No name has these letters."),
            "parameters": "{count}",
        },
    }

    def draw() -> View:
        known, drawn = np.array([each is not None for each in measurements.every()], np.uint8), columns()
        more, arrays = packed_columns(drawn, len(known))
        data = pack({**header, "progress": job_progress(measurements), **more}, [*arrays, known])
        return PackedView(_tensor_tree, key, data, {"tensor": partial(on_tensor, table)})

    return draw


def packed_columns(columns: Sequence[Column], count: int) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """The columns of so many tensors in the header, and their numbers and pictures."""
    numbers = np.full((count, len(columns)), np.nan, np.float32)
    pictures: NDArray[np.uint8] = np.zeros((count, BINS), np.uint8)
    texts: dict[int, list[str]] = {}
    for place, column in enumerate(columns):
        if column.kind == "text":
            texts[place] = list(column.values)
        elif column.kind == "picture":
            pictures = heights(np.asarray(column.values))
        else:
            numbers[:, place] = column.values
    titles = [{"title": column.title, "kind": column.kind} for column in columns]
    return {"columns": titles, "texts": texts, "bins": pictures.shape[1]}, [numbers, pictures]


def heights(counts: NDArray[Any]) -> NDArray[np.uint8]:
    """(tensor, bar) how high the bars are drawn: by the square root of their counts, so that tails are seen."""
    roots = np.sqrt(counts.astype(np.float64))
    tops = roots.max(axis=1, keepdims=True, initial=0.0)
    drawn = np.divide(roots * HIGHEST, tops, out=np.zeros_like(roots), where=tops > 0)
    return np.where(counts > 0, np.maximum(drawn, 10), 0).astype(np.uint8)


def on_tensor(table: Sequence[TensorInfo], clicked: Any) -> None:
    choose_tensor(table, int(clicked))


def statistics_columns(measurements: TensorStatistics) -> list[Column]:
    """The statistics that are known."""
    return [
        Column(_("mean"), measurements.column("mean")),
        Column(_("deviation"), measurements.column("deviation")),
        Column(_("least"), measurements.column("minimum")),
        Column(_("greatest"), measurements.column("maximum")),
        Column(_("zeros"), measurements.column("zeros"), "share"),
        Column("NaN, ±∞", measurements.column("nan") + measurements.column("infinite"), "count"),
        Column(_("histogram"), np.array([bars(each) for each in measurements.every()]).reshape(-1, BINS), "picture"),
    ]


def bars(numbers: Statistics | None) -> NDArray[np.float64]:
    """The histogram with as many bars as are drawn; where all values are the same, one in the middle."""
    drawn = np.zeros(BINS)
    if numbers is None or not numbers.counts:
        return drawn
    if len(numbers.counts) == 1:
        drawn[BINS // 2] = 1
        return drawn
    places = np.arange(len(numbers.counts)) * BINS // len(numbers.counts)
    np.add.at(drawn, places, numbers.counts)
    return drawn


def statistics_table(measurements: TensorStatistics) -> pd.DataFrame:
    """The whole table in full precision; a tensor in another's place has the other's numbers."""
    table = measurements.table
    columns: dict[str, Any] = {
        _("tensor"): [info.name for info in table],
        _("shape"): [shape_text(info.shape) for info in table],
        _("type"): [info.dtype for info in table],
        _("bytes"): [info.bytes for info in table],
        _("the same as"): ["" if info.place == info.name else info.place for info in table],
    }
    names = {
        "mean": _("mean"),
        "deviation": _("deviation"),
        "minimum": _("least"),
        "maximum": _("greatest"),
        "zeros": _("zeros"),
        "nan": "NaN",
        "infinite": "±∞",
    }
    numbers = {title: measurements.column(name) for name, title in names.items()}
    finite = [info.elements for info in table] - measurements.column("nan") - measurements.column("infinite")
    mean, deviation = measurements.column("mean"), measurements.column("deviation")
    return pd.DataFrame(columns | numbers | {"‖W‖": np.sqrt(finite) * np.hypot(mean, deviation)})


# The tensors of a file: their tree with what they measure, which fills in, and one of them large.

TREE = "tensor_tree"


def show(session: Session, subject: Subject, measurements: TensorStatistics) -> None:
    """The tree goes on by itself while something is being measured."""
    chosen = chosen_place(measurements.table)
    follow([measurements], tree(measurements, subject.name, partial(statistics_columns, measurements), TREE, chosen))
    tensor.show(subject, measurements, measurements.table[chosen])
    file, title = f"tensors-{subject.name}", _("Data of all tensors")
    tensor.beside(
        tensor.explain,
        lambda: data_table("tensors_data", partial(statistics_table, measurements), file, title),
    )
