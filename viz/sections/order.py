"""The text backwards, in the model with positions and without: a sequence, or a set (claim 13)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from torch import Tensor

from model.analysis.order import order_difference, reversed_order, states_beside, token_states
from model.inspectable import Inspectable
from model.masks import Mask
from model.network import Network
from model.positional import NoPositions
from model.text import Tokens
from model.trace import Trace
from model.variation import vary
from viz.components.views import Mount, Series, chart, heatmap
from viz.i18n import _
from viz.packing.plots import PINNED
from viz.parts import Views, data_table, explanation, folded, mount, nothing, plot_words, stamp
from viz.sections.memory import remembered
from viz.varying import as_trained
from viz.words import not_ours, significant
from viz.workbench import Workbench, workbench

OFF, ON = "#009e73", "#d55e00"


@dataclass(frozen=True)
class Reversal:
    """A text and its reverse in one model: the difference at each token, and the cosine of each pair of states."""

    differences: Tensor
    cosines: Tensor

    @property
    def most(self) -> float:
        return float(self.differences.max())


def section(lens: Inspectable, row: DeltaGenerator) -> Views:
    if not lens.model.ours:
        st.info(not_ours())
        return nothing
    said = st.container()
    left, right = st.columns(2, gap="medium")
    along, aside = st.columns(2, gap="medium")
    with aside:
        explain()
        data = folded("order_data", _("Data"))

    def views(lens: Inspectable) -> Iterator[None]:
        bench = workbench()
        trace, given = bench.trace, bench.source
        assert trace is not None
        assert given is not None
        order = reversed_order([label in trace.special_labels for label in given.labels])
        off, on = remembered("order", (trace, lens), lambda: _both(lens, given, order))
        parts = [
            (left, pack_cosines(trace, given, order, off, _("Positions off"), "order_off")),
            (right, pack_cosines(trace, given, order, on, _("Positions as they are"), "order_on")),
            (along, pack_differences(bench, given, order, off, on)),
        ]
        yield
        said.text("\n".join(verdicts(lens, off, on)))
        mount(parts)
        data_table("order_data", lambda: differences_table(given, order, off, on), "order", place=data, parts=parts)

    return views


def _both(lens: Inspectable, given: Tokens, order: list[int]) -> tuple[Reversal, Reversal]:
    without = vary(as_trained(lens), position="none", max_length=lens.config.max_length)
    off, on = (
        Reversal(order_difference(each.model, given.ids, order), states_beside(each.model, given.ids, order))
        for each in (without, lens)
    )
    return off, on


def verdicts(lens: Inspectable, off: Reversal, on: Reversal) -> list[str]:
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
    if lens.kind == "decoder-only":
        said.append(_("A causal mask lets each token see only those before it, which tells the order too."))
    elif lens.config.window is not None:
        said.append(_("The attention reaches a window of neighbours only, which tells the order too."))
    return said


def pack_cosines(trace: Trace, given: Tokens, order: list[int], found: Reversal, name: str, key: str) -> Mount:
    """How alike each state of the text is to each state of its reverse."""
    values = found.cosines.cpu().numpy()
    backwards = [given.labels[place] for place in order]
    sentence = _("largest difference {most}").format(most=significant(found.most))
    header = {
        "rows": {"title": _("token, forwards"), "labels": given.labels, "side": "source"},
        "columns": {"title": _("token, reversed"), "labels": backwards, "side": ""},
        "scale": {"low": -1, "high": 1, "title": _("cosine")},
        "chosen": -1,
        "name": name,
        "sentence": sentence,
        "alt": f"{name}: {sentence}",
        "file": key,
        "stamp": stamp(trace),
        "words": plot_words(_("token, forwards"), _("token, reversed"), _("cosine"), _("masked")),
    }
    return heatmap(values, np.ones(values.shape, np.bool_), header, key, lambda: None)


def pack_differences(bench: Workbench, given: Tokens, order: list[int], off: Reversal, on: Reversal) -> Mount:
    places = np.array(order)
    runs = [(_("positions off"), off.differences, OFF, False), (_("positions as they are"), on.differences, ON, False)]
    if bench.pin is not None and (pinned := _pinned(bench, given, order)) is not None:
        runs.append((_("pinned"), pinned, PINNED, True))
    sequence = np.argsort(places)
    series = [
        Series(name, places[sequence], values.cpu().numpy()[sequence], colour, dash=dash)
        for name, values, colour, dash in runs
    ]
    said = "; ".join(f"{name}: {significant(float(values.max()))}" for name, values, _colour, _dash in runs)
    title = _("Largest difference of a token's two states")
    assert bench.trace is not None
    header = {
        "x": {"title": _("token"), "labels": given.labels, "side": "source"},
        "y": {"title": _("difference"), "log": True},
        "tall": 170,
        "name": title,
        "alt": f"{title}. {said}",
        "file": "order-differences",
        "stamp": stamp(bench.trace),
        "words": plot_words(_("quantity"), _("token"), _("difference")),
    }
    return chart(series, header, "order_differences")


def _pinned(bench: Workbench, given: Tokens, order: list[int]) -> Tensor | None:
    """The same in the pinned model, where that reads the same tokens."""
    assert bench.pin is not None
    assert bench.lens is not None
    model, own = bench.pin.trace.model, bench.lens.config
    if not isinstance(model, Network):
        return None
    config = model.config
    if any(getattr(config, name) != getattr(own, name) for name in ("kind", "source_vocabulary", "target_vocabulary")):
        return None
    if not bench.pin.same_words(bench.lens, "source"):
        return None
    if config.position == "learned" and len(given) > config.max_length:
        return None
    return remembered("order_pinned", (bench.trace, model), lambda: order_difference(model, given.ids, order))


def differences_table(given: Tokens, order: list[int], off: Reversal, on: Reversal) -> pd.DataFrame:
    return pd.DataFrame(
        {
            _("token"): [given.labels[place] for place in order],
            _("positions off"): off.differences.tolist(),
            _("positions as they are"): on.differences.tolist(),
        }
    )


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
