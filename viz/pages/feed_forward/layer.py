"""A feed-forward layer in numbers: histogram, dead units, what a unit reads and writes, positions apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from model.analysis.feed_forward import (
    Direction,
    IsolatedPositions,
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
from model.message import Message
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.colours import PINNED, PLAIN
from viz.figures.figure import About
from viz.i18n.catalogue import _
from viz.i18n.errors import beside_pin, unless_absent
from viz.i18n.format import in_turn, no_predictions, percent, significant
from viz.i18n.messages import joined
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
from viz.state.pin import cached_for_pin
from viz.ui.parts import explanation, frame_of
from viz.ui.plots import array, caption, lacking

if TYPE_CHECKING:
    from collections.abc import Callable

    from pandas import DataFrame
    from torch import Tensor

    from model.capture.trace import Trace
    from model.network.config import TransformerConfig, Units
    from viz.state.inputs import Inputs


def histogram(inputs: Inputs, chosen: Chosen) -> Chart:
    """Histogram of the layer's activations, counts on a log axis."""
    every, other = values_of(inputs, chosen)
    whole = array(present(every))
    own = whole[np.isfinite(whole)]
    counts, edges = np.histogram(own, bins=BINS)
    centres = (edges[:-1] + edges[1:]) / 2
    series = [Series(Message("count"), centres, counts, PLAIN, "bars")]
    if other is not None:
        known = array(other)
        before, _same = np.histogram(known[np.isfinite(known)], bins=edges)
        series.append(Series(Message("pinned"), centres, before, PINNED, dash=True))
    name = Message("Histogram: {place}", place=chosen.place)
    low, high = span(own)
    odd, note = whole.size - own.size, f"{low} … {high}"
    if odd:
        note = joined(" · ", note, Message("not a number, or infinite: {count}", count=f"{odd:,}"))
    config = inputs.config
    units = config.units_of(chosen.stack, chosen.layer)
    about = About(
        Message("How many of the layer's numbers, one for each unit at each token, are of which size."),
        [
            rf"a = {unit_formula(config, units, chosen.quantity)}",
            r"n_k = \left|\{(p, u) : e_k \le a_{p,u} < e_{k+1}\}\right|",
        ],
        [layer_class(units)],
        meaning=Message("The few that are far from 0 decide what the layer gives."),
    )
    above = caption(inputs, name, f"histogram-{chosen.name}", note, lacking(inputs, other), about=about)
    x_axis, y_axis = Axis(unit_quantity(chosen.quantity)), Axis(Message("count"), log=True, zero=False, low=0.5)
    return Chart(above, series, x_axis, y_axis, tall=190)


def direction_charts(inputs: Inputs, chosen: Chosen) -> tuple[dict[str, Chart], str]:
    """Tokens that a unit's output pushes up and down, "writes", and those that its input is like, "reads"; and a
    sentence on how, or why there are none.
    """
    model, of = inputs.model, (chosen.path, chosen.unit)
    charts: dict[str, Chart] = {}
    sentences: list[str] = []

    def draw(name: str, tokens: Callable[[], Direction], scores: Scores, side: str, *texts: str) -> None:
        direction, lacking = unless_absent(tokens)
        if direction is not None and not all(math.isfinite(value) for _token, value in direction.towards):
            direction, lacking = None, _("The weights of this unit are not finite: it reads and writes no tokens.")
        if direction is not None:
            before, lacking = pinned_direction(inputs, chosen, direction, scores, side)
            charts[name] = _direction_chart(inputs, name, direction, before, *texts)
        sentences.append(lacking)

    if not model.predicts:
        sentences.append(no_predictions())
    elif reaches_output(inputs.config, chosen.stack):
        sentences.append(_("Its output weights through the unembedding, without the final norm and the layers above."))
        texts = Message("Words that this unit pushes up or down"), Message("logit of activation 1")
        draw("writes", lambda: writes(model.network, *of, model.target_tokenizer), write_scores, "target", *texts)
    else:
        sentences.append(
            _("An encoder's units reach the output only through the decoder: they have no logits of their own.")
        )
    encoder = chosen.stack == "encoder"
    side, tokenizer = ("source", model.source_tokenizer) if encoder else ("target", model.target_tokenizer)
    texts = Message("Tokens that it looks for"), Message("cosine")
    draw("reads", lambda: reads(model.network, *of, tokenizer), read_scores, side, *texts)
    return charts, in_turn(*dict.fromkeys(sentences))


def _direction_chart(
    inputs: Inputs, does: str, tokens: Direction, before: Numbers | None, name: str, axis: str
) -> Chart:
    """does: "writes" or "reads"."""
    labels, values = zip(*tokens.towards, *reversed(tokens.away), strict=True)
    places, count = np.arange(len(labels)), len(tokens.towards)
    alt = joined(": ", name, f"{', '.join(labels[:count])} … {', '.join(reversed(labels[count:]))}")
    series = [Series(axis, places, np.array(values, np.float32), PLAIN, "bars")]
    if before is not None:
        series.append(Series(Message("{name}, pinned", name=axis), places, before, PINNED, "dots"))
        numbers = ", ".join(significant(float(value)) for value in before)
        alt = joined(". ", alt, joined(": ", Message("pinned"), numbers))
    above = caption(inputs, name, f"unit-{does}", alt=alt, about=about_direction(does))
    return Chart(above, series, Axis("", labels, "vocabulary"), Axis(axis), tall=80, place=Message("token"))


def about_direction(does: str) -> About:
    """Explanation of the tokens that a unit writes, or reads."""
    if does == "writes":
        sentence = Message(
            "The tokens whose logits this unit raises most where it is on, and those that it lowers most."
        )
        return About(
            sentence,
            [r"W_U\, w_{2,u}"],
            [write_scores],
            meaning=Message("So one reads from its weights what the unit says."),
        )
    sentence = Message("The tokens whose embeddings point most along what this unit reads, and those most against it.")
    meaning = Message(
        "Embeddings and weights are taken as they are: the gain γ of the norm in front of the unit is left out."
    )
    formula = r"\cos(E_t, w_{1,u}) = \frac{E_t \cdot w_{1,u}}{\lVert E_t \rVert\, \lVert w_{1,u} \rVert}"
    return About(sentence, [formula], [read_scores], meaning)


def layer_sentence(inputs: Inputs, chosen: Chosen, seen: Seen) -> str:
    """Share of zeros and dead units, of this text and of all texts seen in this session."""
    if not chosen.quantity:
        return Message("{place}: what it computes is of a form that is not known here.", place=chosen.place)
    silent, network = present_off(inputs, chosen), inputs.trace.network
    if not goes_through(inputs, chosen).any():
        return Message("{place}: no token of this text goes through it.", place=chosen.place)
    odd = int((~present(_activations(inputs, chosen)).isfinite()).any(dim=0).sum())
    if odd or not len(silent):
        return Message(
            "{place}: of {units} units **{odd}** are not a number, or infinite, at a token of this text.",
            place=chosen.place,
            units=silent.shape[1],
            odd=odd if len(silent) else silent.shape[1],
        )
    numbers: dict[str, Any] = {
        "place": chosen.place,
        "name": off_name(chosen.activation),
        "share": percent(float(silent.float().mean())),
        "tokens": len(silent),
        "dead": int(silent.all(dim=0).sum()),
        "units": silent.shape[1],
        "positions": seen.positions(network, chosen.path),
        "never": int((~seen.on(network, chosen.path)).sum()),
    }
    if chosen.expert and chosen.expert != SHARED:
        sentence = Message(
            "{place}: {name} **{share}** · off at every token that goes through it ({tokens}): **{dead}** of {units} "
            "units · never on at its {positions} positions seen on this page so far: **{never}**",
            **numbers,
        )
    else:
        sentence = Message(
            "{place}: {name} **{share}** · off at every token of this text ({tokens}): **{dead}** of {units} units "
            "· never on at the {positions} positions seen on this page so far: **{never}**",
            **numbers,
        )
    return joined(" · ", sentence, pinned_share(inputs, chosen))


def _activations(inputs: Inputs, chosen: Chosen) -> Tensor:
    """(position, unit): what the output weights multiply, NaN at tokens that do not go through this expert."""
    return inputs.now(f"{chosen.path}.{quantities(inputs.trace.network, chosen.path)[0]}").float()


def present_off(inputs: Inputs, chosen: Chosen) -> Tensor:
    """(some position, unit): whether a unit is off, at the tokens that go through this network."""
    return off(present(_activations(inputs, chosen)), threshold(chosen.activation))


def apart_table(inputs: Inputs, chosen: Chosen) -> tuple[DataFrame, str]:
    """Numbers that show the network treating each position by itself, beside self-attention, which does not; and a
    sentence where the pinned one's numbers cannot stand beside.
    """
    rows, name = _apart_rows(_apart(inputs.trace, chosen)), Message("largest difference")
    table: dict[str, Any] = {Message("compared"): list(rows), name: list(rows.values())}
    pin = inputs.pin
    if pin is None:
        return frame_of(table), ""
    if sentence := pinned_layer(pin, chosen):
        return frame_of(table), sentence
    known, sentence = beside_pin(
        lambda: cached_for_pin(pin, "apart", (chosen.path,), lambda: _apart(pin.trace, chosen))
    )
    if known is not None:
        before = _apart_rows(known)
        table[Message("{name}, pinned", name=name)] = [before.get(row) for row in rows]
    return frame_of(table), sentence


def _apart(trace: Trace, chosen: Chosen) -> IsolatedPositions:
    order = list(reversed(range(len(trace.tokens_of(chosen.name)))))
    return positions_apart(trace, chosen.path, order)


def _apart_rows(isolated: IsolatedPositions) -> dict[str, float]:
    rows = {
        Message("feed-forward: positions reversed, outputs reversed"): isolated.permuted,
        Message("feed-forward: each position alone, all together"): isolated.alone,
        Message("self-attention: each position alone, all together"): isolated.attention_alone,
        Message("this computation, what was recorded"): isolated.recorded,
    }
    return {name: value for name, value in rows.items() if value is not None}


def unit_table(inputs: Inputs, chosen: Chosen, seen: Seen) -> DataFrame:
    """A row per unit of the layer, or of the expert."""
    trace = inputs.trace
    own, other = values_of(inputs, chosen)
    labels = trace.tokens_of(chosen.name)
    silent = present_off(inputs, chosen)
    strongest = own.abs().nan_to_num(nan=-1.0).argmax(dim=0)
    name = unit_quantity(chosen.quantity)
    table: dict[str, Any] = {
        Message("unit"): np.arange(1, own.shape[1] + 1),
        Message("strongest token"): [labels[place] for place in strongest.tolist()],
        name: array(own.gather(0, strongest[None])[0]),
    }
    if other is not None:
        table[Message("{name}, pinned", name=name)] = array(other.gather(0, strongest[None].to(other.device))[0])
    table[Message("share of tokens with it on")] = array((~silent).float().mean(dim=0))
    table[Message("ever on, on this page")] = seen.on(trace.network, chosen.path).cpu().numpy()
    return frame_of(table)


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
        _(
            "Attention moves information between tokens; the feed-forward network then works on each token alone. "
            "Each of its units looks for a pattern in the token's vector, and, where it finds it, adds a vector of "
            "its own."
        ),
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
