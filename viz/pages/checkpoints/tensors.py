"""The tensors of a file as a table: names and sizes at once, what they measure as far as it is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import streamlit as st

from viz.components.plots import Mount
from viz.i18n.catalogue import _
from viz.i18n.format import bytes_text, shape_text
from viz.pages.checkpoints import tensor
from viz.pages.checkpoints.components import BINS, Column, tensor_tree
from viz.pages.checkpoints.measuring import Measured
from viz.pages.checkpoints.subjects import Subject, asked_place, choose_tensor, chosen_place
from viz.state.session import Session
from viz.ui.background import CHOSEN, follow
from viz.ui.parts import data_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from model.analysis.weights.statistics import Statistics
    from model.checkpoints.tensors import TensorInfo

MOST = 10  # rows in view


def totals(table: Sequence[TensorInfo]) -> str:
    """How many tensors, parameters and bytes, each place of the file counted once."""
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


def tree_header(table: Sequence[TensorInfo], file: str, more: Mapping[str, Any]) -> dict[str, Any]:
    """What the tree shows before anything is measured."""
    number = {info.name: place for place, info in enumerate(table)}
    sentence = totals(table)
    return {
        "names": [info.name for info in table],
        "shapes": [shape_text(info.shape) for info in table],
        "dtypes": [info.dtype for info in table],
        "elements": [info.elements for info in table],
        "bytes": [info.bytes for info in table],
        "same": [-1 if info.place == info.name else number.get(info.place, -1) for info in table],
        "sentence": sentence,
        "progress": None,
        "most": MOST,
        "alt": _("Tensors of {file}: {totals}. Arrow keys move, Enter chooses.").format(file=file, totals=sentence),
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
        **more,
    }


def statistics_tree(
    table: Sequence[TensorInfo],
    of: Callable[[TensorInfo], Statistics | None],
    file: str,
    more: Mapping[str, Any],
    key: str,
    on_tensor: Callable[[], None],
) -> Mount:
    """The tree with the statistics that are known."""
    found = [of(info) for info in table]
    known = np.array([each is not None for each in found], np.bool_)
    columns = [
        Column(_("mean"), _numbers(found, "mean")),
        Column(_("deviation"), _numbers(found, "deviation")),
        Column(_("least"), _numbers(found, "minimum")),
        Column(_("greatest"), _numbers(found, "maximum")),
        Column(_("zeros"), _numbers(found, "zeros"), "share"),
        Column("NaN, ±∞", _numbers(found, "nan") + _numbers(found, "infinite"), "count"),
        Column(_("histogram"), np.array([bars(each) for each in found]).reshape(len(table), BINS), "picture"),
    ]
    return tensor_tree(columns, known, tree_header(table, file, more), key, on_tensor)


def _numbers(found: Sequence[Statistics | None], name: str) -> NDArray[np.float64]:
    return np.array([np.nan if each is None else getattr(each, name) for each in found], np.float64)


def bars(found: Statistics | None) -> NDArray[np.float64]:
    """The histogram with as many bars as are drawn; where all values are the same, one in the middle."""
    drawn = np.zeros(BINS)
    if found is None or not found.counts:
        return drawn
    if len(found.counts) == 1:
        drawn[BINS // 2] = 1
        return drawn
    places = np.arange(len(found.counts)) * BINS // len(found.counts)
    np.add.at(drawn, places, found.counts)
    return drawn


def statistics_table(table: Sequence[TensorInfo], of: Callable[[TensorInfo], Statistics | None]) -> pd.DataFrame:
    """The whole table in full precision; a tensor in another's place has the other's numbers."""
    found = [of(info) for info in table]
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
    return pd.DataFrame(columns | {title: _numbers(found, name) for name, title in names.items()})


# The tensors of a file: their tree with what they measure, which fills in, and one of them large.

TREE = "tensor_tree"


def show(session: Session, subject: Subject, found: Measured) -> None:
    """The tree goes on by itself while something is being measured."""
    follow([found], partial(tree, subject, found))
    tensor.show(subject, found, found.table[chosen_place(found.table)])
    tensor.beside(tensor.explain, partial(data, subject, found))


def data(subject: Subject, found: Measured) -> None:
    table = partial(statistics_table, found.table, found.of)
    data_table("tensors_data", table, f"tensors-{subject.name}", _("Data of all tensors"))


def tree(subject: Subject, found: Measured) -> None:
    asked = asked_place(found.table) is not None
    header = {"chosen": chosen_place(found.table), "asked": asked, "progress": found.progress, "sorted": -1}
    statistics_tree(found.table, found.of, subject.name, header, TREE, partial(on_tensor, found))()


def on_tensor(found: Measured) -> None:
    choose_tensor(found.table, int(st.session_state[TREE].tensor))
    st.session_state[CHOSEN] = True
