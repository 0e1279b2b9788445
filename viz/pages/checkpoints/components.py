"""Components of the page Checkpoints, which have no table; each function packs its data and returns what mounts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viz.components.registry import component, pack
from viz.components.view import Answer, PackedView, View

_tensor_tree = component("pages/checkpoints/tensor_tree")
_findings = component("pages/checkpoints/findings")
HIGHEST = 255  # of a bar of a small histogram
BINS = 64  # bars of it


@dataclass(frozen=True)
class Column:
    """A column beside the names: of numbers, shares (written in percent), counts (above 0 in red), texts, or pictures.

    values: of each tensor, NaN where there is none; of texts the texts; of pictures (tensor, bar) counts.
    """

    title: str
    values: NDArray[Any] | Sequence[str]
    kind: str = "number"


def tensor_tree(
    columns: Sequence[Column],
    known: NDArray[np.bool_],
    header: Mapping[str, Any],
    key: str,
    on_tensor: Answer,
) -> View:
    """Tensors by the dots of their names, with columns of numbers; a click puts the tensor's number into the state as
    `tensor`.

    known: which tensors have been measured. header: `names`, `shapes` and `dtypes` as texts, `elements` and `bytes`,
    `same`, of each tensor the number of the one whose place in the file it has, or −1; `chosen` or −1; `asked`, whether
    somebody chose it: else the tree opens at its top; `sorted`, a column of all; `sentence` beside the field that
    searches; `progress`, {share, text} or None; `most`, rows in view; `alt`; `file`, another begins a new tree;
    `stamp`; `words`, {fixed: titles of the first four columns, search, expand, collapse, none, parameters}.
    """
    count = len(known)
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
    described = [{"title": column.title, "kind": column.kind} for column in columns]
    more = {"columns": described, "texts": texts, "bins": pictures.shape[1]}
    data = pack({**header, **more}, [numbers, pictures, known.astype(np.uint8)])
    return PackedView(_tensor_tree, key, data, {"tensor": on_tensor})


def heights(counts: NDArray[Any]) -> NDArray[np.uint8]:
    """(tensor, bar) how high the bars are drawn: by the square root of their counts, so that tails are seen."""
    roots = np.sqrt(counts.astype(np.float64))
    tops = roots.max(axis=1, keepdims=True, initial=0.0)
    drawn = np.divide(roots * HIGHEST, tops, out=np.zeros_like(roots), where=tops > 0)
    return np.where(counts > 0, np.maximum(drawn, 10), 0).astype(np.uint8)


def findings(groups: Sequence[Mapping[str, Any]], header: Mapping[str, Any], key: str, on_find: Answer) -> View:
    """Sentences about tensors in groups; a click puts {group, place} into the state as `finding`.

    groups: each {title, explanation, items: [{name, sentence, chosen}], more: how many are not listed}, no items where
    nothing was found. header: `name`, `sentence`, `alt`, `stamp`.
    """
    return PackedView(_findings, key, pack({**header, "groups": list(groups)}), {"finding": on_find})


_checkpoint_list = component("pages/checkpoints/checkpoint_list")


def checkpoint_list(groups: Sequence[Mapping[str, Any]], words: Mapping[str, Any], key: str, on_act: Answer) -> View:
    """Lines with buttons; a click puts {act: "show", "read" or "remove", name} into the state as `act`.

    groups: each {title, where, rows: [{name, where, kind, format, parameters, bytes, needs, fits, refused, problem,
    shown, removable, computes}]}, all but the truths as texts. words: `columns`, show, showing, read, reading,
    remove, shown, alt.
    """
    return PackedView(_checkpoint_list, key, pack({"groups": list(groups), "words": words}), {"act": on_act})
