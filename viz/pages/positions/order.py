"""The text backwards, in the model with positions and without: a sequence, or a set (claim 13)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import streamlit as st
from torch import Tensor

from model.analysis.comparison import moved
from model.analysis.positions import order_difference, reversed_order, states_beside, token_states
from model.inference.copies import vary
from model.inference.text_model import TextModel
from model.message import Message
from model.network.masks import Mask
from model.network.positions import NoPositions
from model.text.tokenizer import Tokens
from viz.figures.axis import Axis, scale_of
from viz.figures.chart import Chart, Series
from viz.figures.colours import FIRST, PINNED, SECOND
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _
from viz.i18n.format import not_ours, significant
from viz.render.view import view
from viz.state.pin import cached_for_pin
from viz.state.position_override import as_trained
from viz.state.session import current_session
from viz.ui.choice_row import ChoiceRow
from viz.ui.parts import Drawing, Placed, Views, data_table, expander, explanation, frame_of
from viz.ui.plots import array, caption, compared

if TYPE_CHECKING:
    from model.capture.trace import Trace
    from viz.state.inputs import Inputs


@dataclass(frozen=True)
class Reversal:
    """A text and its reverse in one model: the difference at each token, and the cosine of each pair of states."""

    differences: Tensor
    cosines: Tensor

    @property
    def most(self) -> float:
        return float(self.differences.nan_to_num(nan=0.0).max())


Reversals = tuple[Reversal, Reversal]


def section(model: TextModel, row: ChoiceRow) -> Views:
    sentence_place = st.container()
    left, right = st.columns(2, gap="medium")
    along, aside = st.columns(2, gap="medium")
    with aside:
        explain()
        data = expander("order_data", _("Data"))

    def views(model: TextModel) -> Drawing:
        session = current_session()
        inputs, trained = session.inputs, as_trained(model)
        order = order_of(inputs.trace, inputs.source)
        runs = session.cached("order", (inputs.trace, model), lambda: reversals(trained, model, inputs.source, order))
        before, lacking = pinned_reversals(inputs)
        parts: list[Placed] = [
            (left, view("order_off", cosine_map(inputs, order, runs[0], before and before[0], on=False))),
            (right, view("order_on", cosine_map(inputs, order, runs[1], before and before[1], on=True))),
            (along, view("order_differences", differences_chart(inputs, order, runs, before))),
        ]
        yield parts

        def rest() -> None:
            sentence_place.text("\n".join(filter(None, [*verdicts(model, *runs), lacking])))
            table = partial(differences_table, inputs, order, runs, before)
            data_table("order_data", table, "order", place=data, parts=parts)

        return rest

    return views


def order_of(trace: Trace, text: Tokens) -> list[int]:
    """Places of the tokens in the reversed text, in which special ones stay."""
    return reversed_order([label in trace.special_labels for label in text.labels])


def reversals(trained: TextModel, model: TextModel, given: Tokens, order: list[int]) -> Reversals:
    """Text backwards without positions, and with them as they are."""
    without = vary(trained, position="none", max_length=model.config.max_length)
    off, on = (
        Reversal(order_difference(each.network, given.ids, order), states_beside(each.network, given.ids, order))
        for each in (without, model)
    )
    return off, on


def pinned_reversals(inputs: Inputs) -> tuple[Reversals | None, str]:
    """Reversals of the pinned text in the pinned model, at this text's tokens; or a sentence why there is none."""
    pin, trace = inputs.pin, inputs.trace
    if pin is None or inputs.comparison is None:
        return None, ""
    text = pin.texts[0]
    if not pin.model.network.ours:
        return None, _("pinned: {reason}").format(reason=not_ours())
    order = order_of(pin.trace, text)
    pair = cached_for_pin(pin, "order", (), lambda: reversals(pin.model, pin.model, text, order))
    places = inputs.comparison.source.places
    backwards = [places[at] for at in reversed_order([label in trace.special_labels for label in trace.source_tokens])]
    column_of = {at: column for column, at in enumerate(order)}
    columns = [column_of.get(at, -1) for at in backwards]
    off, on = (
        Reversal(moved(each.differences, columns, 0), moved(moved(each.cosines, places, 0), columns, 1))
        for each in pair
    )
    return (off, on), ""


def verdicts(model: TextModel, off: Reversal, on: Reversal) -> list[str]:
    """Sentences on the numbers, with the reason where a causal mask tells the order."""
    size = _("The text is read forwards and with its tokens reversed; each token's two states are compared.")
    sentence = _("Positions off: largest difference {off}, {verdict} With positions: {on}.")
    same = off.most < 1e-3 * max(1.0, on.most)
    verdict = (
        _("so the outputs are a permutation of each other: the model sees a set.")
        if same
        else _("so the order is still noticed.")
    )
    sentences = [size, sentence.format(off=significant(off.most), on=significant(on.most), verdict=verdict)]
    if model.kind == "decoder-only":
        sentences.append(_("A causal mask lets each token see only those before it, which tells the order too."))
    elif model.config.windowed:
        sentences.append(_("The attention reaches a window of neighbours only, which tells the order too."))
    return sentences


def cosine_map(inputs: Inputs, order: list[int], reversal: Reversal, before: Reversal | None, *, on: bool) -> Heatmap:
    """Cosine of each state of the text with each state of its reverse."""
    sentence: str = Message("largest difference {most}", most=significant(reversal.most))
    if before is not None:
        sentence = Message("{value} (pinned: {pinned})", value=sentence, pinned=significant(before.most))
    labels = inputs.source.labels
    rows = Axis(Message("token, forwards"), labels, "source")
    columns = Axis(Message("token, reversed"), [labels[place] for place in order], "source", order)
    about = About(
        Message("How alike each token's last state, a row, is to those of the text read backwards, the columns."),
        [
            r"\cos\left(f(x)_i,\, f(x_\pi)_j\right) = \frac{f(x)_i \cdot f(x_\pi)_j}"
            r"{\lVert f(x)_i \rVert\, \lVert f(x_\pi)_j \rVert}, \quad x_\pi = (x_{\pi(1)}, \ldots, x_{\pi(n)})"
        ],
        [states_beside],
        meaning=Message("Where a token meets itself, 1 means that its place made no difference."),
    )
    name = Message("Positions as they are") if on else Message("Positions off")
    above = caption(inputs, name, "order_on" if on else "order_off", sentence=sentence, about=about)
    values = compared(reversal.cosines, None if before is None else before.cosines)
    return Heatmap(above, values, rows, columns, scale_of(values.now, Message("cosine"), signed=True, high=1.0))


RUNS = Message("positions off"), Message("positions as they are")


def differences_chart(inputs: Inputs, order: list[int], pair: Reversals, before: Reversals | None) -> Chart:
    """Distance that each token's state moves, without positions and with them."""
    runs: list[tuple[str, Reversal, str, str]] = list(zip(RUNS, pair, (FIRST, SECOND), ("line", "line"), strict=True))
    for name, each, mark in zip(RUNS, before or (), ("dots", "line"), strict=False):
        runs.append((Message("{name}, pinned", name=name), each, PINNED, mark))
    sequence = np.argsort(order)
    series = [
        Series(name, np.array(order)[sequence], array(each.differences)[sequence], colour, mark, colour == PINNED)
        for name, each, colour, mark in runs
    ]
    about = About(
        Message("How far each token's last state moves when the text is read backwards: 0 where the model sees a set."),
        [r"\max_c \left| f(x)_{\pi(i),\,c} - f(x_\pi)_{i,\,c} \right|"],
        [order_difference],
        meaning=Message("Attention alone reads a bag of tokens: only positions tell it their order."),
    )
    above = caption(inputs, Message("Largest difference of a token's two states"), "order-differences", about=about)
    x, y = Axis(Message("token"), inputs.source.labels, "source"), Axis(Message("difference"), log=True)
    return Chart(above, series, x, y, tall=170, of=Message("quantity"))


def differences_table(inputs: Inputs, order: list[int], pair: Reversals, before: Reversals | None) -> pd.DataFrame:
    columns: dict[str, Any] = {Message("token"): [inputs.source.labels[place] for place in order]}
    columns |= {name: run.differences.tolist() for name, run in zip(RUNS, pair, strict=True)}
    for name, run in zip(RUNS, before or (), strict=False):
        columns[Message("{name}, pinned", name=name)] = run.differences.tolist()
    return frame_of(columns)


def explain() -> None:
    explanation(
        "order_explanation",
        _(
            "Attention alone does not know in which order words stand: shuffle them, and the same outputs come out "
            "shuffled. Only the positions tell the model which word comes first."
        ),
        [r"f(x_{\pi(1)}, \ldots, x_{\pi(n)})_i = f(x_1, \ldots, x_n)_{\pi(i)} \quad \text{for every order } \pi"],
        _(
            "Attention is a sum over a set, and the rest of a layer acts on each token alone: without positions and "
            "without a causal mask, the outputs of a text in another order are the same outputs in that order (Vaswani "
            "et al., section 3.5, is the remedy). Left, this is computed with the model's weights and positions "
            "switched off; right, with its positions. This is the code that has just run:"
        ),
        *(reversed_order, token_states, order_difference, NoPositions, Mask),
    )
