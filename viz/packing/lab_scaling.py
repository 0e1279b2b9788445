"""Entropy and gradients against d_k with and without 1/√d_k, and the loaded model's heads both ways."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from model.experiments.softmax import first_below, last_alike
from viz.components.plots import Series, chart
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.packing.lab_head_panels import mean
from viz.packing.lab_plots import header
from viz.ui.plots import array

if TYPE_CHECKING:
    from torch import Tensor

    from model.experiments.softmax import Against, BothWays
    from viz.components.plots import Mount

OFF, ON = "#d55e00", "#0072b2"
TENTH, ALIKE = 0.1, 2.0


def middle(values: Tensor) -> Tensor:
    """The median over the queries."""
    return values.median(dim=-1).values


def pack_entropy(found: Against, key: str) -> Mount:
    """The mean entropy of the weights."""
    values = array(found.entropy.mean(dim=-1))
    series = [
        Series(_("without 1/√d_k"), np.array(found.widths), values[0], OFF),
        Series(_("with 1/√d_k"), np.array(found.widths), values[1], ON),
    ]
    most = math.log(found.keys)
    name = _("Entropy of the weights")
    return chart(series, _header(found, name, _("entropy (nats)"), {"low": 0.0, "high": most}, "entropy"), key)


def pack_norms(found: Against, values: Tensor, name: str, title: str, file: str, key: str) -> Mount:
    """A norm of each query: the median, and dashed the mean."""
    xs, typical, averaged = np.array(found.widths), array(middle(values)), array(values.mean(dim=-1))
    series = [
        Series(_("without, median"), xs, typical[0], OFF),
        Series(_("with, median"), xs, typical[1], ON),
        Series(_("without, mean"), xs, averaged[0], OFF, dash=True),
        Series(_("with, mean"), xs, averaged[1], ON, dash=True),
    ]
    return chart(series, _header(found, name, title, {"log": True}, file), key)


def _header(found: Against, name: str, title: str, axis: dict[str, Any], file: str) -> dict[str, Any]:
    alt, stamp = _("over d_k, with 1/√d_k and without"), f"{file} {found.keys} {len(found.widths)}"
    more = {"x": {"title": "d_k", "log": True}, "y": {"title": title, **axis}, "tall": 210}
    return header(name, alt, f"d-k-{file}", stamp, (_("series"), "d_k", title), more)


def verdicts(found: Against) -> list[str]:
    """From which d_k on the unscaled gradients are lost, and up to which it hardly matters."""
    typical = {name: middle(getattr(found, name)) for name in ("derivative", "gradient")}
    ratios = {name: values[0] / values[1] for name, values in typical.items()}
    averaged = found.derivative.mean(dim=-1)
    said = [lost(found, ratios["derivative"], _("The softmax's derivative, median over the queries:"))]
    said.append(lost(found, averaged[0] / averaged[1], _("Its mean over the queries:")))
    said.append(
        lost(found, ratios["gradient"], _("The gradient at the query, median; 1/√d_k itself makes it smaller:"))
    )
    alike = last_alike(found.widths, ratios["derivative"], ALIKE)
    said.append(
        _("Up to d_k = {width} the two derivatives differ by less than a factor {factor:g}: there it hardly matters.")
        .format(width=f"{alike:,}", factor=ALIKE)
        if alike is not None
        else _("Already at d_k = {width} the two derivatives differ by a factor {factor:g} or more.")
        .format(width=found.widths[0], factor=ALIKE)
    )  # fmt: skip
    return said


def lost(found: Against, ratios: Tensor, whose: str) -> str:
    """Where, if anywhere, the unscaled one falls below a tenth of the scaled one."""
    at, last = first_below(found.widths, ratios, TENTH), f"{found.widths[-1]:,}"
    sentence = (
        _("without the factor below a tenth of that with it from d_k = {width} on; at {last} it is {ratio} times it.")
        if at is not None
        else _("without the factor never below a tenth of that with it; at d_k = {last} it is {ratio} times it.")
    )
    width = "" if at is None else f"{at:,}"
    return f"{whose} {sentence.format(width=width, last=last, ratio=significant(float(ratios[-1])))}"


def model_verdict(found: BothWays, pinned: BothWays | None) -> str:
    """The heads' entropy and derivative with the factor and without, on this text."""
    entropies = [mean(each) for each in found.entropy]
    typical = [float(each.nanmedian()) for each in found.derivative]
    sentence = _(
        "This model's heads, d_k = {d_k}, computed with the factor {factor}: mean entropy {on} nats with 1/√d_k, {off} "
        "without; the median derivative {derivative} against {other}. {verdict}"
    )
    ratio = typical[0] / typical[1] if typical[1] else math.nan
    if math.isnan(ratio):
        verdict = _("With it too the softmax has no gradient on this text: there is nothing to lose.")
    elif ratio < TENTH:
        verdict = _("Without it the derivative would be less than a tenth.")
    else:
        verdict = _("Without it the derivative would be a tenth at least.")
    said = sentence.format(
        d_k=found.d_k,
        factor=significant(found.factor),
        on=significant(entropies[1]),
        off=significant(entropies[0]),
        derivative=significant(typical[1]),
        other=significant(typical[0]),
        verdict=verdict,
    )
    if pinned is not None:
        values = [significant(mean(each)) for each in pinned.entropy]
        said += " " + _("Pinned: {on} with, {off} without.").format(on=values[1], off=values[0])
    return said


def rows(found: Against) -> dict[str, Any]:
    """A row for each d_k."""
    columns: dict[str, Any] = {"d_k": list(found.widths)}
    names = {"entropy": _("entropy (nats)"), "derivative": "‖∂w/∂s‖", "gradient": "‖∂L/∂q‖"}
    ways = (_("without 1/√d_k"), _("with 1/√d_k"))
    for quantity, name in names.items():
        values: Tensor = getattr(found, quantity)
        for way, each in zip(ways, values, strict=True):
            columns[f"{name}, {way}, {_('mean')}"] = each.mean(dim=-1).tolist()
            columns[f"{name}, {way}, {_('median')}"] = middle(each).tolist()
    return columns


def largest(values: Tensor) -> float:
    """The end of a scale from 0."""
    return float(torch.nan_to_num(values).max()) or 1.0
