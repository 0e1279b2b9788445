"""Parts that figures of several pages share: colours, captions, axes, series, names of blocks and steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from model.message import Message
from model.network.attention import Scaled
from model.network.positions import Alibi, Unbiased
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Series
from viz.figures.compared import Compared
from viz.figures.figure import About, Caption
from viz.figures.panels import Panel
from viz.i18n.format import significant, significant_alike
from viz.i18n.messages import joined, listed

if TYPE_CHECKING:
    from torch import Tensor

    from model.capture.trace import Trace
    from viz.state.inputs import Inputs


def array(tensor: Tensor) -> NDArray[np.float32]:
    values: NDArray[np.float32] = tensor.detach().float().cpu().numpy()
    return values


def compared(values: Tensor, before: Tensor | None) -> Compared:
    """Values beside the pinned ones."""
    return Compared(array(values), None if before is None else array(before))


def series_of(name: str, values: Compared, colour: str) -> Series:
    """Series of values at places 0, 1, 2 …"""
    return Series(name, np.arange(len(values.now)), values, colour)


def stamp(trace: Trace) -> str:
    """Stamp of the painted text, its source tokens: a component has it in the browser."""
    return " ".join(trace.source_tokens)


def caption(
    inputs: Inputs,
    name: str,
    file: str,
    note: str = "",
    sentence: str = "",
    alt: str = "",
    about: About | None = None,
    finding: str = "",
) -> Caption:
    """Caption of a figure of these inputs."""
    return Caption(name, file, stamp(inputs.trace), note, sentence, alt, about, finding)


def word(label: str) -> str:
    """A token in a sentence: without the mark of a space before it, and between quotation marks if it is no word."""
    bare = label.lstrip("▁Ġ ·") or label.replace("▁", "·")
    return bare if any(letter.isalnum() for letter in bare) else f"“{bare}”"


def lacking(inputs: Inputs, before: object, row: Tensor | None = None) -> str:
    """A sentence where something is pinned that has no such quantity, or nothing at the row that is drawn."""
    if inputs.comparison is None:
        return ""
    if before is None and inputs.pin is not None and inputs.pin.model.kind != inputs.model.kind:
        return Message("The pinned model is of another kind: they cannot be compared.")
    if before is None:
        return Message("The pinned trace has nothing of this name and shape: values are shown.")
    if row is not None and bool(row.isnan().all()):
        return Message("this token is not in the pinned text")
    return ""


def tokens_axis(inputs: Inputs, stack: str) -> Axis:
    """The tokens that a stack reads."""
    return Axis(Message("token"), inputs.trace.tokens_of(f"{stack}."), side_of(inputs.trace, stack))


def block_name(layer: int, sublayer: str) -> str:
    """A block's short name; layers are counted from 0 here and from 1 on the screen."""
    names = {
        "self_attention": Message("self-att."),
        "cross_attention": Message("cross"),
        "feed_forward": Message("FFN"),
    }
    return Message("{layer} {block}", layer=layer + 1, block=names[sublayer])


def side_of(trace: Trace, stack: str) -> str:
    """Side whose tokens the positions of a stack are: "source" or "target"."""
    return "target" if stack == "decoder" and trace.target_tokens else "source"


def cell_note(row: str, column: str, value: Tensor) -> str:
    """The framed cell of a map in words."""
    return joined("  ", listed(row, column), significant(float(value)))  # a token may begin with a dot of its own


def mean_notes(tables: Sequence[NDArray[Any]]) -> list[str]:
    """Mean of what is known in each table of a figure, all with as many decimals; "" where nothing is."""
    known = [table[np.isfinite(table)] for table in tables]
    means = iter(significant_alike(*(float(each.mean()) for each in known if each.size)))
    return [Message("mean {mean}", mean=next(means)) if each.size else "" for each in known]


def head_panel(name: str, values: NDArray[Any], scale: Scale, framed: Sequence[int] | None, **more: Any) -> Panel:
    """Values (layer, head), of which one can be clicked. framed: the chosen layer and head."""
    layers, heads = ([f"{number + 1}" for number in range(count)] for count in values.shape)
    rows, columns = Axis("", [f"L{layer}" for layer in layers], ""), Axis(Message("head"), heads, "")
    visible = more.pop("visible", np.ones(values.shape, bool))
    return Panel(name, rows, columns, visible, values, scale=scale, framed=framed, choose=True, joined=" · ", **more)


def by_root(attention: nn.Module) -> bool:
    """True if scores are scaled by 1/√d_k, as the paper's are; also where the model shows no step to its weights."""
    step = getattr(attention, "scaled", None)
    if step is None or isinstance(step, Scaled):
        return step is None or step.factor != 1
    query = getattr(attention, "parts", {}).get("query")
    return query is not None and math.isclose(step.factor, query.weight.shape[1] ** -0.5, rel_tol=1e-3)


def scores_formula(attention: nn.Module) -> str:
    """Formula of softmax's input, without the mask: some models scale otherwise, cap, or add what distances give."""
    scaled = r"\frac{QK^\top}{\sqrt{d_k}}"
    if not by_root(attention):
        factor = attention.get_submodule("scaled").factor
        scaled = r"QK^\top" if factor == 1 else rf"{factor:.4g}\,QK^\top"
    if (cap := getattr(attention, "cap", None)) is not None:
        scaled = rf"{cap:g}\,\tanh\left(\frac{{1}}{{{cap:g}}}\,{scaled}\right)"
    biased = getattr(attention, "biased", None)
    if isinstance(biased, Alibi):
        return scaled + r" - m_h\,|i - j|"
    return scaled if biased is None or isinstance(biased, Unbiased) else scaled + r" + b_{h,\,j - i}"


def step_names(steps: Sequence[str]) -> dict[str, str]:
    """Names of the steps to a weight, in their order."""
    names = {
        "scores": Message("score"),
        "scaled": Message("scaled"),
        "capped": Message("capped"),
        "biased": Message("biased"),
        "masked": Message("masked"),
        "weights": Message("weight"),
    }
    return {step: names[step] for step in steps}


def scored_name(attention: Any, step: str) -> str:
    """Step before the mask: the paper's scale, or what this model does instead."""
    if step == "scaled" and by_root(attention):
        return Message("scores / √d_k")
    unscaled = step == "scaled" and attention.scaled.factor == 1
    return Message("score") if unscaled else step_names([step])[step]
