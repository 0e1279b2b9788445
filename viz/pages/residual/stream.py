"""The residual stream: how long its vectors are, what each block adds, how alike its states are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from model.analysis.residual import contributions, cosines, states, stream, sum_error
from model.message import Message
from model.network.layers import BLOCKS, NoResidual, Residual
from viz.figures.axis import Axis, scale_of
from viz.figures.chart import Chart, Series
from viz.figures.colours import FIRST, SECOND
from viz.figures.compared import Compared
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _
from viz.i18n.format import significant, token_sign
from viz.ui.parts import explanation, frame_of
from viz.ui.plots import array, block_name, caption, cell_note, compared, lacking, tokens_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from model.analysis.residual import Block, Get
    from model.network.config import TransformerConfig
    from viz.state.inputs import Inputs

QUANTITIES = ("length", "share", "cosine")
SPELLED = 12  # tokens; above that their curves are left to the heatmap


def quantity_name(quantity: str) -> Message:
    return {
        "length": Message("‖stream‖"),
        "share": Message("‖block‖ / ‖stream‖"),
        "cosine": Message("cosine of block and stream"),
    }[quantity]


def state_labels(parts: Sequence[Block]) -> list[str]:
    """The stream's states: the embedding, then each block."""
    return [Message("embedding"), *block_labels(parts)]


def block_labels(parts: Sequence[Block]) -> list[str]:
    return [block_name(part.layer, part.sublayer) for part in parts]


def first_of(parts: Sequence[Block], layer: int) -> int:
    """The number of the first block of a layer, or of the last layer that there is."""
    layer = min(layer, parts[-1].layer)
    return next(number for number, part in enumerate(parts) if part.layer == layer)


def quantity_of(get: Get, parts: Sequence[Block], quantity: str) -> Tensor | None:
    """(state or block, position): one of QUANTITIES."""
    if quantity == "length":
        tensor = stream(get, states(parts))
        return None if tensor is None else tensor.norm(dim=-1)
    added = contributions(get, parts)
    return None if added is None else added[quantity == "cosine"]


def stream_map(inputs: Inputs, stack: str, parts: Sequence[Block], quantity: str, chosen: tuple[int, int]) -> Heatmap:
    """One quantity of the stream, state or block by token."""
    values, before = (quantity_of(get, parts, quantity) for get in (inputs.now, inputs.before))
    assert values is not None
    cosine = quantity == "cosine"
    scale = scale_of(array(values), quantity_name(quantity), signed=cosine, high=1.0 if cosine else None)
    names = state_labels(parts) if quantity == "length" else block_labels(parts)
    row, column = min(chosen[0], len(names) - 1), chosen[1]
    rows, columns = step_axis(Message("after block"), stack, names), tokens_axis(inputs, stack)
    note = cell_note(names[row], inputs.trace.tokens_of(stack + ".")[column], values[row, column])
    sentence, about = lacking(inputs, before) or most_added(inputs, parts), about_stream(inputs.config, quantity)
    above = caption(inputs, Message("After each block"), f"stream-{stack}-{quantity}", note, sentence, about=about)
    return Heatmap(above, compared(values, before), rows, columns, scale, chosen=row, column=column, large=True)


def most_added(inputs: Inputs, parts: Sequence[Block]) -> str:
    """Sentence on the block that adds most to the stream; empty where that is not recorded."""
    added = contributions(inputs.now, parts)
    if added is None:
        return ""
    shares = added[0].mean(dim=-1)
    most = int(shares.argmax())
    return Message(
        "{block} changes the stream most: what it adds is {share} times as long, on average over the tokens.",
        block=block_labels(parts)[most],
        share=significant(float(shares[most])),
    )


def step_axis(title: str, stack: str, names: Sequence[str]) -> Axis:
    """The stream's states or blocks; those of a stack are lit together."""
    return Axis(title, names, f"{stack} {len(names)} states", prose=True)


def stream_chart(inputs: Inputs, stack: str, parts: Sequence[Block], quantity: str, position: int) -> Chart:
    """The same quantity over the steps: its mean and the chosen token, and every token while they are few."""
    values, other = (quantity_of(get, parts, quantity) for get in (inputs.now, inputs.before))
    assert values is not None
    tokens = [token_sign(token) for token in inputs.trace.tokens_of(stack + ".")]
    own, before = array(values), None if other is None else array(other)
    places = np.arange(len(own))
    series: list[Series] = []
    if len(tokens) <= SPELLED:
        series += [
            Series(token, places, own[:, place], "rgba(128,128,128,0.45)", quiet=True)
            for place, token in enumerate(tokens)
            if place != position
        ]
    chosen = Compared(own[:, position], None if before is None else before[:, position])
    mean = Compared(own.mean(axis=1), None if before is None else nan_mean(before))
    series += [Series(tokens[position], places, chosen, SECOND), Series(Message("mean"), places, mean, FIRST)]
    names = state_labels(parts) if quantity == "length" else block_labels(parts)
    name, x = quantity_name(quantity), step_axis(Message("after block"), stack, names)
    note = f"{significant(float(own[0].mean()))} … {significant(float(own[-1].mean()))}"
    sentence, about = lacking(inputs, other), about_curves(inputs.config, quantity)
    above = caption(inputs, name, f"stream-{stack}-{quantity}-curves", note, sentence, about=about)
    return Chart(above, series, x, Axis(name, zero=True), tall=150)


def cosine_map(inputs: Inputs, stack: str, parts: Sequence[Block]) -> Heatmap:
    """The cosine of every state of the stream with every other, mean over the tokens."""
    own, before = (stream(get, states(parts)) for get in (inputs.now, inputs.before))
    assert own is not None
    values, other = cosines(own), None if before is None else cosines(before)
    names = state_labels(parts)
    note = cell_note(names[0], names[-1], values[0, -1])
    about = About(
        Message("How alike the stream is after any two blocks, a row and a column: its cosine, mean over the tokens."),
        [r"\frac1n \sum_p \frac{x_{l,p} \cdot x_{m,p}}{\lVert x_{l,p} \rVert\, \lVert x_{m,p} \rVert}"],
        [cosines],
        meaning=Message("Where neighbours are near 1 a block adds little, and the stream turns slowly."),
    )
    name, file = Message("Cosine between layers"), f"stream-{stack}-cosines"
    above = caption(inputs, name, file, note, lacking(inputs, other), about=about)
    rows, columns = (step_axis(title, stack, names) for title in (Message("state after"), Message("and after")))
    scale = scale_of(array(values), Message("cosine"), signed=True, high=1.0)
    return Heatmap(above, compared(values, other), rows, columns, scale)


def stream_table(inputs: Inputs, stack: str, parts: Sequence[Block]) -> pd.DataFrame:
    """A row per block and token: the stream that it reads and leaves, and what it adds."""
    length, share, cosine = (quantity_of(inputs.now, parts, quantity) for quantity in QUANTITIES)
    assert length is not None
    assert share is not None
    assert cosine is not None
    tokens, after = inputs.trace.tokens_of(stack + "."), Message("norm after")
    table: dict[str, Any] = {
        Message("block"): [label for label in block_labels(parts) for _token in tokens],
        Message("position"): np.tile(np.arange(1, len(tokens) + 1), len(parts)),
        Message("token"): np.tile(tokens, len(parts)),
        Message("norm before"): array(length[:-1]).flatten(),
        after: array(length[1:]).flatten(),
        quantity_name("share"): array(share).flatten(),
        quantity_name("cosine"): array(cosine).flatten(),
    }
    before = quantity_of(inputs.before, parts, "length")
    if before is not None:
        table[Message("{name}, pinned", name=after)] = array(before[1:]).flatten()
    return frame_of(table)


def nan_mean(values: np.ndarray) -> np.ndarray:
    """Mean over the tokens that the pinned text has too; NaN where it has none of them."""
    there = ~np.isnan(values)
    return np.where(there.any(axis=1), np.nansum(values, axis=1) / np.maximum(there.sum(axis=1), 1), np.nan)


def sum_sentence(inputs: Inputs, parts: Sequence[Block]) -> Message:
    """The largest error of "what a block read, plus what it wrote, is the stream after it"."""
    if not inputs.config.residual:
        return Message("This model has no residual: each block's output replaces the stream; what stood there is lost.")
    error = significant(sum_error(inputs.trace, inputs.config, parts))
    return Message("x + y is the stream recorded after each block; largest error {error}", error=error)


def stream_formula(config: TransformerConfig) -> str:
    """Formula of the stream after a block."""
    added = (r"x_l + " if config.residual else "") + r"\mathrm{Block}_l(x_l)"
    post = config.norm_placement == "post" and config.norm != "none"
    return r"x_{l+1} = " + (rf"\mathrm{{Norm}}({added})" if post else added)


STREAM = {
    "length": r"\lVert x_{l,p} \rVert",
    "share": r"\frac{\lVert y_{l,p} \rVert}{\lVert x_{l,p} \rVert}, \quad y_l = \mathrm{Block}_l(x_l)",
    "cosine": r"\frac{y_{l,p} \cdot x_{l,p}}{\lVert y_{l,p} \rVert\, \lVert x_{l,p} \rVert}, "
    r"\quad y_l = \mathrm{Block}_l(x_l)",
}


def about_stream(config: TransformerConfig, quantity: str) -> About:
    """Explanation of the map, for the quantity that it shows."""
    sentence = {
        "length": Message("A row is a block, a column a token: how long the residual stream is after the block."),
        "share": Message(
            "A row is a block, a column a token: how long what it writes is, as a part of what it has read."
        ),
        "cosine": Message(
            "A row is a block, a column a token: whether it writes along the stream, 1, or against it, −1."
        ),
    }[quantity]
    return _about(config, quantity, sentence)


def about_curves(config: TransformerConfig, quantity: str) -> About:
    """Explanation of the curves over the steps."""
    sentence = {
        "length": Message(
            "How long the residual stream is after each block: of the chosen token, and the mean of all."
        ),
        "share": Message(
            "How long what each block writes is, beside what it has read: of the chosen token, and the mean."
        ),
        "cosine": Message(
            "Whether each block writes along the stream, 1, or against it, −1: the chosen token, and the mean."
        ),
    }[quantity]
    return _about(config, quantity, sentence)


def _about(config: TransformerConfig, quantity: str, sentence: str) -> About:
    meaning = {
        "length": Message(
            "A step up is a block that writes much; the norms in front of the blocks make this growth harmless."
        ),
        "share": Message(
            "Near 0 a block leaves the stream nearly as it was; near 1 it writes as much as was there before."
        ),
        "cosine": Message("Near 0 it writes something new; below 0 it takes away what earlier blocks have written."),
    }[quantity]
    if quantity == "length":
        formulas, block = [STREAM[quantity], stream_formula(config)], BLOCKS[config.norm_placement]
        return About(sentence, formulas, [block], meaning=meaning)
    return About(sentence, [STREAM[quantity]], [contributions], meaning=meaning)


def explain(key: str, config: TransformerConfig) -> None:
    explanation(
        key,
        _(
            "Each token has one vector that runs through the whole model, and every block adds what it has computed "
            "to it. Here is how long that vector is after each block, and how much each block changes it."
        ),
        [stream_formula(config)],
        _(
            "The residual stream (Vaswani et al., section 3.1; He et al., 2015; Elhage et al., 2021): every block adds "
            "to it, y to x. Shown are ‖x‖ after each block, ‖y‖ / ‖x‖ and the cosine of y with x: near 0, a block "
            "writes something new; below 0, it takes something away. With post-norm the stream after a block is the "
            "norm's output. This is the code that has just run:"
        ),
        *(BLOCKS[config.norm_placement], Residual if config.residual else NoResidual, contributions),
    )
