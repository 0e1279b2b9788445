"""Gradients: how large the gradient of the text's loss is in every block, head and state of the stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
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
from model.network.config import TWO_STACKS
from viz.components.view import Answer
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.figures.panels import Panel, Panels
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import attention_name, bytes_text, no_predictions, significant
from viz.pages.residual.stream import state_labels, step_axis
from viz.render.view import FigureView, view
from viz.state.pin import cached_for_pin
from viz.ui.parts import explanation
from viz.ui.plots import (
    FIRST,
    FOURTH,
    PINNED,
    SECOND,
    THIRD,
    cell_note,
    head_panel,
    heading,
    levels,
    missing,
    token_axis,
)

if TYPE_CHECKING:
    from model.capture.trace import AttentionKind, Trace
    from model.inference.text_model import TextModel
    from model.text.tokenizer import Tokens
    from viz.state.session import Session

QUANTITIES = ("gradient", "relative")
STREAM_QUANTITIES = ("length", "growth")
LOSS = r"L = -\frac{1}{n} \sum_t \ln p(y_t)"
LIGHT = 5e10  # operations of a pass and its gradients that take about a second on one core
SMALL = 5e8  # bytes that are taken without being asked for
ASKED = "gradients_asked"  # in the session: the trace whose gradients were asked for
COLOURS = dict(zip(BLOCKS, (FOURTH, FIRST, THIRD, SECOND, "#2a9d8f", "#888888"), strict=True))


def quantity_name(quantity: str) -> str:
    return {"gradient": "‖∂L/∂W‖", "relative": "‖∂L/∂W‖ / ‖W‖"}[quantity]


def stream_quantity_name(quantity: str) -> str:
    return {"length": "‖∂L/∂x‖", "growth": _("log₁₀, against the last state")}[quantity]


def block_name(block: str) -> str:
    return {
        "embedding": _("embedding"),
        "self_attention": _("self-att."),
        "cross_attention": _("cross"),
        "feed_forward": _("FFN"),
        "norm": _("norms"),
        "output": _("output"),
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


def shown_subject(session: Session) -> Subject:
    return subject(session.model, session.trace, (session.source, session.target), session.ended)


def refusal(model: TextModel) -> str:
    """Why a model has no gradients to show; empty if it has."""
    if not model.predicts:
        return no_predictions()
    if not model.network.ours:
        return _(
            "This model is run by transformers' own code: gradients are taken of networks that are built here, of our "
            "own models and of the families that are rebuilt as ours."
        )
    return ""


@dataclass(frozen=True)
class Found:
    """Gradients of the shown text and, where there are such, of the pinned one.

    sentence: why there are none. costly: they wait to be asked for.
    """

    subject: Subject
    own: LossGradients | None = None
    pinned: LossGradients | None = None
    sentence: str = ""
    costly: bool = False


def found_of(session: Session) -> Found:
    """What there is of the session's trace: computed now where that is quick, or was asked for."""
    shown = shown_subject(session)
    if session.moving and session.step is not None:
        sentence = _("While this model is trained its gradients are not computed: pause the training to see them.")
        return Found(shown, sentence=sentence)
    if all(token == UNKNOWN for token in shown.actual):
        return Found(shown, sentence=_("No actual token is known here: there is no loss to take gradients of."))
    asked = session.memory.get(ASKED) is shown.trace
    if not (shown.is_light or asked):
        return Found(shown, costly=True)
    try:
        own = session.cached("gradients", (shown.trace, shown.actual), shown.compute)
    except ValueError as error:
        return Found(shown, sentence=translate_error(error))
    return Found(shown, own, pinned_gradients(session, asked))


def pinned_gradients(session: Session, asked: bool) -> LossGradients | None:
    """Those of the pinned trace; None where it has none, or they take long and were not asked for."""
    pin = session.pin
    if pin is None or refusal(pin.model):
        return None
    kept = subject(pin.model, pin.trace, pin.texts, pin.ended)
    if all(token == UNKNOWN for token in kept.actual) or not (kept.is_light or asked or "gradients" in pin.made):
        return None
    try:
        return cached_for_pin(pin, "gradients", (pin.trace,), kept.compute)
    except ValueError:  # they do not fit into memory beside the others
        return None


def ask(session: Session) -> None:
    session.memory[ASKED] = session.trace


def offer_words(found: Found) -> str:
    """What the gradients of a large model take."""
    network = found.subject.trace.network
    size = memory_needed(network, found.subject.lengths)
    return _("Compute the gradients (about {memory} of memory)").format(memory=bytes_text(size))


def stream_values(get: Callable[[str], Tensor | None], names: Sequence[str], quantity: str) -> Tensor | None:
    """(state, position) values of the heatmap; None where a state is missing."""
    rows = [row for name in names if (row := get(name)) is not None]
    if len(rows) < len(names):
        return None
    values = torch.stack(rows)
    return values if quantity == "length" else (values / values[-1][values[-1] != 0].nanmean()).log10()


def stream_map(
    session: Session,
    stack: str,
    found: Found,
    own: LossGradients,
    quantity: str,
    chosen: tuple[int, int],
    key: str,
    on_cell: Answer,
) -> FigureView:
    """‖∂L/∂x‖ of every state of the stream at every token, or how many powers of ten it is above the last state's."""
    parts, comparison = blocks(session.model.config, stack), session.comparison
    names, other = states(parts), None

    def kept(name: str) -> Tensor | None:
        if found.pinned is None or comparison is None or name not in found.pinned.stream:
            return None
        return comparison.moved(name, found.pinned.stream[name])

    values = stream_values(own.stream.get, names, quantity)
    assert values is not None
    other = stream_values(kept, names, quantity)
    if other is not None and other.shape != values.shape:
        other = None
    signed, title = quantity == "growth", "‖∂L/∂x‖" if quantity == "length" else "log₁₀ ‖∂L/∂x‖ / ‖∂L/∂x_last‖"
    independent = values == (0 if quantity == "length" else -math.inf)
    shown, scale = levels(values.masked_fill(independent, 0.0), other, session, title, signed=signed)
    row, column = min(chosen[0], len(names) - 1), chosen[1]
    labels = state_labels(parts)
    note = cell_note(labels[row], session.trace.tokens_of(stack + ".")[column], own.stream[names[row]][column])
    file = f"gradients-{stack}-{quantity}"
    about = about_stream(quantity)
    above = heading(session.trace, _("Gradient in the stream"), file, note, missing(session, other), about=about)
    rows, columns = step_axis(_("after block"), stack, labels), token_axis(session.trace, stack)
    words = {"masked": _("no token's loss depends on this state")}
    visible = ~independent.cpu().numpy()
    return view(
        key, Heatmap(above, shown, rows, columns, scale, visible, chosen=row, column=column, words=words), cell=on_cell
    )


def value_of(size: Size | None, quantity: str) -> float:
    return math.nan if size is None else float(getattr(size, quantity))


def block_chart(session: Session, stack: str, found: Found, own: LossGradients, quantity: str, key: str) -> FigureView:
    """The gradient of each block's weights, layer by layer; that of the pinned text dashed."""
    places = range(-1, 1 + max(place for each, place, _block in own.parts if each == stack))
    series: list[Series] = []
    for block in BLOCKS:
        for parts, pinned in ((own.parts, False), (found.pinned.parts if found.pinned else {}, True)):
            values = np.array([value_of(parts.get((stack, place, block)), quantity) for place in places])
            values[values == 0] = math.nan
            at = np.flatnonzero(~np.isnan(values))
            if at.size == 0:
                continue
            name = _("{name}, pinned").format(name=block_name(block)) if pinned else block_name(block)
            mark = "line" if at.size > 1 else "dots"
            colour = PINNED if pinned and mark == "dots" else COLOURS[block]
            series.append(Series(name, at, values[at], colour, mark, dash=pinned))
    lacking = missing(session, found.pinned)
    file, about = f"gradients-{stack}-blocks-{quantity}", about_blocks(quantity)
    above = heading(session.trace, _("Gradient of the weights"), file, "", lacking, about=about)
    y = Axis(quantity_name(quantity), log=True)
    return view(
        key,
        Chart(above, series, Axis(_("layer"), [place_name(session, stack, place) for place in places]), y, tall=190),
    )


def kinds_of(session: Session, stack: str) -> list[AttentionKind]:
    """Kinds of attention of a stack."""
    if stack == "encoder":
        return ["encoder"]
    return ["decoder", "cross"] if session.model.kind in TWO_STACKS else ["decoder"]


def of_heads(found: LossGradients | None, kinds: Sequence[AttentionKind], quantity: str) -> Tensor | None:
    """(kind, projection, layer, head) values; None where there are no such heads."""
    if found is None or not all(kind in found.heads for kind in kinds):
        return None
    values: Tensor = torch.stack([found.heads[kind] for kind in kinds], dim=1)
    gradient, weights = values[0], values[1]
    return gradient if quantity == "gradient" else gradient / weights


def head_panels(
    session: Session, stack: str, found: Found, own: LossGradients, quantity: str, key: str, on_cell: Answer
) -> FigureView:
    """Each head's part of W_Q, W_K, W_V and W_O: a matrix (layer, head) each, and a line for a kind of attention."""
    kinds = kinds_of(session, stack)
    values, other = (of_heads(each, kinds, quantity) for each in (own, found.pinned))
    assert values is not None
    if other is not None and other.shape != values.shape:
        other = None
    shown, scale = levels(values, other, session, quantity_name(quantity))
    layers, heads = values.shape[2:]
    chosen = min(session.selection.layer, layers - 1), min(session.selection.head, heads - 1)
    panels: list[Panel] = []
    for line, kind in enumerate(kinds):
        for number, matrix in enumerate(("W_Q", "W_K", "W_V", "Wᴼ")):
            name = f"{attention_name(kind)} {matrix}" if len(kinds) > 1 else matrix
            note = _("mean {mean}").format(mean=significant(float(values[line, number].mean())))
            panels.append(head_panel(name, shown[line, number], scale, chosen, note=note, line=line))
    said = filter(None, (scale.title, _("one scale for all heads"), missing(session, other)))
    above = heading(
        session.trace,
        _("Gradient of each head"),
        f"gradients-{stack}-heads-{quantity}",
        sentence=" · ".join(said),
        about=about_heads(quantity),
    )
    titles = (_("layer"), _("head"), _("value"), _("masked"))
    return view(key, Panels(above, panels, slot=96, cell=20, cells=titles), cell=on_cell)


def loss_sentence(found: Found, own: LossGradients) -> str:
    """The loss whose gradients these are, and how far it is from the trace's own."""
    error = significant(abs(own.loss - found.subject.recorded_loss))
    loss, count = significant(own.loss), f"{own.tokens:,}"
    if found.subject.model.kind == "encoder-only":
        sentence = _(
            "L is the mean loss of {count} tokens, {loss} nats; the model could see them. That of the trace differs by "
            "{error}."
        )
    elif found.subject.model.kind in TWO_STACKS:
        sentence = _(
            "L is the mean loss of the target's {count} next tokens, {loss} nats. That of the trace differs by {error}."
        )
    else:
        sentence = _(
            "L is the mean loss of the text's {count} next tokens, {loss} nats. That of the trace differs by {error}."
        )
    return sentence.format(count=count, loss=loss, error=error)


def table(session: Session, found: Found, own: LossGradients) -> pd.DataFrame:
    """A row per stack, layer and block."""
    frame = pd.DataFrame(
        {
            _("Stack"): [attention_name(stack) for stack, _layer, _block in own.parts],
            _("layer"): [place_name(session, stack, layer) for stack, layer, _block in own.parts],
            _("block"): [block_name(block) for _stack, _layer, block in own.parts],
            "‖∂L/∂W‖": [size.gradient for size in own.parts.values()],
            "‖W‖": [size.weights for size in own.parts.values()],
            quantity_name("relative"): [size.relative for size in own.parts.values()],
        }
    )
    if found.pinned is not None:
        before = [value_of(found.pinned.parts.get(part), "gradient") for part in own.parts]
        frame[_("{name}, pinned").format(name="‖∂L/∂W‖")] = before
    return frame


def place_name(session: Session, stack: str, layer: int) -> str:
    """Where weights stand: in a layer, counted from 1, before the first or after the last."""
    config = session.model.config
    layers = config.n_encoder_layers if stack == "encoder" else config.n_decoder_layers
    return _("embedding") if layer < 0 else _("end") if layer == layers else str(layer + 1)


def about_stream(quantity: str) -> About:
    sentence = _(
        "How much the loss would change where a token's vector after a block does: rows blocks, columns tokens."
    )
    formula = r"\left\lVert \frac{\partial L}{\partial x_{l,t}} \right\rVert"
    if quantity != "length":
        last = r"\left\lVert \partial L / \partial x_{\mathrm{last},t} \right\rVert"
        formula = rf"\log_{{10}} \frac{{\left\lVert \partial L / \partial x_{{l,t}} \right\rVert}}{{{last}}}"
    return About(sentence, [LOSS, formula], [loss_gradients])


def about_blocks(quantity: str) -> About:
    sentence = _(
        "The length of the loss's gradient over all weights of a block, by layer: how strongly a step moves it."
    )
    return About(sentence, [LOSS, _size(quantity, "W")], [loss_gradients])


def about_heads(quantity: str) -> About:
    sentence = _("The same of each head's own part of the four matrices: rows are layers, columns heads.")
    return About(sentence, [LOSS, _size(quantity, "W_h")], [loss_gradients])


def _size(quantity: str, weights: str) -> str:
    """The formula of what is drawn of a gradient."""
    length = rf"\left\lVert \frac{{\partial L}}{{\partial {weights}}} \right\rVert"
    return length if quantity == "gradient" else rf"{length} \Big/ \lVert {weights} \rVert"


def explain(key: str) -> None:
    explanation(
        key,
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
