"""The tensors of a file as a table: names and sizes at once, what they measure as far as it is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from viz.components.view import View
from viz.i18n.catalogue import _
from viz.i18n.format import bytes_text, shape_text
from viz.pages.checkpoints import tensor
from viz.pages.checkpoints.components import BINS, Column, tensor_tree
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


def totals(table: Sequence[TensorInfo]) -> str:
    """Numbers of tensors, parameters and bytes, each place of the file counted once."""
    own = {info.place: info for info in table}.values()
    tied = (
        _(", {count} of them in another's place").format(count=len(table) - len(own)) if len(own) < len(table) else ""
    )
    return _("{tensors} tensors{tied} · {parameters} parameters · {bytes}").format(
        tensors=f"{len(table):,}",
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
        "asked": asked_place(table) is not None,
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
        known = np.array([each is not None for each in measurements.every()], np.bool_)
        return tensor_tree(
            columns(), known, {**header, "progress": job_progress(measurements)}, key, partial(on_tensor, table)
        )

    return draw


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
    return pd.DataFrame(columns | {title: measurements.column(name) for name, title in names.items()})


# The tensors of a file: their tree with what they measure, which fills in, and one of them large.

TREE = "tensor_tree"


def show(session: Session, subject: Subject, measurements: TensorStatistics) -> None:
    """The tree goes on by itself while something is being measured."""
    chosen = chosen_place(measurements.table)
    follow([measurements], tree(measurements, subject.name, partial(statistics_columns, measurements), TREE, chosen))
    tensor.show(subject, measurements, measurements.table[chosen])
    file, title = f"tensors-{subject.name}", _("Data of all tensors")
    tensor.beside(
        tensor.explain, lambda: data_table("tensors_data", partial(statistics_table, measurements), file, title)
    )
