"""A feed-forward layer in numbers: histogram, dead units, what a unit reads and writes, positions apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from model.analysis.feed_forward import (
    Apart,
    Direction,
    Seen,
    off,
    positions_apart,
    present,
    quantities,
    reaches_output,
    read_scores,
    reads,
    threshold,
    write_scores,
    writes,
)
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.figure import About
from viz.i18n.catalogue import _
from viz.i18n.errors import beside_pin, unless_absent
from viz.i18n.format import in_turn, no_predictions, significant
from viz.pages.feed_forward.text import is_gated, layer_class, unit_formula, unit_quantity
from viz.pages.feed_forward.units import (
    BINS,
    SHARED,
    Chosen,
    Numbers,
    Scores,
    goes_through,
    off_name,
    pinned_direction,
    pinned_layer,
    pinned_share,
    values_of,
)
from viz.render.renderer import span
from viz.render.view import FigureView, view
from viz.state.pin import cached_for_pin
from viz.ui.parts import explanation
from viz.ui.plots import FIRST, PINNED, SECOND, array, heading, missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from model.capture.trace import Trace
    from model.network.config import TransformerConfig, Units
    from viz.state.session import Session


def histogram(session: Session, chosen: Chosen, key: str) -> FigureView:
    """How many activations of the layer have which size, counts on a log axis."""
    every, other = values_of(session, chosen)
    whole = array(present(every))
    own = whole[np.isfinite(whole)]
    counts, edges = np.histogram(own, bins=BINS)
    centres = (edges[:-1] + edges[1:]) / 2
    series = [Series(_("count"), centres, counts, SECOND, "bars")]
    if other is not None:
        known = array(other)
        before, _same = np.histogram(known[np.isfinite(known)], bins=edges)
        series.append(Series(_("pinned"), centres, before, PINNED, dash=True))
    name = _("Histogram: {place}").format(place=chosen.place)
    low, high = span(own)
    note = f"{low} … {high}"
    if odd := whole.size - own.size:
        note += " · " + _("not a number, or infinite: {count}").format(count=f"{odd:,}")
    config = session.model.config
    units = config.units_of(chosen.stack, chosen.layer)
    about = About(
        _("How many of the layer's numbers, one for each unit at each token, are of which size."),
        [
            rf"a = {unit_formula(config, units, chosen.quantity)}",
            r"n_k = \left|\{(p, u) : e_k \le a_{p,u} < e_{k+1}\}\right|",
        ],
        [layer_class(units)],
    )
    above = heading(session.trace, name, f"histogram-{chosen.name}", note, missing(session, other), about=about)
    x_axis, y_axis = Axis(unit_quantity(chosen.quantity)), Axis(_("count"), log=True, zero=False, low=0.5)
    return view(key, Chart(above, series, x_axis, y_axis, tall=190))


def direction_charts(
    session: Session, config: TransformerConfig, chosen: Chosen, keys: tuple[str, str]
) -> tuple[list[FigureView], str]:
    """Tokens that a unit's output pushes up and down, and those that its input is like; and a sentence on how."""
    model, of = session.model, (chosen.path, chosen.unit)
    plots, said = [], []

    def draw(tokens: Callable[[], Direction], scores: Scores, side: str, *looks: str) -> None:
        direction, lacking = unless_absent(tokens)
        if direction is not None and not all(math.isfinite(value) for _token, value in direction.towards):
            direction, lacking = None, _("The weights of this unit are not finite: it reads and writes no tokens.")
        if direction is not None:
            before, lacking = pinned_direction(session, chosen, direction, scores, side)
            plots.append(_direction_chart(session, direction, before, *looks))
        said.append(lacking)

    if not model.predicts:
        said.append(no_predictions())
    elif reaches_output(config, chosen.stack):
        said.append(_("Its output weights through the unembedding, without the final norm and the layers above."))
        looks = (_("Words that this unit pushes up or down"), _("logit of activation 1"), FIRST, "unit-writes", keys[0])
        draw(lambda: writes(model.network, *of, model.target_tokenizer), write_scores, "target", *looks)
    else:
        said.append(
            _("An encoder's units reach the output only through the decoder: they have no logits of their own.")
        )
    encoder = chosen.stack == "encoder"
    side, tokenizer = ("source", model.source_tokenizer) if encoder else ("target", model.target_tokenizer)
    looks = (_("Tokens that it looks for"), _("cosine"), SECOND, "unit-reads", keys[1])
    draw(lambda: reads(model.network, *of, tokenizer), read_scores, side, *looks)
    return plots, in_turn(*dict.fromkeys(said))


def _direction_chart(
    session: Session, tokens: Direction, before: Numbers | None, name: str, axis: str, colour: str, file: str, key: str
) -> FigureView:
    labels, values = zip(*tokens.towards, *reversed(tokens.away), strict=True)
    places, count = np.arange(len(labels)), len(tokens.towards)
    alt = f"{name}: {', '.join(labels[:count])} … {', '.join(reversed(labels[count:]))}"
    series = [Series(axis, places, np.array(values, np.float32), colour, "bars")]
    if before is not None:
        series.append(Series(_("{name}, pinned").format(name=axis), places, before, PINNED, "dots"))
        alt += f". {_('pinned')}: {', '.join(significant(float(value)) for value in before)}"
    above = heading(session.trace, name, file, alt=alt, about=about_direction(file))
    return view(key, Chart(above, series, Axis("", labels, "vocabulary"), Axis(axis), tall=80, place=_("token")))


def about_direction(file: str) -> About:
    """Of the tokens that a unit writes, or reads."""
    if file == "unit-writes":
        sentence = _("The tokens whose logits this unit raises most where it is on, and those that it lowers most.")
        return About(sentence, [r"W_U\, w_{2,u}"], [write_scores])
    sentence = _(
        "The tokens whose embeddings point most along what this unit reads, and those most against it. Embeddings and "
        "weights are taken as they are: the gain γ of the norm in front of the unit is left out."
    )
    formula = r"\cos(E_t, w_{1,u}) = \frac{E_t \cdot w_{1,u}}{\lVert E_t \rVert\, \lVert w_{1,u} \rVert}"
    return About(sentence, [formula], [read_scores])


def layer_sentence(session: Session, chosen: Chosen, seen: Seen) -> str:
    """Share of zeros and dead units, of this text and of all texts seen in this session."""
    if not chosen.quantity:
        return _("{place}: what it computes is of a form that is not known here.").format(place=chosen.place)
    silent, network = present_off(session, chosen), session.trace.network
    if not goes_through(session, chosen).any():
        return _("{place}: no token of this text goes through it.").format(place=chosen.place)
    odd = int((~present(_activations(session, chosen)).isfinite()).any(dim=0).sum())
    if odd or not len(silent):
        return _("{place}: of {units} units **{odd}** are not a number, or infinite, at a token of this text.").format(
            place=chosen.place, units=silent.shape[1], odd=odd if len(silent) else silent.shape[1]
        )
    if chosen.expert and chosen.expert != SHARED:
        sentence = _(
            "{place}: {name} **{share:.1%}** · off at all {tokens} tokens that go through it: **{dead}** of {units} "
            "units · over the {positions} positions of it seen on this page: **{never}** were never on"
        )
    else:
        sentence = _(
            "{place}: {name} **{share:.1%}** · off at all {tokens} tokens of this text: **{dead}** of {units} units "
            "· over the {positions} positions seen on this page: **{never}** were never on"
        )
    return sentence.format(
        place=chosen.place,
        name=off_name(chosen.activation),
        share=float(silent.float().mean()),
        tokens=len(silent),
        dead=int(silent.all(dim=0).sum()),
        units=silent.shape[1],
        positions=seen.positions(network, chosen.path),
        never=int((~seen.on(network, chosen.path)).sum()),
    ) + pinned_share(session, chosen)


def _activations(session: Session, chosen: Chosen) -> Tensor:
    """(position, unit): what the output weights multiply, NaN at tokens that do not go through this expert."""
    return session.trace[f"{chosen.path}.{quantities(session.trace.network, chosen.path)[0]}"].float()


def present_off(session: Session, chosen: Chosen) -> Tensor:
    """(some position, unit): whether a unit is off, at the tokens that go through this network."""
    return off(present(_activations(session, chosen)), threshold(chosen.activation))


def apart_table(session: Session, chosen: Chosen) -> tuple[pd.DataFrame, str]:
    """That the network treats each position by itself, in numbers; self-attention beside it does not. And a sentence
    where the pinned one's numbers cannot stand beside.
    """
    rows = _apart_rows(_apart(session.trace, chosen))
    table = pd.DataFrame(rows.items(), columns=[_("compared"), _("largest difference")])
    pin = session.pin
    if pin is None:
        return table, ""
    lacking = pinned_layer(pin, chosen)
    if not lacking:
        known, lacking = beside_pin(
            lambda: cached_for_pin(pin, "apart", (chosen.path,), lambda: _apart(pin.trace, chosen))
        )
        if known is not None:
            before = _apart_rows(known)
            table[_("{name}, pinned").format(name=_("largest difference"))] = [before.get(name) for name in rows]
    return table, lacking


def _apart(trace: Trace, chosen: Chosen) -> Apart:
    order = list(reversed(range(len(trace.tokens_of(chosen.name)))))
    return positions_apart(trace, chosen.path, order)


def _apart_rows(found: Apart) -> dict[str, float]:
    rows = {
        _("feed-forward: positions reversed, outputs reversed"): found.permuted,
        _("feed-forward: each position alone, all together"): found.alone,
        _("self-attention: each position alone, all together"): found.attention_alone,
        _("this computation, what was recorded"): found.recorded,
    }
    return {name: value for name, value in rows.items() if value is not None}


def unit_table(session: Session, chosen: Chosen, seen: Seen) -> pd.DataFrame:
    """A row per unit of the layer, or of the expert."""
    trace = session.trace
    own, other = values_of(session, chosen)
    labels = trace.tokens_of(chosen.name)
    silent = present_off(session, chosen)
    strongest = own.abs().nan_to_num(nan=-1.0).argmax(dim=0)
    table = pd.DataFrame(
        {
            _("unit"): np.arange(1, own.shape[1] + 1),
            _("strongest token"): [labels[place] for place in strongest.tolist()],
            unit_quantity(chosen.quantity): array(own.gather(0, strongest[None])[0]),
            _("share of tokens with it on"): array((~silent).float().mean(dim=0)),
            _("ever on, on this page"): seen.on(trace.network, chosen.path).cpu().numpy(),
        }
    )
    if other is not None:
        name = _("{name}, pinned").format(name=unit_quantity(chosen.quantity))
        table.insert(3, name, array(other.gather(0, strongest[None].to(other.device))[0]))
    return table


def explain(key: str, config: TransformerConfig, units: Units) -> None:
    """units: of the layer that is looked at."""
    last = " + b_2" if config.bias and not is_gated(units) else ""
    inner = unit_formula(config, units, "gated")
    formulas = [rf"\mathrm{{FFN}}(x) = \left({inner}\right) W_2" + last]
    if units.experts:
        formulas.append(
            r"y = \sum_{e\,\in\,\text{chosen}} g_e(x)\, \mathrm{FFN}_e(x), \qquad g(x) = \text{router}(x W_g)"
        )
    mixed = _(
        " In a mixture of experts a router gives each token weights for a few of the networks, and the others do not "
        "compute for it (Shazeer et al., 2017, section 2); shared experts compute for every token (DeepSeek-AI, 2024)."
    )
    explanation(
        key,
        formulas,
        _(
            "Vaswani et al., section 3.3, equation 2; SwiGLU: Shazeer, 2020, equation 6. A unit is a column of W₁ that "
            "reads the stream and a row of W₂ that writes to it where the unit is on (Geva et al., 2021). ReLU gives "
            "exact zeros; other activations count as off below the size stated. The same weights act on each position "
            "by itself."
        )
        + (mixed if units.experts else "")
        + " "
        + _("This is the code that has just run:"),
        layer_class(units),
        positions_apart,
    )
