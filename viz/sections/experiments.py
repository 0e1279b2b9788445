"""The experiments of the position laboratory: settings in; pictures, and verdicts computed from them, out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from plotly.graph_objects import Figure
from torch import Tensor

from model.analysis import positions as analysis
from model.network.positions import sinusoidal
from viz.figures.curves import Curve, curve_figure, table_figure
from viz.i18n.catalogue import _
from viz.i18n.format import significant

if TYPE_CHECKING:
    from numpy.typing import NDArray

CURVES = 12  # in one picture
SPOKEN = 4  # of them are told in a sentence
MATRIX = 32  # rows and columns of a rotation that are drawn: more would be too small to see
TABLE = 256  # rows and columns of a table that is drawn


@dataclass(frozen=True)
class Code:
    """One sinusoidal encoding."""

    base: float
    length: int
    d_model: int


@dataclass(frozen=True)
class Settings:
    """What was asked for: every combination of bases, lengths and widths, and where to look."""

    bases: tuple[float, ...]
    lengths: tuple[int, ...]
    widths: tuple[int, ...]
    dimensions: tuple[int, ...] = (0,)
    k: int = 1
    position: int = 50

    def codes(self) -> list[Code]:
        return [Code(*each) for each in product(self.bases, self.lengths, self.widths)]

    def name(self, code: Code, *, length: bool = True) -> str:
        """What tells this encoding from the others asked for; its base, if there is but one."""
        parts = [_("base {base}").format(base=f"{code.base:,.6g}")] if len(self.bases) > 1 else []
        parts += [_("length {length}").format(length=code.length)] if length and len(self.lengths) > 1 else []
        parts += [f"d {code.d_model}"] if len(self.widths) > 1 else []
        return " · ".join(parts) or _("base {base}").format(base=f"{code.base:,.6g}")


@dataclass(frozen=True)
class Picture:
    """A figure with its title, its words for screen readers, and the names of its two axes."""

    title: str
    figure: Figure
    alt: str
    x: str
    y: str


Shown = tuple[list[str], list[Picture]]


@lru_cache(maxsize=16)
def table(code: Code) -> Tensor:
    """The encoding by the function that the models use, in float64."""
    return sinusoidal(code.length, code.d_model, code.base)


def curves(settings: Settings) -> Shown:
    """PE over the positions, and the whole of the first encoding."""
    asked = [
        (code, dimension)
        for code, dimension in product(settings.codes(), settings.dimensions)
        if dimension < code.d_model
    ]
    drawn = [
        dimension_curve(settings, code, dimension, number) for number, (code, dimension) in enumerate(asked[:CURVES])
    ]
    said = [*beyond(settings), *too_many(len(asked))]
    for code, dimension in asked[:SPOKEN]:
        waves = analysis.wavelengths(code.d_model, code.base)
        sentence = _("{code}: dimension {dimension} repeats after {waves} positions.")
        said.append(
            sentence.format(
                dimension=dimension, code=settings.name(code, length=False), waves=plain(float(waves[dimension]))
            )
        )
    first = settings.codes()[0]
    title = _("PE(p, dimension) over p")
    whole = table_picture(_("The whole table"), table(first), settings, first)
    return said, [picture(title, drawn, _("position p"), "PE"), whole]


def wavelengths(settings: Settings) -> Shown:
    """How fast each dimension varies (claims 6 and 7)."""
    codes = list(dict.fromkeys(Code(code.base, settings.lengths[0], code.d_model) for code in settings.codes()))
    waves = [array(analysis.wavelengths(code.d_model, code.base)) for code in codes]
    drawn = [
        Curve(settings.name(code, length=False), np.arange(code.d_model), wave, number)
        for number, (code, wave) in enumerate(zip(codes[:CURVES], waves, strict=False))
    ]
    said = too_many(len(codes))
    for code, wave in list(zip(codes, waves, strict=True))[:SPOKEN]:
        sentence = _("{code}: dimension 0 repeats after {first} positions, dimension {last} after {longest}.")
        first, longest = plain(wave[0]), plain(wave[-1])
        said.append(
            sentence.format(code=settings.name(code, length=False), first=first, last=code.d_model - 1, longest=longest)
        )
    if len(settings.bases) > 1:
        low, high = min(settings.bases), max(settings.bases)
        shorter = analysis.wavelengths(settings.widths[0], low) < analysis.wavelengths(settings.widths[0], high)
        sentence = _("With base {low} instead of {high}, {count} of {all} dimensions have a shorter wavelength.")
        said.append(sentence.format(low=f"{low:,.6g}", high=f"{high:,.6g}", count=int(shorter.sum()), all=len(shorter)))
    title = _("Wavelength of each dimension")
    waves_of = picture(title, drawn, _("dimension"), _("wavelength, positions"), log_y=True)
    return said, [waves_of, _fast_and_slow(codes[0])]


def _fast_and_slow(code: Code) -> Picture:
    places = np.arange(code.length)
    drawn = [
        Curve(_("dimension {number}").format(number=dimension), places, array(table(code)[:, dimension]), number)
        for number, dimension in enumerate(dict.fromkeys((0, code.d_model // 4 * 2, code.d_model - 2)))
    ]
    title = _("Low dimensions vary fast, high ones slowly")
    return picture(title, drawn, _("position p"), "PE")


def shift(settings: Settings) -> Shown:
    """PE(p + k) = R_k PE(p), and PE(p) · PE(q) over q − p (claim 8)."""
    code, k = settings.codes()[0], settings.k
    matrix = analysis.rotation(k, code.d_model, code.base)
    residual = analysis.shift_residual(table(code), matrix, k)
    said = []
    if len(residual):
        sentence = _("max ‖R_k PE(p) − PE(p + k)‖ = {error} over {count} positions, ‖PE(p)‖ = {norm}: {verdict}")
        error, norm = float(residual.max()), float(table(code)[0].norm())
        verdict = _("a linear function.") if error < 1e-6 * norm else _("not a linear function.")
        said.append(
            sentence.format(error=significant(error), count=len(residual), norm=significant(norm), verdict=verdict)
        )
    else:
        said.append(_("k = {k} leaves no pair of positions in a length of {length}.").format(k=k, length=code.length))
    places = [0, code.length // 2, code.length - 1]
    alone = len(settings.codes()) == 1
    asked = [(each, place) for each in settings.codes() for place in (places if alone else [each.length // 2])]
    drawn = [
        Curve(
            f"{settings.name(each)}, p = {place}",
            np.arange(each.length) - place,
            array(analysis.likeness(table(each), place)),
            number,
        )
        for number, (each, place) in enumerate(asked[:CURVES])
    ]
    sentence = _("At equal distance, PE(p)·PE(q) differs by at most {error} for p = {places}.")
    error = analysis.likeness_error(table(code), places)
    said.append(sentence.format(error=significant(error), places=", ".join(map(str, places))))
    title = _("Similarity PE(p)·PE(q) over q − p")
    turning = table_picture(_("R_k for k = {k}").format(k=k), matrix, settings, code, _("dimension"), MATRIX)
    return [*too_many(len(asked)), *said], [picture(title, drawn, "q − p", "PE(p)·PE(q)"), turning]


def table_picture(
    title: str, values: Tensor, settings: Settings, code: Code, rows: str = "", most: int = TABLE
) -> Picture:
    """At most so many rows and columns of a table; the title says if these are not all."""
    drawn = array(values[:most, :most])
    name = settings.name(code)
    if max(values.shape) > most:
        part = _("the first {rows} × {columns} of {all_rows} × {all_columns}")
        name += " · " + part.format(
            rows=drawn.shape[0], columns=drawn.shape[1], all_rows=values.shape[0], all_columns=values.shape[1]
        )
    top = max(1e-12, float(np.abs(drawn).max()))
    axes = _("dimension"), rows or _("position p")
    alt = f"{title}. {drawn.shape[0]} × {drawn.shape[1]}. {name}"
    return Picture(f"{title} · {name}", table_figure(drawn, *axes, top), alt, *axes)


def dimension_name(settings: Settings, code: Code, dimension: int) -> str:
    return f"{settings.name(code)}, {_('dimension {number}').format(number=dimension)}"


def dimension_curve(settings: Settings, code: Code, dimension: int, number: int) -> Curve:
    name = dimension_name(settings, code, dimension)
    return Curve(name, np.arange(code.length), array(table(code)[:, dimension]), number)


def beyond(settings: Settings) -> Iterator[str]:
    for width, dimension in product(settings.widths, settings.dimensions):
        if dimension >= width:
            sentence = _("d_model {width} has no dimension {dimension}: its dimensions are 0 to {last}.")
            yield sentence.format(width=width, dimension=dimension, last=width - 1)


def too_many(count: int) -> list[str]:
    sentence = _("{count} curves are asked for; the first {drawn} are drawn.")
    return [sentence.format(count=count, drawn=CURVES)] if count > CURVES else []


def picture(title: str, drawn: list[Curve], x_title: str, y_title: str, **options: Any) -> Picture:
    """The curves as a figure; in words, for screen readers, each with its range."""
    full = [curve for curve in drawn if curve.ys.size]
    ranges = [f"{curve.name}: {significant(curve.ys.min())} … {significant(curve.ys.max())}" for curve in full]
    figure = curve_figure(drawn, x_title, y_title, **options)
    return Picture(title, figure, f"{title}. {'; '.join(ranges)}", x_title, y_title)


def plain(value: float) -> str:
    """Three significant digits of a length in positions, written out as far as one reads that."""
    return f"{float(f'{value:.3g}'):,.0f}" if 1000 <= value < 1e6 else significant(value)


def array(tensor: Tensor) -> NDArray[np.float64]:
    return tensor.detach().cpu().double().numpy()
