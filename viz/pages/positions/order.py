"""The text backwards, in the model with positions and without: a sequence, or a set (claim 13)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from torch import Tensor

from model.analysis.comparison import moved
from model.analysis.positions import order_difference, reversed_order, states_beside, token_states
from model.inference.copies import vary
from model.inference.text_model import TextModel
from model.network.masks import Mask
from model.network.positions import NoPositions
from model.text.tokenizer import Tokens
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _
from viz.i18n.errors import reason_words
from viz.i18n.format import not_ours, significant
from viz.render.view import FigureView, view
from viz.state.pin import cached_for_pin
from viz.state.position_override import as_trained
from viz.state.session import Session, current_session
from viz.ui.parts import Drawing, Views, data_table, expander, explanation, no_views
from viz.ui.plots import PINNED, array, heading, levels

OFF, ON = "#009e73", "#d55e00"


@dataclass(frozen=True)
class Reversal:
    """A text and its reverse in one model: the difference at each token, and the cosine of each pair of states."""

    differences: Tensor
    cosines: Tensor

    @property
    def most(self) -> float:
        return float(self.differences.nan_to_num(nan=0.0).max())


Reversals = tuple[Reversal, Reversal]


def section(model: TextModel, row: DeltaGenerator) -> Views:
    if not model.network.ours:
        st.info(not_ours())
        return no_views
    if why := model.network.missing.get("positions"):
        st.info(reason_words(why))
        return no_views
    said = st.container()
    left, right = st.columns(2, gap="medium")
    along, aside = st.columns(2, gap="medium")
    with aside:
        explain()
        data = expander("order_data", _("Data"))

    def views(model: TextModel) -> Drawing:
        session = current_session()
        trace, given = session.trace, session.source
        order = reversed_order([label in trace.special_labels for label in given.labels])
        runs = session.cached("order", (trace, model), lambda: _both(as_trained(model), model, given, order))
        before, lacking = pinned_reversals(session)
        parts = [
            (left, cosine_map(session, given, order, runs[0], before and before[0], "order_off")),
            (right, cosine_map(session, given, order, runs[1], before and before[1], "order_on")),
            (along, differences_chart(session, given, order, runs, before)),
        ]
        yield parts

        def rest() -> None:
            said.text("\n".join(filter(None, [*verdicts(model, *runs), lacking])))
            data_table(
                "order_data", lambda: differences_table(given, order, runs, before), "order", place=data, parts=parts
            )

        return rest

    return views


def _both(trained: TextModel, model: TextModel, given: Tokens, order: list[int]) -> tuple[Reversal, Reversal]:
    """Without positions, and as they are."""
    without = vary(trained, position="none", max_length=model.config.max_length)
    off, on = (
        Reversal(order_difference(each.network, given.ids, order), states_beside(each.network, given.ids, order))
        for each in (without, model)
    )
    return off, on


def pinned_reversals(session: Session) -> tuple[tuple[Reversal, Reversal] | None, str]:
    """The same of the pinned text in the pinned model, at this text's tokens; or a sentence why there is none."""
    pin, trace = session.pin, session.trace
    if pin is None or trace is None or session.comparison is None:
        return None, ""
    text = pin.texts[0]
    if not pin.model.network.ours:
        return None, _("pinned: {reason}").format(reason=not_ours())
    order = reversed_order([label in pin.trace.special_labels for label in text.labels])
    found = cached_for_pin(pin, "order", (), lambda: _both(pin.model, pin.model, text, order))
    places = session.comparison.source.places
    backwards = [places[at] for at in reversed_order([label in trace.special_labels for label in trace.source_tokens])]
    stands = {at: column for column, at in enumerate(order)}
    columns = [stands.get(at, -1) for at in backwards]
    off, on = (
        Reversal(moved(each.differences, columns, 0), moved(moved(each.cosines, places, 0), columns, 1))
        for each in found
    )
    return (off, on), ""


def verdicts(model: TextModel, off: Reversal, on: Reversal) -> list[str]:
    """What the numbers say, and why where a causal mask tells the order."""
    size = _("The text is read forwards and with its tokens reversed; each token's two states are compared.")
    sentence = _("Positions off: largest difference {off}, {verdict} With positions: {on}.")
    same = off.most < 1e-3 * max(1.0, on.most)
    verdict = (
        _("so the outputs are a permutation of each other: the model sees a set.")
        if same
        else _("so the order is still noticed.")
    )
    said = [size, sentence.format(off=significant(off.most), on=significant(on.most), verdict=verdict)]
    if model.kind == "decoder-only":
        said.append(_("A causal mask lets each token see only those before it, which tells the order too."))
    elif model.config.windowed:
        said.append(_("The attention reaches a window of neighbours only, which tells the order too."))
    return said


def cosine_map(
    session: Session, given: Tokens, order: list[int], found: Reversal, before: Reversal | None, key: str
) -> FigureView:
    """How alike each state of the text is to each state of its reverse; or how much more than in the pinned trace."""
    name = _("Positions off") if key == "order_off" else _("Positions as they are")
    sentence = _("largest difference {most}").format(most=significant(found.most))
    if before is not None:
        sentence += " (" + _("pinned: {value}").format(value=significant(before.most)) + ")"
    other = None if before is None else before.cosines
    values, scale = levels(found.cosines, other, session, _("cosine"), signed=True, high=1.0)
    rows = Axis(_("token, forwards"), given.labels, "source")
    columns = Axis(_("token, reversed"), [given.labels[place] for place in order], "source", order)
    about = About(
        _("How alike each token's last state, a row, is to those of the text read backwards, the columns."),
        [
            r"\cos\left(f(x)_i,\, f(x_\pi)_j\right) = \frac{f(x)_i \cdot f(x_\pi)_j}"
            r"{\lVert f(x)_i \rVert\, \lVert f(x_\pi)_j \rVert}, \quad x_\pi = (x_{\pi(1)}, \ldots, x_{\pi(n)})"
        ],
        [states_beside],
    )
    above = heading(session.trace, name, key, sentence=sentence, about=about)
    return view(key, Heatmap(above, values, rows, columns, scale))


def differences_chart(
    session: Session, given: Tokens, order: list[int], found: Reversals, before: Reversals | None
) -> FigureView:
    names = _("positions off"), _("positions as they are")
    runs = list(zip(names, found, (OFF, ON), ("line", "line"), strict=True))
    for name, each, mark in zip(names, before or (), ("dots", "line"), strict=False):
        runs.append((_("{name}, pinned").format(name=name), each, PINNED, mark))
    sequence = np.argsort(order)
    series = [
        Series(name, np.array(order)[sequence], array(each.differences)[sequence], colour, mark, colour == PINNED)
        for name, each, colour, mark in runs
    ]
    about = About(
        _("How far each token's last state moves when the text is read backwards: 0 where the model sees a set."),
        [r"\max_c \left| f(x)_{\pi(i),\,c} - f(x_\pi)_{i,\,c} \right|"],
        [order_difference],
    )
    name = _("Largest difference of a token's two states")
    above = heading(session.trace, name, "order-differences", about=about)
    x, y = Axis(_("token"), given.labels, "source"), Axis(_("difference"), log=True)
    return view("order_differences", Chart(above, series, x, y, tall=170, of=_("quantity")))


def differences_table(given: Tokens, order: list[int], found: Reversals, before: Reversals | None) -> pd.DataFrame:
    columns = {_("token"): [given.labels[place] for place in order]}
    for suffix, runs in (("{name}", found), (_("{name}, pinned"), before)):
        for name, run in zip((_("positions off"), _("positions as they are")), runs or (), strict=False):
            columns[suffix.format(name=name)] = run.differences.tolist()
    return pd.DataFrame(columns)


def explain() -> None:
    explanation(
        "order_explanation",
        [r"f(x_{\pi(1)}, \ldots, x_{\pi(n)})_i = f(x_1, \ldots, x_n)_{\pi(i)} \quad \text{for every order } \pi"],
        _(
            "Attention is a sum over a set, and the rest of a layer acts on each token alone: without positions and "
            "without a causal mask, the outputs of a text in another order are the same outputs in that order (Vaswani "
            "et al., section 3.5, is the remedy). Left, this is computed with the model's weights and positions "
            "switched off; right, with its positions. This is the code that has just run:"
        ),
        *(reversed_order, token_states, order_difference, NoPositions, Mask),
    )
