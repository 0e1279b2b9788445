"""The laboratory's comparisons: lengths, a misread formula, learned positions, rotary angles and ALiBi."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from model.analysis import positions as analysis
from model.position_bias import alibi_slopes
from viz.figures.curves import Curve
from viz.i18n import _
from viz.sections.experiments import (
    Code,
    Settings,
    Shown,
    array,
    beyond,
    dimension_curve,
    dimension_name,
    picture,
    plain,
    table,
)
from viz.varying import position_name
from viz.words import significant

if TYPE_CHECKING:
    from torch import Tensor

    from model import Inspectable

NEAR = 64  # distances of a rotary product and of ALiBi's biases that are drawn


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


def learned_table(lens: Inspectable) -> Tensor | None:
    """The trained positions of the first stack that has such, if any."""
    names = (name for name, _each in lens.model.named_parameters() if name.endswith(".positions.table"))
    name = next(names, None)
    return None if name is None else lens.model.get_parameter(name).detach().cpu().double()


def learned(settings: Settings, lens: Inspectable) -> Shown:
    """The trained positions of this model beside sinusoids of the same size."""
    trained = learned_table(lens)
    if trained is None:
        sentence = _("{name} has no learned positions: it was trained with {position}.")
        return [sentence.format(name=lens.name, position=position_name(lens.config.position))], []
    length, d_model = trained.shape
    same = Settings(settings.bases[:1], (length,), (d_model,), settings.dimensions, settings.k)
    code = same.codes()[0]
    tables = {_("learned"): trained, _("sinusoidal"): table(code)}
    said = list(beyond(same))
    if settings.k < length:
        errors = []
        for each in tables.values():
            moved = analysis.shift_residual(each, analysis.best_shift(each, settings.k), settings.k)
            errors.append(significant(float(moved.mean() / each.norm(dim=-1).mean())))
        sentence = _(
            "The best map pair by pair that moves by k = {k} misses by {learned} of a code's length where it is "
            "learned, by {sinusoidal} where it is sinusoidal."
        )
        said.append(sentence.format(k=settings.k, learned=errors[0], sinusoidal=errors[1]))
    middle = length // 2
    alike = [
        Curve(f"{name}, p = {middle}", np.arange(length) - middle, array(_cosines(each, middle)), number)
        for number, (name, each) in enumerate(tables.items())
    ]
    drawn = [
        Curve(f"{name}, {dimension_name(same, code, dimension)}", np.arange(length), array(each[:, dimension]), number)
        for number, (name, each) in enumerate(tables.items())
        for dimension in settings.dimensions[:1]
        if dimension < d_model
    ]
    titles = _("PE(p, dimension) over p"), _("Cosine of PE(p) and PE(q) over q − p")
    return said, [
        picture(titles[0], drawn, _("position p"), "PE"),
        picture(titles[1], alike, "q − p", "cos"),
    ]


def _cosines(codes: Tensor, place: int) -> Tensor:
    unit = codes / codes.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    return analysis.likeness(unit, place)


def relative(settings: Settings, lens: Inspectable) -> Shown:
    """What rotary positions and ALiBi do in heads as this model has them."""
    width, heads = lens.config.d_head // 2 * 2, lens.config.n_heads
    near = min(NEAR, settings.lengths[0])
    distances = np.arange(near)
    turned = [
        Curve(_("base {base}").format(base=f"{base:,.6g}"), distances, array(scores) / width, number)
        for number, base in enumerate(settings.bases)
        for scores in [analysis.rotary_scores(near, width, base)]
    ]
    slopes = alibi_slopes(heads)
    biased = [
        Curve(_("head {head}").format(head=head + 1), distances, -float(slope) * distances, head)
        for head, slope in enumerate(slopes)
    ]
    angles = analysis.rotary_angles(near, width, settings.bases[0])
    pairs = dict.fromkeys((0, width // 4, width // 2 - 1))
    turns = [
        Curve(_("pair {number}").format(number=pair), distances[1:], array(angles[1:, pair]), number)
        for number, pair in enumerate(pairs)
    ]
    said = [
        _("Rotary, base {base}: a step turns the first pair of a head by {first} rad, the last by {last} rad.").format(
            base=f"{settings.bases[0]:,.6g}",
            first=significant(float(angles[1, 0])) if near > 1 else "0",
            last=significant(float(angles[1, -1])) if near > 1 else "0",
        ),
        _("ALiBi, {heads} heads: a key one token farther loses {most} in head 1 and {least} in the last.").format(
            heads=heads, most=significant(float(slopes.max())), least=significant(float(slopes.min()))
        ),
    ]
    titles = (
        _("Rotary: q·k over the distance, q = k"),
        _("ALiBi: what is added to the scores"),
        _("Rotary: angle of a pair of channels"),
    )
    return said, [
        picture(titles[2], turns, _("position p"), _("angle, radians"), log_y=True),
        picture(titles[0], turned, _("distance"), "q·k / ‖q‖‖k‖"),
        picture(titles[1], biased, _("distance"), _("bias")),
    ]
