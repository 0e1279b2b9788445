"""The forms of LayerNorm beside torch's, on the input of one of the model's own norms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from model.analysis.norms import expected_gap, form_gap, forms
from model.message import Message
from model.runtime.device import exact
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.colours import EXPECTED, FIRST, SECOND
from viz.figures.compared import Compared
from viz.figures.figure import About
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.i18n.messages import labelled
from viz.pages.residual.norms import norm_at
from viz.ui.parts import explanation, frame_of
from viz.ui.plots import caption, compared, lacking, series_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    from torch import Tensor

    from viz.state.inputs import Inputs

WIDEST = 4096  # features, in the chart over widths
FORMS = ("layer", "textbook", "textbook-sample")
TEXTBOOK = {"textbook": SECOND, "textbook-sample": FIRST}  # forms of it, with their colours


def form_name(form: str) -> Message:
    return {
        "layer": Message("torch"),
        "textbook": Message("textbook, population"),
        "textbook-sample": Message("textbook, sample"),
    }[form]


def form_table(inputs: Inputs, path: str, position: int, eps: float) -> pd.DataFrame:
    """LayerNorm's three forms on a norm's input at a token: what each divides by, and how far it is from torch's; then
    the same of the pinned input, where it has this token.
    """
    columns: dict[str, list[Any]] = {Message("form"): [form_name(form) for form in FORMS]}
    columns |= _form_columns(inputs.trace[f"{path}.input"][position], eps)
    other = inputs.before(f"{path}.input")
    if other is not None and not bool(other[position].isnan().any()):
        before = _form_columns(other[position], eps)
        columns |= {Message("{name}, pinned", name=name): values for name, values in before.items()}
    return frame_of(columns)


def _form_columns(x: Tensor, eps: float) -> dict[str, list[float]]:
    """x: (d_model)."""
    variance = float(exact(x).var(correction=0))
    n = x.shape[-1]
    sample = variance * n / max(1, n - 1)
    by_form = forms(x, eps)
    return {
        Message("divides by"): [(variance + eps) ** 0.5, variance**0.5 + eps, sample**0.5 + eps],
        Message("largest difference"): [float((by_form[form] - by_form["layer"]).abs().max()) for form in FORMS],
        Message("relative difference"): [form_gap(x, eps, form) for form in FORMS],
    }


def digits(table: pd.DataFrame) -> dict[str, str | Callable[[float], str]]:
    """Form of each column's numbers: divisors, the first of three columns, differ in their last digits only."""
    return {name: significant if place % 3 else "{:.9g}" for place, name in enumerate(table.columns[1:])}


def form_differences(inputs: Inputs, path: str, position: int, eps: float) -> Chart:
    """Textbook's forms at one token minus torch's, channel by channel."""
    trace, other = inputs.trace, inputs.before(f"{path}.input")
    own, before = (None if x is None else forms(x[position], eps) for x in (trace[f"{path}.input"], other))
    assert own is not None
    series = [
        series_of(
            form_name(form),
            compared(own[form] - own["layer"], None if before is None else before[form] - before["layer"]),
            colour,
        )
        for form, colour in TEXTBOOK.items()
    ]
    name = norm_at(inputs, path, position)
    sentence = lacking(inputs, other, None if other is None else other[position])
    about = About(
        Message("How far the textbook's two forms of LayerNorm are from torch's at this token, channel by channel."),
        [
            r"\frac{x - \mu}{\sigma + \varepsilon} - \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}}, \qquad "
            r"\frac{x - \mu}{s + \varepsilon} - \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}}"
        ],
        [forms],
        meaning=Message("The first adds ε outside the root; the second divides by n − 1 besides."),
    )
    above = caption(inputs, name, f"norm-forms-{path}", sentence=sentence, about=about)
    return Chart(above, series, Axis(Message("channel")), Axis(Message("form − torch")), tall=210)


def form_widths(inputs: Inputs, path: str, eps: float) -> Chart:
    """Distance of the textbook's forms from torch's, on ever more channels of this input, beside 1 − √((n−1)/n)."""
    x, other = inputs.trace[f"{path}.input"], inputs.before(f"{path}.input")
    before = None if other is None else other[~other.isnan().any(dim=-1)]
    own = x.shape[-1]
    widths = np.array([*(1 << power for power in range(1, own.bit_length()) if 1 << power < own), own])
    everywhere = np.array([1 << power for power in range(1, WIDEST.bit_length())])
    expected = np.array([expected_gap(int(n)) for n in everywhere])
    series = [Series(Message("expected, 1 − √((n−1)/n)"), everywhere, expected, EXPECTED)]
    for form, colour in TEXTBOOK.items():
        gaps, pinned = (
            None if each is None or not len(each) else np.array([form_gap(each[:, :n], eps, form) for n in widths])
            for each in (x, before)
        )
        assert gaps is not None
        series.append(Series(form_name(form), widths, Compared(gaps, pinned), colour, "dots"))
    note = labelled(f"d {own}", significant(form_gap(x, eps, "textbook-sample")))
    about = About(
        Message(
            "How far the textbook's forms are from torch's on the first n channels: points measured, the line expected."
        ),
        [
            r"\frac{\lVert y - y_{\mathrm{torch}} \rVert}{\lVert y_{\mathrm{torch}} \rVert}",
            r"1 - \sqrt{\frac{n - 1}{n}}",
        ],
        [form_gap, expected_gap],
        meaning=Message("The more channels, the less it matters."),
    )
    above = caption(inputs, Message("By d_model"), "norm-forms-by-width", note, about=about)
    x_axis, y_axis = (Axis(title, log=True) for title in (Message("channels n"), Message("relative difference")))
    return Chart(above, series, x_axis, y_axis, tall=210)


def explain(key: str) -> None:
    explanation(
        key,
        _(
            "Books write LayerNorm in forms that look alike and are not quite the same. Here is how far each is from "
            "what torch computes, on the vector that this norm really reads."
        ),
        [
            r"\text{torch: } \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} \qquad "
            r"\text{textbook: } \frac{x - \mu}{\sigma + \varepsilon} \qquad "
            r"\text{textbook, sample: } \frac{x - \mu}{s + \varepsilon}, \quad s^2 = \frac{n}{n - 1}\sigma^2"
        ],
        _(
            "LayerNorm is of Ba et al., 2016, section 3. Tutorials write it with ε added to the deviation, and often "
            "with the sample deviation, as `x.std()` computes it. torch divides by n, not n − 1, and adds ε under the "
            "root. Both are computed in float64 on what goes into this norm, without γ and β. This is the code that "
            "has just run:"
        ),
        forms,
    )
