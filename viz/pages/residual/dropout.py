"""Dropout over many masks on a vector of the current trace: mean and variance of each entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from model.analysis.dropout import MaskStatistics, expected_error, over_masks
from model.message import Message
from model.network.dropout import dropout
from model.runtime.device import exact
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.colours import EXPECTED, FIRST, PINNED, SECOND
from viz.figures.figure import About
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.i18n.messages import joined
from viz.state.pin import cached_for_pin
from viz.ui.parts import explanation, frame_of
from viz.ui.plots import array, caption, lacking

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from model.network.config import TransformerConfig
    from viz.state.inputs import Inputs

MASKS = ("10", "100", "1000", "10000")
EXAMPLE_RATE = 0.1  # of the paper, where the model has none


def site_name(site: str, rates: Mapping[str, float]) -> str:
    name = {
        "embedding": Message("on the embedding"),
        "block": Message("after each sublayer"),
        "weights": Message("on the attention weights"),
        "units": Message("on the feed-forward units"),
    }[site]
    return joined(" · ", name, f"{rates[site]:g}")


def masks_name(count: str) -> Message:
    return Message("{count} masks", count=f"{int(count):,}")


def vector_name(config: TransformerConfig, stack: str, site: str, layer: int) -> str:
    """The quantity that dropout acts on: the embedding, an attention's weights, a block's output, or the units."""
    path = f"{stack}.layers.{layer}"
    units = "gated" if config.gated else "activation"
    return {
        "embedding": f"{stack}.embedding.output",
        "weights": f"{path}.self_attention.weights",
        "block": f"{path}.feed_forward.output",
        "units": f"{path}.feed_forward.{units}",
    }[site]


def vector(tensor: Tensor, position: int, head: int) -> Tensor:
    """One token's entries: of weights, one head's row."""
    return (tensor[min(head, len(tensor) - 1)] if tensor.dim() == 3 else tensor)[position]


Vector = tuple[Tensor, MaskStatistics]  # its entries, and what masks do to them


def dropout_chart(
    inputs: Inputs, name: str, position: int, measured: Vector, before: Vector | None, rate: float
) -> Chart:
    """Mean and deviation of each entry over the masks against the entry itself, beside what is expected."""
    x, statistics = array(measured[0]), measured[1]
    mean, deviation = array(statistics.mean), array(statistics.variance.sqrt())
    factor = float((rate / (1 - rate)) ** 0.5)
    ends = np.array([x.min(), 0, x.max()])
    series = [
        Series(Message("expected: x, and √(p / (1 − p)) |x|"), ends, ends, EXPECTED),
        Series(Message("expected deviation"), ends, factor * np.abs(ends), EXPECTED, quiet=True),
        Series(Message("mean over the masks"), x, mean, SECOND, "dots"),
        Series(Message("deviation over the masks"), x, deviation, FIRST, "dots"),
    ]
    if before is not None:
        known = array(before[0])
        order = np.argsort(known)
        label = Message("{name}, pinned", name=Message("mean over the masks"))
        series.append(Series(label, known[order], array(before[1].mean)[order], PINNED, dash=True))
    token, count = inputs.trace.tokens_of(name)[position], f"{statistics.counts[-1]:,}"
    title = Message("{token}, {count} masks of rate {rate}", token=token, count=count, rate=f"{rate:g}")
    about = About(
        Message("Each point is an entry of the vector: its mean and its deviation over many dropout masks."),
        [
            r"y_i = \frac{m_i\,x_i}{1 - p}, \quad m_i \sim \mathrm{Bernoulli}(1 - p)",
            r"\mathbb{E}[y_i] = x_i, \qquad \sqrt{\mathrm{Var}[y_i]} = \sqrt{\frac{p}{1 - p}}\,|x_i|",
        ],
        [dropout, over_masks],
        meaning=Message("The mean stays where it was, for what is kept is made larger."),
    )
    above = caption(inputs, title, "dropout-mean", sentence=_lacking(inputs, name, before), about=about)
    return Chart(above, series, Axis(Message("entry x")), Axis(Message("over the masks")), tall=230)


def _lacking(inputs: Inputs, name: str, before: Vector | None) -> str:
    """Reason why the pinned vector is not beside; nothing, if it is."""
    if before is None and inputs.before(name) is not None:
        return Message("this token is not in the pinned text")
    return lacking(inputs, before)


def error_chart(inputs: Inputs, name: str, statistics: MaskStatistics, before: Vector | None, rate: float) -> Chart:
    """Distance of the mean over ever more masks from x, beside what is expected."""
    counts = np.array(statistics.counts)
    expected = np.array([expected_error(rate, count) for count in statistics.counts])
    series = [
        Series(Message("expected, √(p / ((1 − p) N))"), counts, expected, EXPECTED),
        Series(Message("measured"), counts, np.array(statistics.errors), SECOND, "dots"),
    ]
    if before is not None:
        label = Message("{name}, pinned", name=Message("measured"))
        series.append(Series(label, counts, np.array(before[1].errors), PINNED, dash=True))
    note, sentence = significant(statistics.errors[-1]), _lacking(inputs, name, before)
    about = About(
        Message("How far the mean over N dropout masks is from the vector: points measured, the line expected."),
        [
            r"\frac{\lVert \frac1N \sum_k y^{(k)} - x \rVert}{\lVert x \rVert}",
            r"\text{expected: } \sqrt{\frac{p}{(1 - p)\,N}}",
        ],
        [over_masks, expected_error],
        meaning=Message("With four times as many masks it is half as far."),
    )
    above = caption(inputs, Message("The mean comes to be x"), "dropout-error", note, sentence, about=about)
    x_axis, y_axis = (Axis(title, log=True) for title in (Message("masks N"), Message("‖mean − x‖ / ‖x‖")))
    return Chart(above, series, x_axis, y_axis, tall=210)


def summary(measured: Vector, before: Vector | None, rate: float) -> pd.DataFrame:
    """Claims on dropout, and what these masks make of them, here and on the pinned vector."""
    expected = {
        Message("share of entries kept"): 1 - rate,
        Message("mean / x"): 1.0,
        Message("mean / x, not divided by 1 − p"): 1 - rate,
        Message("variance / x²"): rate / (1 - rate),
    }
    name = Message("measured")
    table = {"": list(expected), Message("expected"): [*expected.values()], name: _claims(*measured, rate)}
    if before is not None:
        table[Message("{name}, pinned", name=name)] = _claims(*before, rate)
    return frame_of(table)


def _claims(x: Tensor, statistics: MaskStatistics, rate: float) -> list[float]:
    x = exact(x)
    size = float(x.square().sum())
    slope = float((statistics.mean * x).sum()) / size if size else float("nan")
    variance = float(statistics.variance.sum()) / size if size else float("nan")
    return [statistics.share, slope, slope * (1 - rate), variance]


def pinned_measured(inputs: Inputs, name: str, position: int, rate: float, masks: int) -> Vector | None:
    """Measurement of the pinned vector, where there is one of this shape at this token; at the tokens of both."""
    other, pin = inputs.before(name), inputs.pin
    if other is None or pin is None:
        return None
    x = vector(other, position, inputs.selection.head)
    known = x[~x.isnan()]
    if not len(known):
        return None
    key = f"dropout {rate} {masks}"
    # The entries that there are depend on this text.
    return known, cached_for_pin(pin, "dropout", (key, known.tolist()), lambda: over_masks(known, rate, masks, key))


def measured(inputs: Inputs, name: str, position: int, rate: float, masks: int) -> Vector:
    """The vector of a token and its statistics; the same masks for the same count and rate."""
    x = vector(inputs.trace[name], position, inputs.selection.head)
    return x, over_masks(x, rate, masks, f"dropout {rate} {masks}")


def explain(key: str) -> None:
    explanation(
        key,
        _(
            "In training, dropout sets some numbers to 0 at random and makes the others a little larger, so that the "
            "mean stays. The model learns not to rely on any single one; when it is used, nothing is dropped."
        ),
        [
            r"y_i = \frac{m_i\,x_i}{1 - p}, \quad m_i \sim \mathrm{Bernoulli}(1 - p) \qquad "
            r"\mathbb{E}[y_i] = x_i \qquad \mathrm{Var}[y_i] = \frac{p}{1 - p}\,x_i^2"
        ],
        _(
            "Vaswani et al., section 5.4; Srivastava et al., 2014. In training each entry is dropped with probability "
            "p and the others are divided by 1 − p, so that the mean stays x; it acts on the embedding, on what each "
            "sublayer writes to the stream, and where a model wants it on the attention weights and the feed-forward "
            "units. Outside training nothing is dropped. This is the code that has just run:"
        ),
        *(dropout, over_masks),
    )
