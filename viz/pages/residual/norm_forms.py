"""The forms of LayerNorm beside torch's, on the input of one of the model's own norms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from model.analysis.norms import expected_gap, form_gap, forms
from model.runtime.device import exact
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.figure import About
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.pages.residual.norms import norm_label
from viz.render.view import FigureView, view
from viz.ui.parts import explanation
from viz.ui.plots import EXPECTED, FIRST, SECOND, array, beside, heading, missing, pinned

if TYPE_CHECKING:
    from torch import Tensor

    from viz.state.session import Session

WIDEST = 4096  # features, in the chart over widths


def form_name(form: str) -> str:
    return {
        "layer": _("torch"),
        "textbook": _("textbook, population"),
        "textbook-sample": _("textbook, sample"),
    }[form]


def form_table(session: Session, path: str, position: int, eps: float) -> pd.DataFrame:
    """LayerNorm's three forms on a norm's input at a token: what each divides by, and how far it is from torch's; then
    the same of the pinned input, where it has this token.
    """
    table = _form_rows(session.trace[f"{path}.input"][position], eps)
    other = pinned(session)(f"{path}.input")
    if other is None or bool(other[position].isnan().any()):
        return table
    before = _form_rows(other[position], eps).iloc[:, 1:]
    return table.join(before.rename(columns=lambda name: _("{name}, pinned").format(name=name)))


def _form_rows(x: Tensor, eps: float) -> pd.DataFrame:
    """x: (d_model)."""
    variance = float(exact(x).var(correction=0))
    n = x.shape[-1]
    sample = variance * n / max(1, n - 1)
    divisors = {
        "layer": (variance + eps) ** 0.5,
        "textbook": variance**0.5 + eps,
        "textbook-sample": sample**0.5 + eps,
    }
    found = forms(x, eps)
    rows = [
        {
            _("form"): form_name(form),
            _("divides by"): divisors[form],
            _("largest difference"): float((found[form] - found["layer"]).abs().max()),
            _("relative difference"): form_gap(x, eps, form),
        }
        for form in divisors
    ]
    return pd.DataFrame(rows)


def digits(table: pd.DataFrame) -> dict[str, str]:
    """How its numbers are written: two divisors differ in their last digits only."""
    divisors = {_("divides by"), _("{name}, pinned").format(name=_("divides by"))}
    return {name: "{:.9g}" if name in divisors else "{:.3g}" for name in table.columns[1:]}


def form_differences(session: Session, path: str, position: int, eps: float, key: str) -> FigureView:
    """What the textbook's forms give at one token minus what torch's gives, channel by channel."""
    trace = session.trace
    other = pinned(session)(f"{path}.input")
    series: list[Series] = []
    for form, colour in (("textbook", SECOND), ("textbook-sample", FIRST)):
        both = [None if x is None else forms(x[position], eps) for x in (trace[f"{path}.input"], other)]
        own, before = (None if each is None else array(each[form] - each["layer"]) for each in both)
        assert own is not None
        series += beside(form_name(form), own, before, colour)
    name = _("{norm} at {token}").format(norm=norm_label(path), token=trace.tokens_of(path)[position])
    lacking = missing(session, other, None if other is None else other[position])
    about = About(
        _("How far the textbook's two forms of LayerNorm are from torch's at this token, channel by channel."),
        [
            r"\frac{x - \mu}{\sigma + \varepsilon} - \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}}, \qquad "
            r"\frac{x - \mu}{s + \varepsilon} - \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}}"
        ],
        [forms],
    )
    above = heading(trace, name, f"norm-forms-{path}", sentence=lacking, about=about)
    return view(key, Chart(above, series, Axis(_("channel")), Axis(_("form − torch")), tall=210))


def form_widths(session: Session, path: str, eps: float, key: str) -> FigureView:
    """How far the textbook's forms are from torch's, on ever more channels of this input, beside 1 − √((n−1)/n)."""
    trace = session.trace
    x = trace[f"{path}.input"]
    other = pinned(session)(f"{path}.input")
    before = None if other is None else other[~other.isnan().any(dim=-1)]
    own = x.shape[-1]
    widths = [*(1 << power for power in range(1, own.bit_length()) if 1 << power < own), own]
    everywhere = np.array([1 << power for power in range(1, WIDEST.bit_length())])
    series = [
        Series(
            _("expected, 1 − √((n−1)/n)"), everywhere, np.array([expected_gap(int(n)) for n in everywhere]), EXPECTED
        )
    ]
    for form, colour in (("textbook", SECOND), ("textbook-sample", FIRST)):
        measured = np.array([form_gap(x[:, :n], eps, form) for n in widths])
        series.append(Series(form_name(form), np.array(widths), measured, colour, "dots"))
        if before is not None and len(before):
            gaps = np.array([form_gap(before[:, :n], eps, form) for n in widths])
            series.append(
                Series(_("{name}, pinned").format(name=form_name(form)), np.array(widths), gaps, colour, dash=True)
            )
    note = f"d {own}: {significant(form_gap(x, eps, 'textbook-sample'))}"
    about = About(
        _("How far the textbook's forms are from torch's on the first n channels: points measured, the line expected."),
        [
            r"\frac{\lVert y - y_{\mathrm{torch}} \rVert}{\lVert y_{\mathrm{torch}} \rVert}",
            r"1 - \sqrt{\frac{n - 1}{n}}",
        ],
        [form_gap, expected_gap],
    )
    above = heading(trace, _("By d_model"), "norm-forms-by-width", note, about=about)
    x_axis, y_axis = (Axis(title, log=True) for title in (_("channels n"), _("relative difference")))
    return view(key, Chart(above, series, x_axis, y_axis, tall=210))


def explain(key: str) -> None:
    explanation(
        key,
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
