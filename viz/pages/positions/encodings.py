"""The experiments of the position laboratory: settings in; pictures, and verdicts computed from them, out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from plotly.graph_objects import Figure
from torch import Tensor

from model.analysis import positions as analysis
from model.network.positions import alibi_slopes, sinusoidal
from viz.i18n.catalogue import _, ngettext
from viz.i18n.format import clauses, enumeration, grouped, in_turn, significant, stopped, with_label
from viz.i18n.messages import in_language
from viz.pages.positions.figures import Curve, Panel, curve_figure, panel_figure, table_figure
from viz.state.position_override import position_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from model.inference.text_model import TextModel

LEGEND = 6  # curves in one plane: where there are more, each encoding has a panel
PANELS = 27  # in one picture: three bases, lengths and widths together
FINE, POINTS = 8, 4096  # of a line from one position to the next, if it has not more altogether
SPOKEN = 4  # number of them in a sentence
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
    """Settings of the laboratory: every combination of bases, lengths and widths, and where to look.

    single: number of the combination that is drawn where there is place for one.
    """

    bases: tuple[float, ...]
    lengths: tuple[int, ...]
    widths: tuple[int, ...]
    dimensions: tuple[int, ...] = (0,)
    k: int = 1
    position: int = 50
    single: int = 0

    @property
    def code(self) -> Code:
        """Combination that is drawn where there is place for one."""
        codes = self.codes()
        return codes[min(self.single, len(codes) - 1)]

    def codes(self) -> list[Code]:
        return [Code(*each) for each in product(self.bases, self.lengths, self.widths)]

    def parts(self, code: Code, *, length: bool = True) -> list[str]:
        """Settings that tell this encoding from the others."""
        parts = [_("base {base}").format(base=grouped(code.base))] if len(self.bases) > 1 else []
        parts += [_("length {length}").format(length=code.length)] if length and len(self.lengths) > 1 else []
        return parts + ([f"d {code.d_model}"] if len(self.widths) > 1 else [])

    def name(self, code: Code, *, length: bool = True) -> str:
        """Name of the encoding in one line; its base, where it is the only one."""
        return " · ".join(self.parts(code, length=length)) or _("base {base}").format(base=grouped(code.base))


@dataclass(frozen=True)
class Picture:
    """A figure with its title, its words for screen readers, and the names of its two axes.

    curves: what it draws, under their whole names. wide: it takes the whole width.
    """

    title: str
    figure: Figure
    alt: str
    x: str
    y: str
    curves: Sequence[Curve] = ()
    wide: bool = False


LaboratoryFigures = tuple[list[str], list[Picture]]


@lru_cache(maxsize=16)
def table(code: Code) -> Tensor:
    """The encoding by the function that the models use, in float64."""
    return sinusoidal(code.length, code.d_model, code.base)


def curves(settings: Settings) -> LaboratoryFigures:
    """PE over the positions, and the whole of the chosen encoding."""
    every = product(settings.codes(), settings.dimensions)
    choices = [(code, dimension) for code, dimension in every if dimension < code.d_model]
    sentences = [*beyond(settings), *too_many(settings.codes())]
    for code, dimension in choices[:SPOKEN]:
        waves = analysis.wavelengths(code.d_model, code.base)
        sentence = _("{code}: dimension {dimension} repeats after {waves} positions.")
        sentences.append(
            sentence.format(
                dimension=dimension, code=settings.name(code, length=False), waves=plain(float(waves[dimension]))
            )
        )
    title = _("PE(p, dimension) over p")
    whole = table_picture(_("The whole table"), table(settings.code), settings, settings.code)
    over = compared(title, settings, choices, sinusoid, dimension_called, _("position p"), "PE")
    return sentences, [over, whole]


def wavelengths(settings: Settings) -> LaboratoryFigures:
    """Wavelength of each dimension (claims 6 and 7)."""
    codes = list(dict.fromkeys(Code(code.base, settings.lengths[0], code.d_model) for code in settings.codes()))
    waves = [array(analysis.wavelengths(code.d_model, code.base)) for code in codes]
    sentences = too_many(codes)
    for code, wave in list(zip(codes, waves, strict=True))[:SPOKEN]:
        sentence = _("{code}: dimension 0 repeats after {first} positions, dimension {last} after {longest}.")
        first, longest = plain(wave[0]), plain(wave[-1])
        sentences.append(
            sentence.format(code=settings.name(code, length=False), first=first, last=code.d_model - 1, longest=longest)
        )
    if len(settings.bases) > 1:
        low, high = min(settings.bases), max(settings.bases)
        shorter = analysis.wavelengths(settings.widths[0], low) < analysis.wavelengths(settings.widths[0], high)
        sentence = _("With base {low} instead of {high}, {count} of {all} dimensions have a shorter wavelength.")
        sentences.append(
            sentence.format(low=grouped(low), high=grouped(high), count=int(shorter.sum()), all=len(shorter))
        )
    title = _("Wavelength of each dimension")
    waves_of = compared(
        title,
        settings,
        list(zip(codes, [""] * len(codes), strict=True)),
        lambda code, _none: Curve("", np.arange(code.d_model), waves[codes.index(code)], 0),
        str,
        _("dimension"),
        _("wavelength, positions"),
        length=False,
        log_y=True,
    )
    return sentences, [waves_of, _fast_and_slow(settings.code)]


def _fast_and_slow(code: Code) -> Picture:
    drawn = [
        replace(sinusoid(code, dimension), name=dimension_called(dimension), colour=number)
        for number, dimension in enumerate(dict.fromkeys((0, code.d_model // 4 * 2, code.d_model - 2)))
    ]
    title = _("Low dimensions vary fast, high ones slowly")
    return picture(title, drawn, _("position p"), "PE")


def shift(settings: Settings) -> LaboratoryFigures:
    """PE(p + k) = R_k PE(p), and PE(p) · PE(q) over q − p (claim 8)."""
    code, k = settings.code, settings.k
    matrix = analysis.rotation(k, code.d_model, code.base)
    residual = analysis.shift_residual(table(code), matrix, k)
    sentences = []
    if len(residual):
        sentence = _("max ‖R_k PE(p) − PE(p + k)‖ = {error} over {count} positions, ‖PE(p)‖ = {norm}: {verdict}")
        error, norm = float(residual.max()), float(table(code)[0].norm())
        verdict = _("a linear function.") if error < 1e-6 * norm else _("not a linear function.")
        sentences.append(
            sentence.format(error=significant(error), count=len(residual), norm=significant(norm), verdict=verdict)
        )
    else:
        sentences.append(
            _("k = {k} leaves no pair of positions in a length of {length}.").format(k=k, length=code.length)
        )
    places = [0, code.length // 2, code.length - 1]
    alone = len(settings.codes()) == 1
    choices = [(each, place) for each in settings.codes() for place in (places if alone else [each.length // 2])]
    sentence = _("At equal distance, PE(p)·PE(q) differs by at most {error} for p = {places}.")
    error = analysis.likeness_error(table(code), places)
    sentences.append(sentence.format(error=significant(error), places=", ".join(map(str, places))))
    title = _("Similarity PE(p)·PE(q) over q − p")
    turning = table_picture(_("R_k for k = {k}").format(k=k), matrix, settings, code, _("dimension"), MATRIX)
    similar = compared(title, settings, choices, alike, "p = {}".format, "q − p", "PE(p)·PE(q)")
    return [*too_many(settings.codes()), *sentences], [similar, turning]


def alike(code: Code, place: int) -> Curve:
    """The code of a place beside all of its table, over the distance."""
    distances = np.arange(code.length) - place
    fine = between(distances)
    line = analysis.likeness_at(torch.from_numpy(fine), analysis.wavelengths(code.d_model, code.base))
    return Curve("", distances, array(analysis.likeness(table(code), place)), 0, fine=(fine, array(line)))


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


def dimension_name(name: str, dimension: int) -> str:
    return f"{name}, {dimension_called(dimension)}"


def dimension_called(dimension: int) -> str:
    return _("dimension {number}").format(number=dimension)


def sinusoid(code: Code, dimension: int) -> Curve:
    """One dimension of an encoding over its positions, and between them."""
    waves = analysis.wavelengths(code.d_model, code.base)
    return smooth(column("", table(code), dimension, 0), dimension, waves)


def smooth(curve: Curve, dimension: int, waves: Tensor) -> Curve:
    """The curve, with the sine or cosine that it has its points from."""
    fine = between(curve.xs)
    return replace(curve, fine=(fine, array(analysis.wave_at(torch.from_numpy(fine), dimension, waves))))


def between(places: NDArray[Any]) -> NDArray[np.float64]:
    """Places from the first of these whole numbers to the last, in small steps."""
    steps = max(2, min(FINE, POINTS // len(places)))
    fine: NDArray[np.float64] = places[0] + np.arange((len(places) - 1) * steps + 1) / steps
    return fine


Drawn = TypeVar("Drawn")


def compared(
    title: str,
    settings: Settings,
    choices: Sequence[tuple[Code, Drawn]],
    draw: Callable[[Code, Drawn], Curve],
    label: Callable[[Drawn], str],
    x_title: str,
    y_title: str,
    length: bool = True,
    log_y: bool = False,
) -> Picture:
    """A curve for each encoding and what is drawn of it: in one plane, or, of many, in a panel an encoding."""
    codes = list(dict.fromkeys(code for code, _what in choices))[:PANELS]
    drawn = {(code, what): draw(code, what) for code, what in choices if code in codes}
    named = [
        replace(curve, name=", ".join(filter(None, (settings.name(code, length=length), label(what)))), colour=number)
        for number, ((code, what), curve) in enumerate(drawn.items())
    ]
    if len(named) <= LEGEND:
        return picture(title, named, x_title, y_title, log_y=log_y)
    several = len(drawn) > len(codes)  # curves in a panel
    colours = {what: several * number for number, what in enumerate(dict.fromkeys(what for _code, what in drawn))}
    panels = []
    for code in codes:
        *row, column = settings.parts(code, length=length)
        curves = [
            replace(curve, name=label(what), colour=colours[what]) for (of, what), curve in drawn.items() if of == code
        ]
        panels.append(Panel(" · ".join(row), column, curves))
    columns = sum(panel.row == panels[0].row for panel in panels)
    summary = _("{count} panels, from {first} to {last}").format(
        count=len(panels), first=settings.name(codes[0], length=length), last=settings.name(codes[-1], length=length)
    )
    figure = panel_figure(panels, columns, x_title, y_title, log_y)
    return Picture(title, figure, f"{title}. {summary}", x_title, y_title, named, wide=True)


def column(name: str, codes: Tensor, dimension: int, number: int, dash: bool = False) -> Curve:
    """One dimension of a table over its positions."""
    return Curve(name, np.arange(len(codes)), array(codes[:, dimension]), number, dash)


def beyond(settings: Settings) -> Iterator[str]:
    for width, dimension in product(settings.widths, settings.dimensions):
        if dimension >= width:
            sentence = _("d_model {width} has no dimension {dimension}: its dimensions are 0 to {last}.")
            yield sentence.format(width=width, dimension=dimension, last=width - 1)


def too_many(codes: Sequence[Code]) -> list[str]:
    sentence = _("{count} combinations are asked for; the first {drawn} are drawn.")
    return [sentence.format(count=len(codes), drawn=PANELS)] if len(codes) > PANELS else []


def picture(title: str, drawn: list[Curve], x_title: str, y_title: str, **options: Any) -> Picture:
    """The curves as a figure; in words, for screen readers, each with its range."""
    full = [curve for curve in drawn if curve.ys.size]
    ranges = [
        with_label(curve.name, f"{significant(curve.ys.min())} … {significant(curve.ys.max())}") for curve in full
    ]
    figure = curve_figure(drawn, x_title, y_title, **options)
    return Picture(title, figure, in_turn(stopped(title), clauses(ranges)), x_title, y_title, drawn)


def plain(value: float) -> str:
    """Three significant digits of a length in positions, written out as far as one reads that."""
    return f"{float(f'{value:.3g}'):,.0f}" if 1000 <= value < 1e6 else significant(value)


def array(tensor: Tensor) -> NDArray[np.float64]:
    return tensor.detach().cpu().double().numpy()


# The laboratory's comparisons of codes: of several lengths, and of a misread formula.


def any_length(settings: Settings) -> LaboratoryFigures:
    """The code of one position in tables of several lengths (claim 5)."""
    place, base, width = settings.position, settings.bases[0], settings.widths[0]
    lengths = [length for length in settings.lengths if length > place]
    left = [str(length) for length in settings.lengths if length <= place]
    sentences = []
    if left:
        sentence = _("Position {place} is not in a table of length {lengths}.")
        sentences.append(sentence.format(place=place, lengths=", ".join(left)))
    if len(lengths) < 2:
        sentences.append(_("Give two lengths or more above {place} to compare.").format(place=place))
    else:
        error = analysis.length_difference(place, lengths, width, base)
        sentence = _("Position {place} in tables of length {lengths}: the largest difference is {error}.")
        sentences.append(sentence.format(place=place, lengths=", ".join(map(str, lengths)), error=significant(error)))
    codes = [Code(base, length, width) for length in lengths]
    names = [_("length {length}").format(length=length) for length in lengths]
    thick = [3.0 * (len(codes) - n) for n in range(len(codes))]  # each lies on the one before, and leaves its edge seen
    along = [
        Curve(names[n], np.arange(width), array(table(code)[place]), n, dots=True, width=thick[n])
        for n, code in enumerate(codes)
    ]
    titles = _("Position {place}, all dimensions").format(place=place), _("PE(p, dimension) over p")
    over = [
        replace(sinusoid(code, dimension), name=names[n], colour=n, width=thick[n])
        for n, code in enumerate(codes)
        for dimension in settings.dimensions[:1]
        if dimension < width
    ]
    return [*beyond(settings), *sentences], [
        picture(titles[0], along, _("dimension"), "PE"),
        picture(titles[1], over, _("position p"), "PE", mark=float(place), until=2.0 * place + 10),
    ]


def misread(settings: Settings) -> LaboratoryFigures:
    """The formula as some tutorials have it, beside the paper's (claim 10)."""
    code = settings.code
    right, wrong = table(code), analysis.misread(code.length, code.d_model, code.base)
    waves = [analysis.wavelengths(code.d_model, code.base), analysis.misread_wavelengths(code.d_model, code.base)]
    names, short = (_("paper: 2i/d with pair i"), _("wrong: 2i/d with channel i")), (_("paper"), _("wrong"))
    sentences = []
    for name, codes, longest in zip(names, (right, wrong), waves, strict=True):
        sentence = _("{name}: longest wavelength {longest} positions; sin² + cos² of a pair misses 1 by {error}.")
        error = significant(analysis.pair_error(codes))
        sentences.append(sentence.format(name=name, longest=plain(float(longest[-1])), error=error))
    if 0 <= settings.k < code.length:
        residuals = [
            float(analysis.shift_residual(each, analysis.best_shift(each, settings.k), settings.k).max())
            for each in (right, wrong)
        ]
        sentence = _("The best linear map that moves by k = {k} misses by {right} (paper) and {wrong} (wrong).")
        sentences.append(
            sentence.format(k=settings.k, right=significant(residuals[0]), wrong=significant(residuals[1]))
        )
    channels = np.arange(code.d_model)
    waved = [Curve(names[number], channels, array(wave), number) for number, wave in enumerate(waves)]
    pair = [number // 2 * 2 for number in settings.dimensions[:1] if number < code.d_model]
    drawn = [
        smooth(column(dimension_name(name, at), codes, at, number, at > even), at, periods)
        for even in pair
        for number, (name, codes, periods) in enumerate(zip(short, (right, wrong), waves, strict=True))
        for at in (even, even + 1)
    ]
    titles = _("Wavelength of each dimension"), _("Sine and cosine of one pair")
    return [*beyond(settings), *sentences], [
        picture(titles[0], waved, _("dimension"), _("wavelength, positions"), log_y=True),
        picture(titles[1], drawn, _("position p"), "PE"),
    ]


# The laboratory's experiments on the loaded model, with the pinned one beside: learned positions, rotary, ALiBi.

NEAR = 64  # distances of a rotary product and of ALiBi's biases that are drawn


def learned_tables(model: TextModel) -> dict[str, Tensor]:
    """The trained positions of each stack that has such, by its name, the encoder's first."""
    ends = ".embedding.positions.table"
    tables = [(name, each) for name, each in model.network.named_parameters() if name.endswith(ends)]
    return {name.removesuffix(ends): table.detach().cpu().double() for name, table in tables}


def _learned_names(tables: dict[str, Tensor]) -> dict[str, Tensor]:
    """Names of the tables; where there is but one, no stack is named."""
    stacks = {"encoder": _("encoder"), "decoder": _("decoder")}
    names = [f"{_('learned')} · {stacks[stack]}" if len(tables) > 1 else _("learned") for stack in tables]
    return dict(zip(names, tables.values(), strict=True))


def learned(settings: Settings, model: TextModel, pinned: TextModel | None = None) -> LaboratoryFigures:
    """The trained positions of this model beside sinusoids of the same size, and beside the pinned model's."""
    trained = _learned_names(learned_tables(model))
    if not trained:
        sentence = _("{name} has no learned positions: it was trained with {position}. A new one can have them.")
        return [sentence.format(name=model.name, position=in_language(position_name(model.config.position)))], []
    length, d_model = next(iter(trained.values())).shape
    same = Settings(settings.bases[:1], (length,), (d_model,), settings.dimensions, settings.k)
    sinusoids = table(same.codes()[0])
    tables = trained | {_("sinusoidal"): sinusoids}
    sentences = list(beyond(same))
    if settings.k < length:
        sentence = _(
            "The best map pair by pair that moves by k = {k} misses by {learned} of a code's length where it is "
            "learned, by {sinusoidal} where it is sinusoidal."
        )
        misses = _all_missed(trained, settings.k)
        sentences.append(sentence.format(k=settings.k, learned=misses, sinusoidal=_missed(sinusoids, settings.k)))
    before = {} if pinned is None else _learned_names(learned_tables(pinned))
    if pinned is not None and not before:
        sentence = _("{name}, which is pinned, has no learned positions to compare with ({position}).")
        sentences.append(sentence.format(name=pinned.name, position=in_language(position_name(pinned.config.position))))
    tables |= {f"{name} · {_('pinned')}": each for name, each in before.items()}
    if before and settings.k < len(next(iter(before.values()))):
        sentence = _("In the pinned model it misses by {error}.")
        sentences.append(sentence.format(error=_all_missed(before, settings.k)))
    dashed = {id(each) for each in before.values()}
    drawn = [
        column(dimension_name(name, dimension), each, dimension, number, id(each) in dashed)
        for number, (name, each) in enumerate(tables.items())
        for dimension in settings.dimensions[:1]
        if dimension < each.shape[1]
    ]
    waves = analysis.wavelengths(d_model, settings.bases[0])
    formula = dimension_name(_("sinusoidal"), settings.dimensions[0])  # between learned positions nothing is known
    drawn = [smooth(each, settings.dimensions[0], waves) if each.name == formula else each for each in drawn]
    alike = [_likeness(name, each, number, id(each) in dashed) for number, (name, each) in enumerate(tables.items())]
    titles = _("PE(p, dimension) over p"), _("Cosine of PE(p) and PE(q) over q − p")
    return sentences, [
        picture(titles[0], drawn, _("position p"), "PE"),
        picture(titles[1], alike, "q − p", "cos"),
    ]


def _all_missed(tables: dict[str, Tensor], k: int) -> str:
    """Errors of all tables, in their order."""
    return enumeration(_missed(each, k) for each in tables.values())


def _missed(codes: Tensor, k: int) -> str:
    """The mean error of the best map that moves by k, as a part of a code's mean length."""
    moved = analysis.shift_residual(codes, analysis.best_shift(codes, k), k)
    return significant(float(moved.mean() / codes.norm(dim=-1).mean()))


def _likeness(name: str, codes: Tensor, number: int, dash: bool) -> Curve:
    middle = len(codes) // 2
    unit = codes / codes.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    cosines = array(analysis.likeness(unit, middle))
    return Curve(f"{name}, p = {middle}", np.arange(len(codes)) - middle, cosines, number, dash)


def relative(settings: Settings, model: TextModel, pinned: TextModel | None = None) -> LaboratoryFigures:
    """Effect of rotary positions and ALiBi in heads like this model's; dashed: in the pinned model's, if others."""
    width, heads = _turned(model), model.config.n_heads
    near = min(NEAR, settings.lengths[0])
    distances = np.arange(near)
    angles = analysis.rotary_angles(near, width, settings.bases[0])
    slopes = alibi_slopes(heads)
    sentences = [
        _("Rotary, base {base}: a step turns the first pair of a head by {first} rad, the last by {last} rad.").format(
            base=grouped(settings.bases[0]),
            first=significant(float(angles[1, 0])) if near > 1 else "0",
            last=significant(float(angles[1, -1])) if near > 1 else "0",
        ),
        ngettext(
            "ALiBi, {count} head: a key one token farther loses {most} in head 1 and {least} in the last.",
            "ALiBi, {count} heads: a key one token farther loses {most} in head 1 and {least} in the last.",
            heads,
        ).format(count=heads, most=significant(float(slopes.max())), least=significant(float(slopes.min()))),
    ]
    turns, turned, biased = (part(settings, model, distances, False) for part in (_turns, _products, _biases))
    if pinned is not None and _turned(pinned) != width:
        turns += _turns(settings, pinned, distances, True)
        turned += _products(settings, pinned, distances, True)
    if pinned is not None and pinned.config.n_heads != heads:
        biased += _biases(settings, pinned, distances, True)
    if pinned is not None and (_turned(pinned), pinned.config.n_heads) == (width, heads):
        sentences.append(_("The pinned model has as many heads, as wide: its curves are the same."))
    titles = (
        _("Rotary: angle of a pair of channels"),
        _("Rotary: q·k over the distance, q = k"),
        _("ALiBi: what is added to the scores"),
    )
    return sentences, [
        picture(titles[0], turns, _("position p"), _("angle, radians"), log_y=True),
        picture(titles[1], turned, _("distance"), "q·k / ‖q‖‖k‖"),
        picture(titles[2], biased, _("distance"), _("bias")),
    ]


def _turned(model: TextModel) -> int:
    """Channels of a head that rotary positions turn, or would."""
    return model.config.rotary_channels or model.config.d_head // 2 * 2


def _named(name: str, pinned: bool) -> str:
    return f"{name} · {_('pinned')}" if pinned else name


def _turns(settings: Settings, model: TextModel, distances: np.ndarray, pinned: bool) -> list[Curve]:
    width = _turned(model)
    angles = analysis.rotary_angles(len(distances), width, settings.bases[0])[1:]
    pairs = dict.fromkeys((0, width // 4, width // 2 - 1))
    return [
        Curve(
            _named(_("pair {number}").format(number=pair), pinned),
            distances[1:],
            array(angles[:, pair]),
            number,
            pinned,
        )
        for number, pair in enumerate(pairs)
    ]


def _products(settings: Settings, model: TextModel, distances: np.ndarray, pinned: bool) -> list[Curve]:
    width = _turned(model)
    fine, curves_of_bases = between(distances), []
    for number, base in enumerate(settings.bases):
        scores = array(analysis.rotary_scores(len(distances), width, base)) / width
        line = 2 * array(analysis.likeness_at(torch.from_numpy(fine), analysis.wavelengths(width, base))) / width
        name = _named(_("base {base}").format(base=grouped(base)), pinned)
        curves_of_bases.append(Curve(name, distances, scores, number, pinned, fine=(fine, line)))
    return curves_of_bases


def _biases(
    settings: Settings,  # noqa: ARG001 - as the parts beside it
    model: TextModel,
    distances: np.ndarray,
    pinned: bool,
) -> list[Curve]:
    slopes = alibi_slopes(model.config.n_heads).tolist()
    return [
        Curve(_named(_("head {head}").format(head=head + 1), pinned), distances, -slope * distances, head, pinned)
        for head, slope in enumerate(slopes)
    ]
