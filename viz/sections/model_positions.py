"""The laboratory's experiments on the loaded model, with the pinned one beside: learned positions, rotary, ALiBi."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from model.analysis import positions as analysis
from model.network.positions import alibi_slopes
from viz.figures.curves import Curve
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.sections.experiments import Settings, Shown, array, beyond, picture, table
from viz.state.positions import position_name

if TYPE_CHECKING:
    from torch import Tensor

    from model.inference.model import Inspectable

NEAR = 64  # distances of a rotary product and of ALiBi's biases that are drawn


def learned_tables(lens: Inspectable) -> dict[str, Tensor]:
    """The trained positions of each stack that has such, by its name, the encoder's first."""
    ends = ".embedding.positions.table"
    found = {name.removesuffix(ends): each for name, each in lens.model.named_parameters() if name.endswith(ends)}
    return {name: table.detach().cpu().double() for name, table in found.items()}


def _learned_names(tables: dict[str, Tensor]) -> dict[str, Tensor]:
    """What they are called; where there is but one, no stack is named."""
    stacks = {"encoder": _("encoder"), "decoder": _("decoder")}
    names = [f"{_('learned')} · {stacks[stack]}" if len(tables) > 1 else _("learned") for stack in tables]
    return dict(zip(names, tables.values(), strict=True))


def learned(settings: Settings, lens: Inspectable, pinned: Inspectable | None = None) -> Shown:
    """The trained positions of this model beside sinusoids of the same size, and beside the pinned model's."""
    trained = _learned_names(learned_tables(lens))
    if not trained:
        sentence = _("{name} has no learned positions: it was trained with {position}.")
        return [sentence.format(name=lens.name, position=position_name(lens.config.position))], []
    length, d_model = next(iter(trained.values())).shape
    same = Settings(settings.bases[:1], (length,), (d_model,), settings.dimensions, settings.k)
    sinusoids = table(same.codes()[0])
    tables = trained | {_("sinusoidal"): sinusoids}
    said = list(beyond(same))
    if settings.k < length:
        sentence = _(
            "The best map pair by pair that moves by k = {k} misses by {learned} of a code's length where it is "
            "learned, by {sinusoidal} where it is sinusoidal."
        )
        misses = _all_missed(trained, settings.k)
        said.append(sentence.format(k=settings.k, learned=misses, sinusoidal=_missed(sinusoids, settings.k)))
    before = {} if pinned is None else _learned_names(learned_tables(pinned))
    if pinned is not None and not before:
        sentence = _("{name}, which is pinned, has no learned positions to compare with ({position}).")
        said.append(sentence.format(name=pinned.name, position=position_name(pinned.config.position)))
    tables |= {f"{name} · {_('pinned')}": each for name, each in before.items()}
    if before and settings.k < len(next(iter(before.values()))):
        sentence = _("In the pinned model it misses by {error}.")
        said.append(sentence.format(error=_all_missed(before, settings.k)))
    dashed = {id(each) for each in before.values()}
    drawn = [
        Curve(
            f"{name}, {_('dimension {number}').format(number=dimension)}",
            np.arange(len(each)),
            array(each[:, dimension]),
            number,
            dash=id(each) in dashed,
        )
        for number, (name, each) in enumerate(tables.items())
        for dimension in settings.dimensions[:1]
        if dimension < each.shape[1]
    ]
    alike = [_likeness(name, each, number, id(each) in dashed) for number, (name, each) in enumerate(tables.items())]
    titles = _("PE(p, dimension) over p"), _("Cosine of PE(p) and PE(q) over q − p")
    return said, [
        picture(titles[0], drawn, _("position p"), "PE"),
        picture(titles[1], alike, "q − p", "cos"),
    ]


def _all_missed(tables: dict[str, Tensor], k: int) -> str:
    """Of each table, in their order."""
    return ", ".join(_missed(each, k) for each in tables.values())


def _missed(codes: Tensor, k: int) -> str:
    """The mean error of the best map that moves by k, as a part of a code's mean length."""
    moved = analysis.shift_residual(codes, analysis.best_shift(codes, k), k)
    return significant(float(moved.mean() / codes.norm(dim=-1).mean()))


def _likeness(name: str, codes: Tensor, number: int, dash: bool) -> Curve:
    middle = len(codes) // 2
    unit = codes / codes.norm(dim=-1, keepdim=True).clamp(min=1e-12)
    cosines = array(analysis.likeness(unit, middle))
    return Curve(f"{name}, p = {middle}", np.arange(len(codes)) - middle, cosines, number, dash)


def relative(settings: Settings, lens: Inspectable, pinned: Inspectable | None = None) -> Shown:
    """What rotary positions and ALiBi do in heads as this model has them; dashed: in the pinned model's, if others."""
    width, heads = _turned(lens), lens.config.n_heads
    near = min(NEAR, settings.lengths[0])
    distances = np.arange(near)
    angles = analysis.rotary_angles(near, width, settings.bases[0])
    slopes = alibi_slopes(heads)
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
    turns, turned, biased = (part(settings, lens, distances, False) for part in (_turns, _products, _biases))
    if pinned is not None and _turned(pinned) != width:
        turns += _turns(settings, pinned, distances, True)
        turned += _products(settings, pinned, distances, True)
    if pinned is not None and pinned.config.n_heads != heads:
        biased += _biases(settings, pinned, distances, True)
    if pinned is not None and (_turned(pinned), pinned.config.n_heads) == (width, heads):
        said.append(_("The pinned model has as many heads, as wide: its curves are the same."))
    titles = (
        _("Rotary: angle of a pair of channels"),
        _("Rotary: q·k over the distance, q = k"),
        _("ALiBi: what is added to the scores"),
    )
    return said, [
        picture(titles[0], turns, _("position p"), _("angle, radians"), log_y=True),
        picture(titles[1], turned, _("distance"), "q·k / ‖q‖‖k‖"),
        picture(titles[2], biased, _("distance"), _("bias")),
    ]


def _turned(lens: Inspectable) -> int:
    """Channels of a head that rotary positions turn, or would."""
    return lens.config.rotary_channels or lens.config.d_head // 2 * 2


def _named(name: str, pinned: bool) -> str:
    return f"{name} · {_('pinned')}" if pinned else name


def _turns(settings: Settings, lens: Inspectable, distances: np.ndarray, pinned: bool) -> list[Curve]:
    width = _turned(lens)
    angles = analysis.rotary_angles(len(distances), width, settings.bases[0])
    pairs = dict.fromkeys((0, width // 4, width // 2 - 1))
    return [
        Curve(
            _named(_("pair {number}").format(number=pair), pinned),
            distances[1:],
            array(angles[1:, pair]),
            number,
            pinned,
        )
        for number, pair in enumerate(pairs)
    ]


def _products(settings: Settings, lens: Inspectable, distances: np.ndarray, pinned: bool) -> list[Curve]:
    width = _turned(lens)
    return [
        Curve(_named(_("base {base}").format(base=f"{base:,.6g}"), pinned), distances, scores, number, pinned)
        for number, base in enumerate(settings.bases)
        for scores in [array(analysis.rotary_scores(len(distances), width, base)) / width]
    ]


def _biases(settings: Settings, lens: Inspectable, distances: np.ndarray, pinned: bool) -> list[Curve]:
    return [
        Curve(
            _named(_("head {head}").format(head=head + 1), pinned), distances, -float(slope) * distances, head, pinned
        )
        for head, slope in enumerate(alibi_slopes(lens.config.n_heads))
    ]
