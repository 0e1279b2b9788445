"""The vectors behind one query of one head: its query, the keys and values, the head's output, its part of W^O's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from model.analysis.downsample import binned
from model.message import Message
from model.network.attention import for_each_head
from model.runtime.errors import require
from viz.figures.axis import Axis, Scale
from viz.figures.figure import Caption
from viz.figures.panels import Panel, Panels
from viz.i18n.format import tokens
from viz.i18n.messages import joined
from viz.pages.attention.steps import head_name, near
from viz.pages.attention.text import about_vectors
from viz.pages.attention.view import HeadMaps
from viz.state.session import Selection
from viz.ui.plots import array, stamp

MOST = 128  # channels of W^O's output that are drawn: beyond that means of neighbours


def vector_panels(head_maps: HeadMaps, chosen: Selection) -> Panels:
    """q (1, d_k), K (key, d_k), V (key, d_v), o = Σ w·v (1, d_v), and o·W^O of this head alone (1, d_model).

    Raises:
        MissingQuantityError: the model does not show them.
    """
    trace, head, query = head_maps.trace, chosen.head, chosen.query
    path = head_maps.maps.paths[chosen.layer]
    require(trace.network, f"{path}.query", f"{path}.key", f"{path}.value", f"{path}.heads")
    keys = for_each_head(trace[f"{path}.key"], head_maps.maps.heads)[head]
    output = trace[f"{path}.heads"][head, query].float()
    written = _written(head_maps, path, head, output)
    places = list(near(query, len(keys)))
    token = tokens(trace, head_maps.rows)[query]
    one = Axis("", [token], "")
    every = Axis(Message("key"), [tokens(trace, head_maps.columns)[place] for place in places], head_maps.columns)
    matrices: list[tuple[str, Axis, Tensor, int]] = [
        ("q", one, trace[f"{path}.query"][head, query][None], 0),
        ("K", every, keys[places], 1),  # beside each other what has the same rows
        ("V", every, trace.values(path)[head][places], 1),
        (Message("o = Σ w·v"), one, output[None], 2),
    ]
    note = ""
    if written is not None:
        width = len(written)
        matrices.append((Message("o·Wᴼ, this head's part"), one, binned(written, MOST)[None], 2))
        note = Message("Wᴼ's {width} channels as means of neighbours", width=width) if width > MOST else ""
    panels = [_panel(*each) for each in matrices]
    left_out = len(keys) - len(places)
    sentence = (
        Message(
            "of {token}; {count} key is left out",
            plural="of {token}; {count} keys are left out",
            token=token,
            count=left_out,
        )
        if left_out
        else Message("of {token}", token=token)
    )
    name = joined(" · ", Message("Vectors of this query"), head_name(chosen))
    file = f"vectors-{head_maps.wish.kind}-layer{chosen.layer + 1}-head{head + 1}"
    about = about_vectors(head_maps, chosen.layer)
    above = Caption(name, file, stamp(trace), note, sentence, about=about)
    cells = (Message("token"), Message("channel"), Message("value"), Message("masked"))
    return Panels(above, panels, cell=14, cells=cells)


def _panel(name: str, rows: Axis, values: Tensor, line: int) -> Panel:
    numbers: NDArray[np.float32] = array(values)
    top = float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0)) or 1.0
    columns = Axis(Message("channel"), [""] * numbers.shape[1], "")
    return Panel(name, rows, columns, np.ones(numbers.shape, bool), numbers, scale=Scale(-top, top), line=line)


def _written(head_maps: HeadMaps, path: str, head: int, output: Tensor) -> Tensor | None:
    """The head's share of the layer's output; None where the model has no such matrix for each head."""
    weight = head_maps.trace.attention_at(path).output.weight.detach().float()
    if weight.shape[1] != head_maps.maps.heads * len(output):
        return None
    return weight[:, head * len(output) : (head + 1) * len(output)] @ output
