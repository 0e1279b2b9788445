"""Numbers of a model's heads, layer by head, and which head of the trace is looked at, as the laboratory shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from model.capture.trace import AttentionKind
from model.inference.text_model import TextModel
from viz.components.old_plots import Panel, panels
from viz.i18n.catalogue import _
from viz.i18n.format import attention_name, significant
from viz.state.session import Key, attention_kinds, choose, current_session
from viz.ui.parts import plot_words, stamp
from viz.ui.plots import array

if TYPE_CHECKING:
    from torch import Tensor

    from model.capture.trace import Trace
    from viz.components.plots import Mount


def head_panels(
    trace: Trace,
    values: Mapping[str, Tensor],
    title: str,
    quantity: str,
    high: float,
    chosen: tuple[int, int],
    key: str,
    on_cell: Callable[[], None],
) -> Mount:
    """Maps (layer, head) side by side on one scale from 0, or −high, to `high`; a click chooses a head."""
    shown = []
    for name, tensor in values.items():
        each = array(tensor)
        layers, heads = each.shape
        known = each[~np.isnan(each)]
        low, top = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
        described = {
            "name": name,
            "note": f"{significant(low)} – {significant(top)}" if known.size else "–",
            "rows": {"title": _("layer"), "labels": labels(layers), "side": ""},
            "columns": {"title": _("head"), "labels": labels(heads), "side": ""},
            "scale": {"low": -high if low < 0 else 0.0, "high": high, "difference": False},
            "line": 0,
            "chosen": -1,
            "framed": list(chosen),
            "choose": True,
        }
        shown.append(Panel(~np.isnan(each), described, np.nan_to_num(each)))
    ranges = "; ".join(f"{panel.described['name']} {panel.described['note']}" for panel in shown)
    header: dict[str, Any] = {
        "slot": 150,
        "cell": 34,
        "name": title,
        "sentence": _("of every head; a click chooses one"),
        "alt": f"{title}: {ranges}",
        "file": key,
        "stamp": stamp(trace),
        "words": {
            **plot_words(_("map"), _("layer"), _("head"), quantity, _("masked")),
            "visible": _("visible"),
            "changed": _("changed"),
            "missing": _("masked"),
        },
    }
    return panels(shown, header, key, on_cell)


def labels(count: int) -> list[str]:
    return [str(number) for number in range(1, count + 1)]


def marked(words: Sequence[str], place: int) -> str:
    """A token of a sentence of plain text."""
    return f"“{words[place]}”"


def mean(values: Tensor) -> float:
    """Over all that is a number."""
    return float(torch.nanmean(values.double()))


# Which attention and which head of the loaded model is looked at, and under which title.


def heading(title: str) -> DeltaGenerator:
    """A title, and on its line a place for controls."""
    row = st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center")
    row.markdown(f"**{title}**", width="content")
    return row


def choose_kind(model: TextModel, place: DeltaGenerator) -> AttentionKind:
    """Chosen by the user where the model has several."""
    kinds = attention_kinds(model.network)
    if len(kinds) == 1:
        return kinds[0]
    return cast(AttentionKind, choose(_("Attention"), kinds, kinds[-1], Key.KIND, attention_name, place))


def choose_head(key: str) -> None:
    """The clicked cell of the panels with this key; on the label of a whole row or column there is one number alone."""
    cell = st.session_state[key].cell
    found = {"layer": int(cell["row"]), "head": int(cell["column"])}
    current_session().select(**{name: place for name, place in found.items() if place >= 0})
