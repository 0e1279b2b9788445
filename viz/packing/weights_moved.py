"""Two checkpoints beside each other: which tensors moved, in which layers, of which heads."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from model.analysis.weights.heads import CROSS, projection_of
from viz.components.checkpoint_views import Column, tensor_tree
from viz.components.plots import Mount, Panel, Series, chart, panels
from viz.i18n.catalogue import _
from viz.i18n.format import shape_text, significant
from viz.packing import weights_heads
from viz.packing.weights_heads import NAMES, panel_words
from viz.packing.weights_table import tree_header
from viz.ui.parts import plot_words

if TYPE_CHECKING:
    from model.analysis.weights.movement import Moved
    from model.checkpoints.tensors import TensorInfo

LAYERED = re.compile(r"^(.*?)\.(\d+)\.(.*)$", re.S)
# The four projections have their colours everywhere; other kinds share what is left over.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
OTHERS = ("#e69f00", "#56b4e9", "#8a63d2", "#a0522d", "#708090", "#b8860b", "#2f4f4f", "#c71585")
NAMED = 14  # lines in the legend; of more, the pointer says them
RELATION = "‖B−A‖/‖A‖"
RELATIVE = 4  # the number of the column by which the tree is sorted: after name, shape, type and bytes


def moved_tree(
    table: Sequence[TensorInfo],
    of: Callable[[TensorInfo], Moved | None],
    file: str,
    more: Mapping[str, Any],
    key: str,
    on_tensor: Callable[[], None],
) -> Mount:
    """The tensors that both have, the most moved first."""
    found = [of(info) for info in table]
    known = np.array([each is not None for each in found], np.bool_)
    columns = [
        Column(RELATION, _numbers(found, "relative")),
        Column(_("cosine"), _numbers(found, "cosine")),
        Column(_("largest"), _numbers(found, "largest")),
        Column(_("at"), ["" if each is None else ", ".join(map(str, each.place)) for each in found], "text"),
    ]
    return tensor_tree(columns, known, tree_header(table, file, {"sorted": RELATIVE, **more}), key, on_tensor)


def _numbers(found: Sequence[Moved | None], name: str) -> np.ndarray:
    return np.array([np.nan if each is None else getattr(each, name) for each in found], np.float64)


def moved_table(table: Sequence[TensorInfo], of: Callable[[TensorInfo], Moved | None]) -> pd.DataFrame:
    found = [of(info) for info in table]
    rows = {
        _("tensor"): [info.name for info in table],
        _("shape"): [shape_text(info.shape) for info in table],
        RELATION: _numbers(found, "relative"),
        _("cosine"): _numbers(found, "cosine"),
        _("largest change"): _numbers(found, "largest"),
        _("at"): ["" if each is None else ", ".join(map(str, each.place)) for each in found],
    }
    return pd.DataFrame(rows).sort_values(RELATION, ascending=False, ignore_index=True)


def layered(names: Sequence[str]) -> dict[str, dict[int, str]]:
    """Of each kind of tensor, "decoder.layers.*.…", its name in every layer that has one."""
    found: dict[str, dict[int, str]] = {}
    for name in names:
        if match := LAYERED.match(name):
            before, layer, after = match.groups()
            if len(layer) < 6:
                found.setdefault(f"{before}.*.{after}", {})[int(layer)] = name
    return found


def stacks_of(kinds: Mapping[str, Any]) -> list[str]:
    """What stands before the layer's number: a stack each."""
    return list(dict.fromkeys(kind.split(".*.")[0] for kind in kinds))


def layer_chart(
    table: Sequence[TensorInfo], of: Callable[[TensorInfo], Moved | None], stack: str, file: str, key: str
) -> Mount:
    """How far the matrices of each layer moved: a line for each kind."""
    infos = {info.name: info for info in table if len(info.shape) > 1}
    kinds = {kind: names for kind, names in layered(list(infos)).items() if kind.startswith(f"{stack}.*.")}
    last = max((max(names) for names in kinds.values()), default=0)
    series, most = [], (0.0, "")
    others = iter(OTHERS * (1 + len(kinds) // len(OTHERS)))
    for number, (kind, names) in enumerate(kinds.items()):
        changes = np.full(last + 1, np.nan)
        for layer, name in names.items():
            if known := of(infos[name]):
                changes[layer] = known.relative if np.isfinite(known.relative) else np.nan
                most = max(most, (changes[layer], name))
        short = kind.removeprefix(f"{stack}.*.").removesuffix(".weight")
        part = projection_of(next(iter(names.values())))
        colour = next(others) if part is None else COLOURS[part]
        dash = CROSS.search(short) is not None
        series.append(Series(short, np.arange(last + 1), changes, colour, dash=dash, quiet=number >= NAMED))
    sentence = _("{stack}: ‖B−A‖/‖A‖ of every matrix of a layer").format(stack=stack)
    alt = _("{sentence}; most moved: {name}, {change}.").format(
        sentence=sentence, name=most[1][:120], change=significant(most[0])
    )
    header = {
        "x": {"title": _("layer"), "labels": [str(layer + 1) for layer in range(last + 1)], "side": ""},
        "y": {"title": _("relative change"), "zero": True},
        "tall": 240,
        "name": _("Change by layer"),
        "sentence": sentence,
        "alt": alt,
        "file": f"moved-layers-{file}",
        "stamp": f"{file} {stack}",
        "words": plot_words(_("kind"), _("layer"), _("relative change")),
    }
    return chart(series, header, key)


def head_panels(
    changes: np.ndarray, file: str, chosen: tuple[int, int], key: str, on_cell: Callable[[], None]
) -> Mount:
    """Four maps of layer by head on one scale; a click opens the head."""
    _projections, layers, heads = changes.shape
    finite = changes[np.isfinite(changes)]
    top = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    shown = []
    for name, each in zip(NAMES, changes, strict=True):
        described = {
            "name": name,
            "note": f"{significant(float(np.nanmin(each)))} – {significant(float(np.nanmax(each)))}",
            "rows": {"title": _("layer"), "labels": [str(row + 1) for row in range(layers)], "side": "layers"},
            "columns": {"title": _("head"), "labels": [str(at + 1) for at in range(heads)], "side": "heads"},
            "scale": {"low": 0, "high": top, "difference": False},
            "line": 0,
            "chosen": -1,
            "framed": list(chosen),
            "choose": True,
        }
        shown.append(Panel(np.ones(each.shape, np.bool_), described, np.where(np.isfinite(each), each, np.nan)))
    sentence = _("‖B−A‖/‖A‖ of each head's part, one scale for all; a click opens the head")
    header = {
        "slot": 150,
        "cell": 40,
        "name": _("Change by head"),
        "sentence": sentence,
        "alt": f"{sentence}: " + "; ".join(f"{panel.described['name']} {panel.described['note']}" for panel in shown),
        "file": f"moved-heads-{file}",
        "stamp": file,
        "words": panel_words(),
    }
    return panels(shown, header, key, on_cell)


def head_table(changes: np.ndarray, cosines: np.ndarray) -> pd.DataFrame:
    """A line for each head: how far each of its four parts moved, and whether it still points the same way."""
    columns = {f"{name}: {RELATION}": each for name, each in zip(NAMES, changes, strict=True)}
    return weights_heads.head_table(
        columns | {f"{name}: {_('cosine')}": each for name, each in zip(NAMES, cosines, strict=True)}
    )
