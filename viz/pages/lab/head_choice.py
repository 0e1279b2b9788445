"""Numbers of a model's heads, layer by head, and which head of the trace is looked at, as the laboratory shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator

from model.message import Message
from viz.figures.axis import Axis, Scale
from viz.figures.figure import About
from viz.figures.panels import Panel, Panels
from viz.i18n.format import significant
from viz.state.session import current_session
from viz.ui.plots import array, caption

if TYPE_CHECKING:
    from torch import Tensor

    from viz.state.inputs import Inputs


def head_panels(
    inputs: Inputs,
    values: Mapping[str, Tensor],
    title: str,
    quantity: str,
    high: float,
    chosen: tuple[int, int],
    file: str,
    about: About,
) -> Panels:
    """Maps (layer, head) side by side on one scale from 0, or −high, to `high`."""
    panels = []
    for name, tensor in values.items():
        each = array(tensor)
        known = ~np.isnan(each)
        low, top = (float(end(each[known])) if known.any() else 0.0 for end in (np.min, np.max))
        note = f"{significant(low)} – {significant(top)}" if known.any() else "–"
        scale = Scale(-high if low < 0 else 0.0, high)
        layers, heads = each.shape
        rows, columns = Axis(Message("layer"), labels(layers)), Axis(Message("head"), labels(heads))
        numbers = np.nan_to_num(each)
        panels.append(Panel(name, rows, columns, known, numbers, note=note, scale=scale, framed=chosen, choose=True))
    above = caption(inputs, title, file, sentence=Message("of every head; press one to choose it"), about=about)
    cells = (Message("layer"), Message("head"), quantity, Message("masked"))
    return Panels(above, panels, slot=150, cell=34, cells=cells, words={"missing": Message("masked")})


def labels(count: int) -> list[str]:
    return [str(number) for number in range(1, count + 1)]


def marked(words: Sequence[str], place: int) -> str:
    """A token of a sentence of plain text."""
    return f"“{words[place]}”"


def mean(values: Tensor) -> float:
    """Over all that is a number."""
    return float(torch.nanmean(values.double()))


# Choice of an attention and a head of the loaded model, and its title.


def title_row(name: str, title: str) -> DeltaGenerator:
    """A title, and on its line a place for controls. name: of the part."""
    row = st.container(
        key=f"choices_{name}", horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"
    )
    row.markdown(f"**{title}**", width="content")
    return row


def choose_head(cell: dict[str, Any]) -> None:
    """The clicked cell of the panels; on the label of a whole row or column there is one number alone."""
    places = {"layer": int(cell["row"]), "head": int(cell["column"])}
    current_session().select(**{name: place for name, place in places.items() if place >= 0})
