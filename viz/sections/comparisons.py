"""The laboratory's comparisons of codes: of several lengths, and of a misread formula."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from model.analysis import positions as analysis
from viz.figures.curves import Curve
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.sections.experiments import Code, Settings, Shown, array, beyond, dimension_curve, picture, plain, table


def any_length(settings: Settings) -> Shown:
    """The code of one position in tables of several lengths (claim 5)."""
    place, base, width = settings.position, settings.bases[0], settings.widths[0]
    lengths = [length for length in settings.lengths if length > place]
    left = [str(length) for length in settings.lengths if length <= place]
    said = []
    if left:
        sentence = _("Position {place} is not in a table of length {lengths}.")
        said.append(sentence.format(place=place, lengths=", ".join(left)))
    if len(lengths) < 2:
        said.append(_("Give two lengths or more above {place} to compare.").format(place=place))
    else:
        error = analysis.length_difference(place, lengths, width, base)
        sentence = _("Position {place} in tables of length {lengths}: the largest difference is {error}.")
        said.append(sentence.format(place=place, lengths=", ".join(map(str, lengths)), error=significant(error)))
    codes = [Code(base, length, width) for length in lengths]
    thick = {
        n: 3.0 * (len(codes) - n) for n in range(len(codes))
    }  # each lies on the one before, and leaves an edge of it
    along = [
        Curve(
            _("length {length}").format(length=code.length),
            np.arange(width),
            array(table(code)[place]),
            n,
            dots=True,
            width=thick[n],
        )
        for n, code in enumerate(codes)
    ]
    titles = _("Position {place}, all dimensions").format(place=place), _("PE(p, dimension) over p")
    over = [
        replace(dimension_curve(settings, code, dimension, n), name=each.name, width=thick[n])
        for n, (code, each) in enumerate(zip(codes, along, strict=True))
        for dimension in settings.dimensions[:1]
        if dimension < width
    ]
    return [*beyond(settings), *said], [
        picture(titles[0], along, _("dimension"), "PE"),
        picture(titles[1], over, _("position p"), "PE", mark=float(place), until=2.0 * place + 10),
    ]


def misread(settings: Settings) -> Shown:
    """The formula as some tutorials have it, beside the paper's (claim 10)."""
    code = settings.codes()[0]
    right, wrong = table(code), analysis.misread(code.length, code.d_model, code.base)
    waves = [analysis.wavelengths(code.d_model, code.base), analysis.misread_wavelengths(code.d_model, code.base)]
    names, short = (_("paper: 2i/d with pair i"), _("wrong: 2i/d with channel i")), (_("paper"), _("wrong"))
    said = []
    for name, codes, longest in zip(names, (right, wrong), waves, strict=True):
        sentence = _("{name}: longest wavelength {longest} positions; sin² + cos² of a pair misses 1 by {error}.")
        error = significant(analysis.pair_error(codes))
        said.append(sentence.format(name=name, longest=plain(float(longest[-1])), error=error))
    if 0 <= settings.k < code.length:
        residuals = [
            float(analysis.shift_residual(each, analysis.best_shift(each, settings.k), settings.k).max())
            for each in (right, wrong)
        ]
        sentence = _("The best linear map that moves by k = {k} misses by {right} (paper) and {wrong} (wrong).")
        said.append(sentence.format(k=settings.k, right=significant(residuals[0]), wrong=significant(residuals[1])))
    channels, places = np.arange(code.d_model), np.arange(code.length)
    waved = [
        Curve(name, channels, array(wave), number) for number, (name, wave) in enumerate(zip(names, waves, strict=True))
    ]
    pair = [number // 2 * 2 for number in settings.dimensions[:1] if number < code.d_model]
    drawn = [
        Curve(f"{name}, {_('dimension {number}').format(number=at)}", places, array(codes[:, at]), number, at > even)
        for even in pair
        for number, (name, codes) in enumerate(zip(short, (right, wrong), strict=True))
        for at in (even, even + 1)
    ]
    titles = _("Wavelength of each dimension"), _("Sine and cosine of one pair")
    return [*beyond(settings), *said], [
        picture(titles[0], waved, _("dimension"), _("wavelength, positions"), log_y=True),
        picture(titles[1], drawn, _("position p"), "PE"),
    ]
