"""Placements of norms and dropout: the ways of wiring a block, and what each would do to this very stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from model.analysis.residual import Block, placements, relative
from model.message import Message
from model.network.layers import BLOCKS, in_parallel
from viz.figures.axis import Axis
from viz.figures.chart import Chart
from viz.figures.colours import FIRST, FOURTH, SECOND, THIRD
from viz.figures.compared import Compared
from viz.figures.figure import About
from viz.i18n.catalogue import _
from viz.i18n.format import percent
from viz.i18n.messages import joined
from viz.pages.residual.components import Wiring
from viz.ui.parts import explanation, frame_of
from viz.ui.plots import caption, lacking, series_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from model.capture.trace import Trace
    from model.network.config import TransformerConfig
    from viz.state.inputs import Inputs

PLACED = {
    "post": r"\text{post: } \mathrm{Norm}(x + F(x))",
    "pre": r"\text{pre: } x + F(\mathrm{Norm}(x))",
    "sandwich": r"\text{sandwich: } x + \mathrm{Norm}(F(\mathrm{Norm}(x)))",
    "none": r"\text{none: } x + F(x)",
    "parallel": r"\text{parallel: } x + \mathrm{Attention}(x) + F(x)",
    "wrong": r"\text{wrong: } \mathrm{Norm}(x) + F(x)",
}
COLOURS = {"post": SECOND, "pre": THIRD, "wrong": FIRST, "parallel": FOURTH}


def placement_name(name: str) -> Message:
    return {
        "post": Message("post-norm"),
        "pre": Message("pre-norm"),
        "sandwich": Message("sandwich norm"),
        "none": Message("no norm"),
        "wrong": Message("wrong pre-norm"),
        "parallel": Message("blocks in parallel"),
    }[name]


def own_placement(config: TransformerConfig) -> str:
    if config.parallel:
        return "parallel"
    return "none" if config.norm == "none" else config.norm_placement


def wires(inputs: Inputs) -> Wiring:
    """The paper's placement, the later ones and the wrong one, with the loaded model's own framed."""
    config = inputs.config
    norm = {"rms": "RMSNorm"}.get(config.norm, "LayerNorm")
    own = own_placement(config)
    placed_norms = ("post", "pre", "wrong", own)
    names = [name for name in ("post", "pre", "sandwich", "none", "parallel", "wrong") if name in placed_norms]
    rows = [
        _parallel_row(norm, config) if name == "parallel" else _row(name, name == own, norm, config) for name in names
    ]
    pinned = None if inputs.comparison is None else own_placement(inputs.comparison.pinned.network.config)
    sentence = joined(
        " · ",
        Message("this model: {name}", name=placement_name(own)),
        "" if config.residual else Message("without residual: nothing passes by its blocks"),
        Message("{name}, pinned", name=placement_name(pinned)) if pinned else "",
    )
    about = About(
        Message(
            "Where norm, sublayer and sum stand in a block: the line is the stream, and this model's own is framed."
        ),
        [PLACED[name] for name in names],
        [BLOCKS[config.norm_placement], *([in_parallel] if config.parallel else [])],
        meaning=Message(
            "Before the sublayer it leaves the stream alone; behind the sum it normalises the stream at every block."
        ),
    )
    above = caption(inputs, Message("One block of the stream"), "placement", sentence=sentence, about=about)
    return Wiring(above, rows)


def placement_chart(inputs: Inputs, parts: Sequence[Block]) -> Chart:
    """Distance, by layer, that the feed-forward block's outcome would be from the model's own if its norm stood
    elsewhere.
    """
    last = [part for part in parts if part.sublayer == "feed_forward"]
    own, before = differences(inputs.trace, last), _pinned_differences(inputs, last)
    series = [
        series_of(placement_name(name), Compared(values, before.get(name) if before else None), COLOURS[name])
        for name, values in own.items()
    ]
    means = {placement_name(name): percent(float(each.mean()), 0) for name, each in own.items()}
    note = joined(" · ", *(joined(" ", *mean) for mean in means.items()))
    about = About(
        Message(
            "How far what each feed-forward block gives would be from this model's own, if its norm stood elsewhere."
        ),
        [r"\frac{\lVert y - y' \rVert}{\lVert y' \rVert}", *(PLACED[name] for name in own)],
        [placements, relative],
        meaning=Message("Weights fit the place that they were trained with: read otherwise they give something else."),
    )
    name = Message("If the norm stood elsewhere")
    above = caption(inputs, name, "placement-difference", note, lacking(inputs, before), about=about)
    layers = Axis(Message("layer"), [str(part.layer + 1) for part in last], "layers")
    return Chart(above, series, layers, Axis(Message("relative difference"), zero=True), tall=200)


def differences(trace: Trace, parts: Sequence[Block]) -> dict[str, np.ndarray]:
    """For each placement ‖y − y′‖ / ‖y′‖ by layer, y′ what the model's own block has left."""
    rows: dict[str, list[float]] = {}
    for part in parts:
        for name, y in placements(trace.network, part, trace[part.before], trace[part.read]).items():
            rows.setdefault(name, []).append(relative(y, trace[part.after]))
    return {name: np.array(values, np.float32) for name, values in rows.items()}


def _pinned_differences(inputs: Inputs, parts: Sequence[Block]) -> dict[str, np.ndarray] | None:
    """Differences of the pinned trace, where it has these layers."""
    if inputs.comparison is None or any(part.before not in inputs.comparison.pinned for part in parts):
        return None
    return differences(inputs.comparison.pinned, parts)


def placement_table(inputs: Inputs, parts: Sequence[Block]) -> pd.DataFrame:
    """A row per layer and placement."""
    last = [part for part in parts if part.sublayer == "feed_forward"]
    own, before = differences(inputs.trace, last), _pinned_differences(inputs, last)
    difference = Message("relative difference")
    table: dict[str, Any] = {
        Message("layer"): [part.layer + 1 for _name in own for part in last],
        Message("placement"): [placement_name(name) for name in own for _part in last],
        difference: np.concatenate([*own.values()]).tolist(),
    }
    if before is not None:
        unknown = np.full(len(last), np.nan)
        table[Message("{name}, pinned", name=difference)] = np.concatenate([before.get(name, unknown) for name in own])
    return frame_of(table)


def _row(name: str, own: bool, norm: str, config: TransformerConfig) -> dict[str, Any]:
    dropped = {"text": joined(" ", Message("dropout"), f"{config.dropout:g}" if own else ""), "kind": "dropout"}
    sublayer, normed = {"text": Message("Sublayer"), "kind": "sublayer"}, {"text": norm, "kind": "norm"}
    total = {"text": "+", "kind": "sum"}
    boxes = {
        "post": [sublayer, dropped, total, normed],
        "pre": [normed, sublayer, dropped, total],
        "sandwich": [normed, sublayer, normed, dropped, total],
        "none": [sublayer, dropped, total],
        "wrong": [sublayer, dropped, total],
    }[name]
    formula = {
        "post": f"{norm}(x + Sublayer(x))",
        "pre": f"x + Sublayer({norm}(x))",
        "sandwich": f"x + {norm}(Sublayer({norm}(x)))",
        "none": "x + Sublayer(x)",
        "wrong": f"{norm}(x) + Sublayer(x)",
    }[name]
    past = norm if name == "wrong" else "bare"
    if own and not config.residual:
        boxes = [box for box in boxes if box is not total]
        formula, past = formula.replace("x + ", "", 1), ""
    return {"name": placement_name(name), "formula": formula, "own": own, "boxes": boxes, "past": past}


def _parallel_row(norm: str, config: TransformerConfig) -> dict[str, Any]:
    """Two blocks that read the same x, whose sum with it is the layer (Black et al., 2022, section 2.1)."""
    dropped = {"text": joined(" ", Message("dropout"), f"{config.dropout:g}"), "kind": "dropout"}
    normed, total = {"text": norm, "kind": "norm"}, {"text": "+", "kind": "sum"}
    placed = "none" if config.norm == "none" else config.norm_placement
    before, behind = placed in ("pre", "sandwich"), placed == "sandwich"
    chains = [
        [*([normed] * before), {"text": name, "kind": "sublayer"}, *([normed] * behind), dropped]
        for name in (Message("Attention"), Message("Feed-forward"))
    ]
    ends = [total, normed, total, normed] if placed == "post" else [total]
    formula = {
        "post": f"{norm}({norm}(x + Attn(x)) + FFN(x))",
        "pre": f"x + Attn({norm}(x)) + FFN({norm}(x))",
        "sandwich": f"x + {norm}(Attn({norm}(x))) + {norm}(FFN({norm}(x)))",
        "none": "x + Attn(x) + FFN(x)",
    }[placed]
    boxes = {"boxes": [*chains[0], *ends], "beside": chains[1], "past": "bare"}
    return {"name": placement_name("parallel"), "formula": formula, "own": True, **boxes}


def explain(key: str, config: TransformerConfig) -> None:
    explanation(
        key,
        _(
            "The norm can stand after the sum, as in the paper, or before the sublayer, as in most models today. The "
            "drawing shows what passes by untouched, the chart how far the stream would move with each."
        ),
        [
            r"\text{post: } \mathrm{LN}(x + F(x)) \qquad \text{pre: } x + F(\mathrm{LN}(x)) \qquad "
            r"\text{wrong: } \mathrm{LN}(x) + F(x)"
        ],
        _(
            "Vaswani et al., section 3.1, put the norm behind the sum; later models put it before the sublayer (Xiong "
            "et al., 2020), with one norm more at the end of the stack. A tutorial writes pre-norm as Sublayer(x) + "
            "LayerNorm(x): then the stream itself is normalised at every block, no bare x passes by, and the sublayer "
            "reads what was never normalised. Where the blocks of a layer are parallel, as in GPT-J and GPT-NeoX "
            "(Black et al., 2022, section 2.1), attention and feed-forward network read the same x, and the layer is "
            "the sum of all three. The chart computes each form with this model's own sublayers and norms. "
            "This is the code that has just run:"
        ),
        *(BLOCKS[config.norm_placement], *([in_parallel] if config.parallel else []), placements),
    )
