"""A feed-forward layer in numbers: histogram, dead units, what a unit reads and writes, positions apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from model.analysis.feed_forward import (
    Apart,
    Direction,
    Seen,
    off,
    path_of,
    positions_apart,
    quantities,
    reaches_output,
    read_scores,
    reads,
    threshold,
    write_scores,
    writes,
)
from model.network.layers import FeedForward, GatedFeedForward
from model.runtime.errors import MissingQuantityError
from viz.components.old_plots import chart
from viz.components.plots import Mount, Series
from viz.i18n.catalogue import _
from viz.i18n.errors import absent_words, beside_pin
from viz.i18n.format import no_predictions, significant
from viz.pages.feed_forward.text import unit_quantity
from viz.pages.feed_forward.units import (
    BINS,
    Chosen,
    Numbers,
    off_name,
    pinned_direction,
    pinned_layer,
    pinned_share,
    values_of,
)
from viz.state.pin import cached_for_pin
from viz.ui.parts import explanation
from viz.ui.plots import FIRST, PINNED, SECOND, array, header, missing

if TYPE_CHECKING:
    from model.capture.trace import Trace
    from model.network.config import TransformerConfig
    from viz.state.session import Session


def histogram(session: Session, chosen: Chosen, key: str) -> Mount:
    """How many activations of the layer have which size, counts on a log axis."""
    trace = session.trace
    own, other = values_of(session, chosen)
    counts, edges = np.histogram(array(own), bins=BINS)
    centres = (edges[:-1] + edges[1:]) / 2
    series = [Series(_("count"), centres, counts, SECOND, "bars")]
    if other is not None:
        known = array(other)
        before, _same = np.histogram(known[~np.isnan(known)], bins=edges)
        series.append(Series(_("pinned"), centres, before, PINNED, dash=True))
    name = _("Histogram of layer {layer}").format(layer=chosen.layer + 1)
    note = f"{significant(float(own.min()))} … {significant(float(own.max()))}"
    alt = _("{name}: {count} numbers from {note}.").format(name=name, count=own.numel(), note=note)
    more = {
        "x": {"title": unit_quantity(chosen.quantity)},
        "y": {"title": _("count"), "log": True, "zero": False, "low": 0.5},
        "note": note,
        "tall": 190,
        "sentence": missing(session, other),
    }
    csv = (_("series"), unit_quantity(chosen.quantity), _("count"))
    return chart(series, header(trace, name, alt, f"histogram-{chosen.name}", csv, more), key)


def direction_charts(
    session: Session, config: TransformerConfig, chosen: Chosen, keys: tuple[str, str]
) -> tuple[list[Mount], str]:
    """Tokens that a unit's output pushes up and down, and those that its input is like; and a sentence on how."""
    network, stack = session.model.network, chosen.stack
    side = "source" if stack == "encoder" else "target"
    tokenizer = session.model.source_tokenizer if side == "source" else session.model.target_tokenizer
    mounts, said = [], []
    if not session.model.predicts:
        said.append(no_predictions())
    elif reaches_output(config, stack):
        said.append(_("Its output weights through the unembedding, without the final norm and the layers above."))
        try:
            written = writes(network, stack, chosen.layer, chosen.unit, session.model.target_tokenizer)
            title, axis = _("It writes: logits"), _("logit of activation 1")
            before, lacking = pinned_direction(session, chosen, written, write_scores, "target")
            mounts.append(_direction(session, title, axis, written, before, FIRST, "writes", keys[0]))
            said.append(lacking)
        except MissingQuantityError as absent:
            said.append(absent_words(absent))
    else:
        said.append(
            _("An encoder's units reach the output only through the decoder: they have no logits of their own.")
        )
    try:
        read = reads(network, stack, chosen.layer, chosen.unit, tokenizer)
        before, lacking = pinned_direction(session, chosen, read, read_scores, side)
        mounts.append(
            _direction(session, _("It reads: embeddings"), _("cosine"), read, before, SECOND, "reads", keys[1])
        )
        said.append(lacking)
    except MissingQuantityError as absent:
        said.append(absent_words(absent))
    return mounts, " ".join(dict.fromkeys(filter(None, said)))


def _direction(
    session: Session, name: str, axis: str, found: Direction, before: Numbers | None, colour: str, file: str, key: str
) -> Mount:
    tokens = [*found.towards, *reversed(found.away)]
    labels, values = [label for label, _value in tokens], np.array([value for _label, value in tokens], np.float32)
    alt = f"{name}: {', '.join(label for label, _value in found.towards)} … {', '.join(t for t, _v in found.away)}"
    series = [Series(axis, np.arange(len(labels)), values, colour, "bars")]
    if before is not None:
        series.append(Series(_("{name}, pinned").format(name=axis), np.arange(len(labels)), before, PINNED, "dots"))
        alt += f". {_('pinned')}: {', '.join(significant(float(value)) for value in before)}"
    more = {"x": {"title": "", "labels": labels, "side": "vocabulary"}, "y": {"title": axis}, "tall": 80}
    return chart(series, header(session.trace, name, alt, f"unit-{file}", (_("series"), _("token"), axis), more), key)


def layer_sentence(session: Session, config: TransformerConfig, chosen: Chosen, seen: Seen) -> str:
    """Share of zeros and dead units, of this text and of all texts seen in this session."""
    trace = session.trace
    path = path_of(chosen.stack, chosen.layer)
    silent = off(trace[f"{path}.{quantities(config)[0]}"].float(), threshold(config))
    return _(
        "Layer {layer}: {name} **{share:.1%}** · off at all {tokens} tokens of this text: **{dead}** of {units} units "
        "· over the {positions} positions seen on this page: **{never}** were never on"
    ).format(
        layer=chosen.layer + 1,
        name=off_name(config),
        share=float(silent.float().mean()),
        tokens=len(silent),
        dead=int(silent.all(dim=0).sum()),
        units=silent.shape[1],
        positions=seen.positions(trace.network, path),
        never=int((~seen.on(trace.network, path)).sum()),
    ) + pinned_share(session, config, chosen)


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
            lambda: cached_for_pin(pin, "apart", (chosen.stack, chosen.layer), lambda: _apart(pin.trace, chosen))
        )
        if known is not None:
            before = _apart_rows(known)
            table[_("{name}, pinned").format(name=_("largest difference"))] = [before.get(name) for name in rows]
    return table, lacking


def _apart(trace: Trace, chosen: Chosen) -> Apart:
    order = list(reversed(range(len(trace.tokens_of(chosen.name)))))
    return positions_apart(trace, chosen.stack, chosen.layer, order)


def _apart_rows(found: Apart) -> dict[str, float]:
    rows = {
        _("feed-forward: positions reversed, outputs reversed"): found.permuted,
        _("feed-forward: each position alone, all together"): found.alone,
        _("self-attention: each position alone, all together"): found.attention_alone,
        _("this computation, what was recorded"): found.recorded,
    }
    return {name: value for name, value in rows.items() if value is not None}


def unit_table(session: Session, config: TransformerConfig, chosen: Chosen, seen: Seen) -> pd.DataFrame:
    """A row per unit of the layer."""
    trace = session.trace
    own, other = values_of(session, chosen)
    labels = trace.tokens_of(chosen.name)
    path = path_of(chosen.stack, chosen.layer)
    silent = off(trace[f"{path}.{quantities(config)[0]}"].float(), threshold(config))
    strongest = own.abs().argmax(dim=0)
    table = pd.DataFrame(
        {
            _("unit"): np.arange(own.shape[1]),
            _("strongest token"): [labels[place] for place in strongest.tolist()],
            unit_quantity(chosen.quantity): array(own.gather(0, strongest[None])[0]),
            _("share of tokens with it on"): array((~silent).float().mean(dim=0)),
            _("ever on, on this page"): seen.on(trace.network, path).cpu().numpy(),
        }
    )
    if other is not None:
        name = _("{name}, pinned").format(name=unit_quantity(chosen.quantity))
        table.insert(3, name, array(other.gather(0, strongest[None].to(other.device))[0]))
    return table


FUNCTIONS = {
    "relu": r"\mathrm{ReLU}",
    "gelu": r"\mathrm{GELU}",
    "silu": r"\mathrm{SiLU}",
    "swiglu": r"\mathrm{Swish}",
    "geglu": r"\mathrm{GELU}",
}


def explain(key: str, config: TransformerConfig) -> None:
    function = FUNCTIONS.get(config.activation.partition("-")[0], "a")
    first, last = (" + b_1", " + b_2") if config.bias else ("", "")
    inner = rf"{function}(xW) \otimes xV" if config.gated else rf"{function}(xW_1{first})"
    explanation(
        key,
        [rf"\mathrm{{FFN}}(x) = \left({inner}\right) W_2" + ("" if config.gated else last)],
        _(
            "Vaswani et al., section 3.3, equation 2; SwiGLU: Shazeer, 2020, equation 6. A unit is a column of W₁ that "
            "reads the stream and a row of W₂ that writes to it where the unit is on (Geva et al., 2021). ReLU gives "
            "exact zeros; other activations count as off below the size stated. The same weights act on each position "
            "by itself. This is the code that has just run:"
        ),
        GatedFeedForward if config.gated else FeedForward,
        positions_apart,
    )
