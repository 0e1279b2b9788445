"""A feed-forward layer in numbers: histogram, dead units, what a unit reads and writes, positions apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from model.analysis.feed_forward import (
    Direction,
    Seen,
    off,
    path_of,
    positions_apart,
    quantities,
    reaches_output,
    reads,
    threshold,
    writes,
)
from model.errors import AbsentError
from model.layers import FeedForward, GatedFeedForward
from viz.absent import absent_words
from viz.components.views import Mount, Series, chart
from viz.i18n import _
from viz.packing.names import unit_quantity
from viz.packing.plots import FIRST, SECOND, array, header, missing
from viz.packing.units import BINS, Chosen, off_name, values_of
from viz.parts import explanation
from viz.words import no_predictions, significant

if TYPE_CHECKING:
    from model.config import TransformerConfig
    from viz.workbench import Workbench


def histogram(bench: Workbench, chosen: Chosen, key: str) -> Mount:
    """How many activations of the layer have which size, counts on a log axis."""
    trace = bench.trace
    assert trace is not None
    own, other = values_of(bench, chosen)
    counts, edges = np.histogram(array(own), bins=BINS)
    centres = (edges[:-1] + edges[1:]) / 2
    series = [Series(_("count"), centres, counts, SECOND, "bars")]
    if other is not None:
        known = array(other)
        before, _same = np.histogram(known[~np.isnan(known)], bins=edges)
        series.append(Series(_("pinned"), centres, before, FIRST, dash=True))
    name = _("Histogram of layer {layer}").format(layer=chosen.layer + 1)
    note = f"{significant(float(own.min()))} … {significant(float(own.max()))}"
    alt = _("{name}: {count} numbers from {note}.").format(name=name, count=own.numel(), note=note)
    more = {
        "x": {"title": unit_quantity(chosen.quantity)},
        "y": {"title": _("count"), "log": True, "zero": False, "low": 0.5},
        "note": note,
        "tall": 190,
        "sentence": missing(bench, other),
    }
    csv = (_("series"), unit_quantity(chosen.quantity), _("count"))
    return chart(series, header(trace, name, alt, f"histogram-{chosen.name}", csv, more), key)


def direction_charts(
    bench: Workbench, config: TransformerConfig, chosen: Chosen, keys: tuple[str, str]
) -> tuple[list[Mount], str]:
    """Tokens that a unit's output pushes up and down, and those that its input is like; and a sentence on how."""
    assert bench.trace is not None
    assert bench.lens is not None
    model, stack = bench.lens.model, chosen.stack
    source = stack == "encoder"
    tokenizer = bench.lens.source_tokenizer if source else bench.lens.target_tokenizer
    mounts = []
    if not bench.lens.predicts:
        sentence = no_predictions()
    elif reaches_output(config, stack):
        sentence = _("Its output weights through the unembedding, without the final norm and the layers above.")
        try:
            written = writes(model, stack, chosen.layer, chosen.unit, bench.lens.target_tokenizer)
            title, axis = _("It writes: logits"), _("logit of activation 1")
            mounts.append(_direction(bench, title, axis, written, FIRST, "writes", keys[0]))
        except AbsentError as absent:
            sentence = absent_words(absent)
    else:
        sentence = _("An encoder's units reach the output only through the decoder: they have no logits of their own.")
    try:
        read = reads(model, stack, chosen.layer, chosen.unit, tokenizer)
    except AbsentError as absent:
        return mounts, f"{sentence} {absent_words(absent)}"
    mounts.append(_direction(bench, _("It reads: embeddings"), _("cosine"), read, SECOND, "reads", keys[1]))
    return mounts, sentence


def _direction(bench: Workbench, name: str, axis: str, found: Direction, colour: str, file: str, key: str) -> Mount:
    assert bench.trace is not None
    tokens = [*found.towards, *reversed(found.away)]
    labels, values = [label for label, _value in tokens], np.array([value for _label, value in tokens], np.float32)
    alt = f"{name}: {', '.join(label for label, _value in found.towards)} … {', '.join(t for t, _v in found.away)}"
    series = [Series(axis, np.arange(len(labels)), values, colour, "bars")]
    more = {"x": {"title": "", "labels": labels, "side": "vocabulary"}, "y": {"title": axis}, "tall": 80}
    return chart(series, header(bench.trace, name, alt, f"unit-{file}", (_("series"), _("token"), axis), more), key)


def layer_sentence(bench: Workbench, config: TransformerConfig, chosen: Chosen, seen: Seen) -> str:
    """Share of zeros and dead units, of this text and of all texts seen in this session."""
    trace = bench.trace
    assert trace is not None
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
        positions=seen.positions(trace.model, path),
        never=int((~seen.on(trace.model, path)).sum()),
    )


def apart_table(bench: Workbench, chosen: Chosen) -> pd.DataFrame:
    """That the network treats each position by itself, in numbers; self-attention beside it does not."""
    trace = bench.trace
    assert trace is not None
    order = list(reversed(range(len(trace.tokens_of(chosen.name)))))
    found = positions_apart(trace, chosen.stack, chosen.layer, order)
    attended = found.attention_alone is not None
    rows = [
        (_("feed-forward: positions reversed, outputs reversed"), found.permuted),
        (_("feed-forward: each position alone, all together"), found.alone),
        *([(_("self-attention: each position alone, all together"), found.attention_alone)] if attended else []),
        (_("this computation, what was recorded"), found.recorded),
    ]
    return pd.DataFrame(rows, columns=[_("compared"), _("largest difference")])


def unit_table(bench: Workbench, config: TransformerConfig, chosen: Chosen, seen: Seen) -> pd.DataFrame:
    """A row per unit of the layer."""
    trace = bench.trace
    assert trace is not None
    own, _other = values_of(bench, chosen)
    labels = trace.tokens_of(chosen.name)
    path = path_of(chosen.stack, chosen.layer)
    silent = off(trace[f"{path}.{quantities(config)[0]}"].float(), threshold(config))
    strongest = own.abs().argmax(dim=0)
    return pd.DataFrame(
        {
            _("unit"): np.arange(own.shape[1]),
            _("strongest token"): [labels[place] for place in strongest.tolist()],
            unit_quantity(chosen.quantity): array(own.gather(0, strongest[None])[0]),
            _("share of tokens with it on"): array((~silent).float().mean(dim=0)),
            _("ever on, on this page"): seen.on(trace.model, path).cpu().numpy(),
        }
    )


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
