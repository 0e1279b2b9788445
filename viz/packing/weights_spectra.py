"""The singular values of a matrix of weights, and its leading singular vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from model.analysis.weights.spectra import Leading, effective_rank, has_spectrum, leading, singular_values, stable_rank
from viz.components.plots import Mount, Series, chart
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.packing.weights_values import COLOURS, Weight, plot_header

if TYPE_CHECKING:
    from torch import Tensor

TOPS = (1, 10, 100)  # of how many directions the share of the energy is said
VECTORS = 3
HUES = ("#0072b2", "#d55e00", "#009e73")
SMALL = 2048  # rows and columns of a matrix whose singular vectors are drawn
PER_SECOND = 3e10  # floating-point operations, on two slow cores: to say how long it will take
PATIENCE = 4.0  # seconds that a page computes without being asked


def is_matrix(weight: Weight) -> bool:
    """With more than one row and column."""
    shape = weight.info.shape
    return len(shape) > 1 and min(shape[0], weight.info.elements // max(1, shape[0])) > 1


def why_none(weight: Weight) -> str:
    """Why a matrix has no singular values, in a sentence; empty where it has."""
    if not has_spectrum(weight.info):
        return _("Whole numbers are not a matrix that stretches: no singular values.")
    if weight.finite < weight.info.elements:
        return _("A matrix with NaN or infinite values has no singular values.")
    return ""


def seconds(weight: Weight) -> float:
    """About how long the singular values will take."""
    rows = weight.info.shape[0]
    columns = weight.info.elements // rows
    small = min(rows, columns)
    return (2.0 * small * rows * columns + 10.0 * small**3) / PER_SECOND


def known(weight: Weight) -> bool:
    """Whether they are computed already."""
    return weight.remembers(("spectrum", weight.info.name))


def values_of(weight: Weight) -> Tensor:
    """The singular values, the largest first."""
    found: Tensor = weight.remember(("spectrum", weight.info.name), lambda: singular_values(weight.info.load()))
    return found


def vectors_of(weight: Weight) -> Leading:
    found: Leading = weight.remember(("vectors", weight.info.name), lambda: leading(weight.info.load(), VECTORS))
    return found


def spectrum_sentence(values: Tensor) -> str:
    """Spectral norm, ranks, and how much of Σ σ² the first hold."""
    energy = values.double().square().cumsum(0)
    whole = float(energy[-1]) or 1.0
    shares = [
        _("{count}: {share}").format(count=count, share=f"{100 * float(energy[count - 1]) / whole:.1f} %")
        for count in TOPS
        if count < len(values)
    ]
    line = _("spectral norm {norm} · effective rank {effective} of {all} · stable rank {stable}").format(
        norm=significant(float(values[0])),
        effective=significant(effective_rank(values)),
        all=f"{len(values):,}",
        stable=significant(stable_rank(values)),
    )
    return line + (_(" · energy in the top {shares}").format(shares=", ".join(shares)) if shares else "")


def spectrum_chart(weights: Sequence[Weight], key: str) -> Mount:
    """σ over its number, on a logarithmic axis."""
    series, said = [], []
    for weight, colour in zip(weights, COLOURS, strict=False):
        values = values_of(weight)
        name = weight.file if len(weights) > 1 else "σ"
        series.append(Series(name, np.arange(1, len(values) + 1), values.numpy(), colour))
        said.append(f"{weight.file}: {spectrum_sentence(values)}" if len(weights) > 1 else spectrum_sentence(values))
    first = weights[0]
    header = plot_header(
        first,
        _("Singular values"),
        "; ".join(said),
        f"spectrum-{first.title}",
        (_("checkpoint"), _("number"), "σ"),
        x={"title": _("number, largest first")},
        y={"title": "σ", "log": True},
        sentence="\n".join(said),
        tall=130,
    )
    return chart(series, header, key)


def vector_charts(weight: Weight, keys: tuple[str, str]) -> list[Mount]:
    """The leading left singular vectors over the rows, the right ones over the columns."""
    found = vectors_of(weight)
    sides = (
        (_("Left singular vectors"), _("row"), found.left.T, "left"),
        (_("Right singular vectors"), _("column"), found.right, "right"),
    )
    mounts = []
    for (name, place, vectors, file), key in zip(sides, keys, strict=True):
        series = [
            Series(
                f"σ{at + 1} = {significant(float(sigma))}",
                np.arange(len(each)),
                each.numpy(),
                hue,
            )
            for at, (each, sigma, hue) in enumerate(zip(vectors, found.values.tolist(), HUES, strict=False))
        ]
        alt = _("{name} of the {count} largest singular values over {all} places.").format(
            name=name, count=len(series), all=vectors.shape[1]
        )
        csv = (_("singular value"), place, _("component"))
        more = {"x": {"title": place}, "y": {"title": _("component")}, "tall": 95}
        mounts.append(chart(series, plot_header(weight, name, alt, f"{file}-{weight.title}", csv, **more), key))
    return mounts
