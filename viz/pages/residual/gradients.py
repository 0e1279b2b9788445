"""Gradients: how large the gradient of the text's loss is in every block, head and state of the stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from model.analysis.gradients import (
    BLOCKS,
    LossGradients,
    Size,
    loss_gradients,
    memory_needed,
    pass_costs,
)
from model.analysis.predictions import UNKNOWN, actual_tokens, losses
from model.analysis.residual import blocks, states
from model.inference.copies import differentiable
from model.message import Message
from model.network.config import TWO_STACKS, TransformerConfig
from viz.figures.axis import Axis, Scale, largest, scale_of
from viz.figures.chart import Chart, Series
from viz.figures.colours import EXPECTED, FIFTH, FIRST, FOURTH, PINNED, SECOND, THIRD
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.figures.panels import Panel, Panels
from viz.i18n.catalogue import _, ngettext
from viz.i18n.errors import translate_error
from viz.i18n.format import bytes_text, no_predictions, significant
from viz.i18n.messages import joined
from viz.i18n.names import attention_title
from viz.pages.residual.stream import state_labels, step_axis
from viz.state.pin import cached_for_pin
from viz.ui.parts import explanation, frame_of
from viz.ui.plots import array, caption, cell_note, compared, head_panel, lacking, mean_notes, tokens_axis

if TYPE_CHECKING:
    import pandas as pd

    from model.capture.trace import AttentionKind, Trace
    from model.inference.text_model import TextModel
    from model.text.tokenizer import Tokens
    from viz.state.inputs import Inputs
    from viz.state.session import Session

QUANTITIES = ("gradient", "relative")
STREAM_QUANTITIES = ("length", "growth")
LOSS = r"L = -\frac{1}{n} \sum_t \ln p(y_t)"
LIGHT = 5e10  # operations of a pass and its gradients that take about a second on one core
SMALL = 5e8  # bytes that are taken without being asked for
ASKED = "gradients_asked"  # in the session: the trace whose gradients were asked for
COLOURS = dict(zip(BLOCKS, (FOURTH, FIRST, THIRD, SECOND, FIFTH, EXPECTED), strict=True))


def quantity_name(quantity: str) -> str:
    return {"gradient": "‖∂L/∂W‖", "relative": "‖∂L/∂W‖ / ‖W‖"}[quantity]


def stream_quantity_name(quantity: str) -> str:
    return {"length": "‖∂L/∂x‖", "growth": Message("log₁₀, against the last state")}[quantity]


def block_name(block: str) -> Message:
    return {
        "embedding": Message("embedding"),
        "self_attention": Message("self-att."),
        "cross_attention": Message("cross"),
        "feed_forward": Message("FFN"),
        "norm": Message("norms"),
        "output": Message("output"),
    }[block]


@dataclass(frozen=True)
class Subject:
    """A trace, the tokens that it read, and those that its logits are asked for."""

    model: TextModel
    trace: Trace
    texts: tuple[Tokens, Tokens | None]
    actual: tuple[int, ...]

    @property
    def lengths(self) -> list[int]:
        return [len(text) for text in self.texts if text is not None]

    @property
    def is_light(self) -> bool:
        network = self.trace.network
        quick = pass_costs(network.config, self.lengths).training_flops < LIGHT
        return quick and memory_needed(network, self.lengths) < SMALL

    def compute(self) -> LossGradients:
        return loss_gradients(self.trace, [text.ids for text in self.texts if text is not None], self.actual)

    @property
    def recorded_loss(self) -> float:
        """Mean loss of the trace's own logits."""
        logits = self.trace["output.logits"]
        return float(losses(logits, torch.tensor(self.actual, device=logits.device)).nanmean())


def subject(model: TextModel, trace: Trace, texts: tuple[Tokens, Tokens | None], ended: bool) -> Subject:
    tokenizer = model.target_tokenizer
    end = tokenizer.end if ended else None
    return Subject(
        model, trace, texts, tuple(actual_tokens(model.kind, (texts[1] or texts[0]).ids, end, tokenizer.mask))
    )


def refusal(model: TextModel) -> str:
    """Reason why a model has no gradients to show; empty if it has."""
    if not model.predicts:
        return no_predictions()
    if not model.network.ours:
        return _(
            "This model is run by transformers' own code: gradients are taken of networks that are built here, of our "
            "own models and of the families that are rebuilt as ours."
        )
    return ""


@dataclass(frozen=True)
class Gradients:
    """Gradients of the text and, where there are such, of the pinned one."""

    subject: Subject
    own: LossGradients
    pinned: LossGradients | None = None


@dataclass(frozen=True)
class NoGradients:
    """Reason why there are none; without a sentence they take long, and wait to be asked for."""

    subject: Subject
    sentence: str = ""


def gradients_of(session: Session) -> Gradients | NoGradients:
    """Gradients of the session's trace: computed now where that is quick, or was asked for."""
    own_subject = subject(session.model, session.trace, (session.source, session.target), session.ended)
    if session.training.moving and session.training.step is not None:
        sentence = _("While this model is trained its gradients are not computed: pause the training to see them.")
        return NoGradients(own_subject, sentence)
    if all(token == UNKNOWN for token in own_subject.actual):
        return NoGradients(own_subject, _("No actual token is known here: there is no loss to take gradients of."))
    requested = session.memory.get(ASKED) is own_subject.trace
    if not (own_subject.is_light or requested):
        return NoGradients(own_subject)
    try:
        own = session.cached("gradients", (own_subject.trace, own_subject.actual), own_subject.compute)
    except ValueError as error:
        return NoGradients(own_subject, translate_error(error))
    return Gradients(own_subject, own, pinned_gradients(session, requested))


def pinned_gradients(session: Session, requested: bool) -> LossGradients | None:
    """Gradients of the pinned trace; None where it has none, or they take long and were not asked for."""
    pin = session.pin
    if pin is None or refusal(pin.model):
        return None
    of_pin = subject(pin.model, pin.trace, pin.texts, pin.ended)
    ready = of_pin.is_light or requested or "gradients" in pin.cache
    if not ready or all(token == UNKNOWN for token in of_pin.actual):
        return None
    try:
        return cached_for_pin(pin, "gradients", (pin.trace,), of_pin.compute)
    except ValueError:  # they do not fit into memory beside the others
        return None


def ask(session: Session) -> None:
    session.memory[ASKED] = session.trace


def offer_words(subject: Subject) -> str:
    """Memory that the gradients of a large model take."""
    size = memory_needed(subject.trace.network, subject.lengths)
    return _("Compute the gradients (about {memory} of memory)").format(memory=bytes_text(size))


def stream_values(get: Callable[[str], Tensor | None], names: Sequence[str], quantity: str) -> Tensor | None:
    """(state, position) values of the heatmap; None where a state is missing."""
    rows = [row for name in names if (row := get(name)) is not None]
    if len(rows) < len(names):
        return None
    values = torch.stack(rows)
    return values if quantity == "length" else (values / values[-1][values[-1] != 0].nanmean()).log10()


def stream_map(inputs: Inputs, stack: str, gradients: Gradients, quantity: str, chosen: tuple[int, int]) -> Heatmap:
    """‖∂L/∂x‖ of every state of the stream at every token, or how many powers of ten it is above the last state's."""
    parts = blocks(inputs.config, stack)
    own, pinned, names = gradients.own, gradients.pinned, states(parts)

    def before(name: str) -> Tensor | None:
        if pinned is None or inputs.comparison is None or name not in pinned.stream:
            return None
        return inputs.comparison.moved(name, pinned.stream[name])

    values = stream_values(own.stream.get, names, quantity)
    assert values is not None
    other = stream_values(before, names, quantity)
    if other is not None and other.shape != values.shape:
        other = None
    signed, title = quantity == "growth", "‖∂L/∂x‖" if quantity == "length" else "log₁₀ ‖∂L/∂x‖ / ‖∂L/∂x_last‖"
    independent = values == (0 if quantity == "length" else -math.inf)
    values = values.masked_fill(independent, 0.0)
    row, column = min(chosen[0], len(names) - 1), chosen[1]
    labels = state_labels(parts)
    note = cell_note(labels[row], inputs.trace.tokens_of(stack + ".")[column], own.stream[names[row]][column])
    name, file = Message("Gradient in the stream"), f"gradients-{stack}-{quantity}"
    return Heatmap(
        caption(inputs, name, file, note, lacking(inputs, other), about=about_stream(quantity)),
        compared(values, other),
        step_axis(Message("after block"), stack, labels),
        tokens_axis(inputs, stack),
        scale_of(array(values), title, signed=signed),
        ~independent.cpu().numpy(),
        large=True,
        chosen=row,
        column=column,
        words={"masked": Message("no token's loss depends on this state")},
    )


def value_of(size: Size | None, quantity: str) -> float:
    return math.nan if size is None else float(getattr(size, quantity))


def block_chart(inputs: Inputs, stack: str, gradients: Gradients, quantity: str) -> Chart:
    """The gradient of each block's weights, layer by layer; that of the pinned text dashed."""
    own, before = gradients.own.parts, gradients.pinned.parts if gradients.pinned else {}
    places = range(-1, 1 + max(place for each, place, _block in own if each == stack))
    series: list[Series] = []
    for block in BLOCKS:
        for parts, pinned in ((own, False), (before, True)):
            values = np.array([value_of(parts.get((stack, place, block)), quantity) for place in places])
            values[values == 0] = math.nan
            at = np.flatnonzero(~np.isnan(values))
            if at.size == 0:
                continue
            name = Message("{name}, pinned", name=block_name(block)) if pinned else block_name(block)
            mark = "line" if at.size > 1 else "dots"
            colour = PINNED if pinned and mark == "dots" else COLOURS[block]
            series.append(Series(name, at, values[at], colour, mark, dash=pinned))
    name, file, about = (
        Message("Gradient of the weights"),
        f"gradients-{stack}-blocks-{quantity}",
        about_blocks(quantity),
    )
    above = caption(inputs, name, file, sentence=lacking(inputs, gradients.pinned), about=about)
    x = Axis(Message("layer"), [place_name(inputs.config, stack, place) for place in places], prose=True)
    return Chart(above, series, x, Axis(quantity_name(quantity), log=True), tall=190)


def kinds_of(model: TextModel, stack: str) -> list[AttentionKind]:
    """Kinds of attention of a stack."""
    if stack == "encoder":
        return ["encoder"]
    return ["decoder", "cross"] if model.kind in TWO_STACKS else ["decoder"]


def of_heads(gradients: LossGradients | None, kinds: Sequence[AttentionKind], quantity: str) -> Tensor | None:
    """(kind, projection, layer, head) values; None where there are no such heads."""
    if gradients is None or not all(kind in gradients.heads for kind in kinds):
        return None
    values: Tensor = torch.stack([gradients.heads[kind] for kind in kinds], dim=1)
    gradient, weights = values[0], values[1]
    return gradient if quantity == "gradient" else gradient / weights


def head_panels(inputs: Inputs, stack: str, gradients: Gradients, quantity: str, difference: bool) -> Panels:
    """Each head's part of W_Q, W_K, W_V and W_O: a matrix (layer, head) each, and a line for a kind of attention.

    difference: from the pinned ones, where there are such.
    """
    kinds = kinds_of(inputs.model, stack)
    values, other = (of_heads(each, kinds, quantity) for each in (gradients.own, gradients.pinned))
    assert values is not None
    if other is not None and other.shape != values.shape:
        other = None
    both, title = compared(values, other), quantity_name(quantity)
    drawn, scale = both.now, scale_of(both.now, title)
    if difference and other is not None:
        drawn, top = both.difference, largest(both.difference)
        scale = Scale(-top, top, Message("{name}, minus pinned", name=title), True)
    layers, heads = values.shape[2:]
    chosen = min(inputs.selection.layer, layers - 1), min(inputs.selection.head, heads - 1)
    panels: list[Panel] = []
    notes = mean_notes([array(each) for of_kind in values for each in of_kind])
    for line, kind in enumerate(kinds):
        for number, matrix in enumerate(("W_Q", "W_K", "W_V", "Wᴼ")):
            name = joined(" ", attention_title(kind), matrix) if len(kinds) > 1 else matrix
            note = notes[4 * line + number]
            panels.append(head_panel(name, drawn[line, number], scale, chosen, note=note, line=line))
    sentence = joined(" · ", scale.title, Message("one scale for all heads"), lacking(inputs, other))
    name, file = Message("Gradient of each head"), f"gradients-{stack}-heads-{quantity}"
    above = caption(inputs, name, file, sentence=sentence, about=about_heads(quantity))
    titles = (Message("layer"), Message("head"), Message("value"), Message("masked"))
    return Panels(above, panels, slot=96, cell=20, cells=titles)


def loss_sentence(gradients: Gradients) -> str:
    """The loss whose gradients these are, and how far it is from the trace's own."""
    own, kind = gradients.own, gradients.subject.model.kind
    error = significant(abs(own.loss - gradients.subject.recorded_loss))
    if kind == "encoder-only":
        sentence = ngettext(
            "L is the mean loss of {count} token, {loss} nats; the model could see it. That of the trace differs by "
            "{error}.",
            "L is the mean loss of {count} tokens, {loss} nats; the model could see them. That of the trace differs by "
            "{error}.",
            own.tokens,
        )
    elif kind in TWO_STACKS:
        sentence = ngettext(
            "L is the loss of the target's {count} next token, {loss} nats. That of the trace differs by {error}.",
            "L is the mean loss of the target's {count} next tokens, {loss} nats. That of the trace differs by "
            "{error}.",
            own.tokens,
        )
    else:
        sentence = ngettext(
            "L is the loss of the text's {count} next token, {loss} nats. That of the trace differs by {error}.",
            "L is the mean loss of the text's {count} next tokens, {loss} nats. That of the trace differs by {error}.",
            own.tokens,
        )
    return sentence.format(count=f"{own.tokens:,}", loss=significant(own.loss), error=error)


def table(config: TransformerConfig, gradients: Gradients) -> pd.DataFrame:
    """A row per stack, layer and block."""
    parts, pinned = gradients.own.parts, gradients.pinned
    columns: dict[str, list[Any]] = {
        Message("Stack"): [attention_title(stack) for stack, _layer, _block in parts],
        Message("layer"): [place_name(config, stack, layer) for stack, layer, _block in parts],
        Message("block"): [block_name(block) for _stack, _layer, block in parts],
        "‖∂L/∂W‖": [size.gradient for size in parts.values()],
        "‖W‖": [size.weights for size in parts.values()],
        quantity_name("relative"): [size.relative for size in parts.values()],
    }
    if pinned is not None:
        before = [value_of(pinned.parts.get(part), "gradient") for part in parts]
        columns[Message("{name}, pinned", name="‖∂L/∂W‖")] = before
    return frame_of(columns)


def place_name(config: TransformerConfig, stack: str, layer: int) -> str:
    """Name of the weights' place: in a layer, counted from 1, before the first or after the last."""
    layers = config.n_encoder_layers if stack == "encoder" else config.n_decoder_layers
    return Message("embedding") if layer < 0 else Message("end") if layer == layers else str(layer + 1)


def about_stream(quantity: str) -> About:
    sentence = Message(
        "How much the loss would change where a token's vector after a block does: rows blocks, columns tokens."
    )
    formula = r"\left\lVert \frac{\partial L}{\partial x_{l,t}} \right\rVert"
    if quantity != "length":
        last = r"\left\lVert \partial L / \partial x_{\mathrm{last},t} \right\rVert"
        formula = rf"\log_{{10}} \frac{{\left\lVert \partial L / \partial x_{{l,t}} \right\rVert}}{{{last}}}"
    return About(
        sentence,
        [LOSS, formula],
        [loss_gradients],
        meaning=Message("Where it fades from the last block to the first, the first ones hardly learn."),
    )


def about_blocks(quantity: str) -> About:
    sentence = Message(
        "The length of the loss's gradient over all weights of a block, by layer: how strongly a step moves it."
    )
    return About(
        sentence,
        [LOSS, _size(quantity, "W")],
        [loss_gradients],
        meaning=Message("Bars of one height mean that all layers learn at one pace."),
    )


def about_heads(quantity: str) -> About:
    sentence = Message("The same of each head's own part of the four matrices: rows are layers, columns heads.")
    return About(
        sentence,
        [LOSS, _size(quantity, "W_h")],
        [loss_gradients],
        meaning=Message("A faint one learns little from this text."),
    )


def _size(quantity: str, weights: str) -> str:
    """The formula of what is drawn of a gradient."""
    length = rf"\left\lVert \frac{{\partial L}}{{\partial {weights}}} \right\rVert"
    return length if quantity == "gradient" else rf"{length} \Big/ \lVert {weights} \rVert"


def explain(key: str) -> None:
    explanation(
        key,
        _(
            "Training asks of every weight and every vector: if this were a little larger, how much would the loss "
            "change? The answer is the gradient; here is how large it is along the model, from the output back to the"
            " embeddings."
        ),
        [
            LOSS + r" \qquad "
            r"g_W = \frac{\partial L}{\partial W} \qquad g_x = \frac{\partial L}{\partial x_{l,t}}"
        ],
        _(
            "A training step moves the weights against these gradients (Vaswani et al., section 5.3). Gradients of the "
            "stream that shrink from the last layer to the first vanish, those that grow explode (Pascanu et al., "
            "2013, section 2); those of post-norm weights are large near the output (Xiong et al., 2020, section 3.3). "
            "A head has rows of W_Q, W_K and W_V, and columns of Wᴼ. A matrix that embeddings and output share counts "
            "where it stands first, with the sum of its gradients. All is of this text alone, without dropout and "
            "label smoothing. One more forward pass and one backward pass have run, on a copy that shares the weights:"
        ),
        *(loss_gradients, differentiable),
    )
