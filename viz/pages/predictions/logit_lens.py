"""The logit lens: what the model would predict if it ended after each layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pandas import DataFrame
from torch import Tensor

from model.analysis.logit_lens import LayerReading, last_stack, read_layers, stream_names
from model.message import Message
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Chart, Series
from viz.figures.colours import EXPECTED, FIRST, OUTPUT, PINNED, PLAIN, SECOND
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _
from viz.i18n.format import percent
from viz.i18n.messages import joined
from viz.pages.predictions.text import about_layers, about_lens
from viz.ui.parts import frame_of
from viz.ui.plots import array, caption, word
from viz.ui.prediction import Subject, difference_scale, visible

SHADES = ("top", "final", "entropy")


@dataclass(frozen=True)
class Readings:
    """The lens on this trace and, at the same tokens, on the pinned one. wanted[0]: the model's final choice at each
    position; wanted[1]: the actual token, or the final choice where it is unknown.
    """

    own: LayerReading
    pinned: LayerReading | None
    wanted: Tensor


def read(subject: Subject) -> Readings:
    trace = subject.trace
    final = subject.logits.argmax(dim=-1)
    wanted = torch.stack([final, torch.where(subject.actual >= 0, subject.actual, final)])
    names = stream_names(trace)
    own = read_layers(trace.network, [trace[name] for name in names], wanted)
    pinned = None
    comparison = subject.comparison
    if comparison is not None and subject.pinned is not None:
        streams = [comparison.counterpart(name) for name in names]
        if stream_names(comparison.pinned) == names and all(each is not None for each in streams):
            known = [each for each in streams if each is not None]
            pinned = read_layers(comparison.pinned.network, known, wanted.to(known[0].device))
    return Readings(own, pinned, wanted)


def layer_names(count: int) -> list[str]:
    return [Message("embedding"), *(Message("layer {number}", number=number) for number in range(1, count))]


def shade_name(shade: str) -> str:
    return {
        "top": Message("probability of its top token"),
        "final": Message("probability of the final token"),
        "entropy": Message("entropy (nats)"),
    }[shade]


def shades(reading: LayerReading, shade: str) -> NDArray[np.float32]:
    """(position, layer) values of the heatmap."""
    values = {"top": reading.top_probability, "final": reading.probability[0], "entropy": reading.entropy}[shade]
    return array(values.T)


def lens_map(subject: Subject, readings: Readings, shade: str) -> Heatmap:
    """Position × layer: each layer's top token, shaded by its probability, by the final token's, or by the entropy."""
    values, title = shades(readings.own, shade), shade_name(shade)
    scale = Scale(
        0,
        1.0 if shade != "entropy" else max(float(values.max()), 1e-9),
        title,
        colour=OUTPUT if shade != "entropy" else PLAIN,
    )
    if subject.differing and readings.pinned is not None:
        values = values - shades(readings.pinned, shade)
        scale = difference_scale(values, joined(" ", "Δ", title))
    layers = values.shape[1]
    final = readings.own.top[-1].tolist()
    texts = [
        ("✓ " if token == final[position] and layer < layers - 1 else "") + visible(subject.label(token))
        if token >= 0
        else Message("not a number")
        for position, row in enumerate(readings.own.top.T.tolist())
        for layer, token in enumerate(row)
    ]
    sentence = Message("✓ is the final token already")
    about = about_lens(subject.model, shade)
    compared = subject.differing and readings.pinned is not None
    finding = first_difference(subject, readings) if compared else decided(subject, readings.own)
    name, note = Message("Logit lens"), settled(readings.own)
    above = caption(subject.inputs, name, "logit-lens", note, sentence, about=about, finding=finding)
    rows, columns = subject.axis(Message("position")), layer_axis(layers)
    chosen, title = subject.chosen, Message("token")
    return Heatmap(above, values, rows, columns, scale, chosen=chosen, texts=texts, texts_title=title, large=True)


def decided(subject: Subject, reading: LayerReading) -> str:
    """The layer from which on the final token of the chosen position stays the first choice; "" where it has none."""
    tops = reading.top[:, subject.chosen].tolist()
    if tops[-1] < 0:
        return ""
    layer = next(layer for layer in range(len(tops)) if all(top == tops[-1] for top in tops[layer:]))
    token = word(visible(subject.label(tops[-1])))
    if layer == len(tops) - 1:
        return Message("Only the last layer decides on {token}", token=token)
    if layer == 0:
        return Message("{token} is the first choice from the embedding on", token=token)
    return Message("{token} is the first choice from layer {layer} on", token=token, layer=layer)


def first_difference(subject: Subject, readings: Readings) -> str:
    """The first layer after which the chosen position's first choice is not the pinned one; "" where it has none."""
    assert readings.pinned is not None
    own, pinned = (reading.top[:, subject.chosen].tolist() for reading in (readings.own, readings.pinned))
    if own[-1] < 0:
        return ""
    for layer, (token, before) in enumerate(zip(own, pinned, strict=True)):
        if token != before:
            if before < 0:
                return Message("The pinned text has no such token")
            now, then = (word(visible(subject.label(each))) for each in (token, before))
            if layer == 0:
                return Message("The embedding differs already: {now}, pinned {before}", now=now, before=then)
            return Message(
                "Layer {layer} is the first that differs: {now}, pinned {before}", layer=layer, now=now, before=then
            )
    return Message("The first choice is the pinned one after every layer")


def layer_axis(layers: int) -> Axis:
    return Axis(Message("after layer"), layer_names(layers), "model", prose=True)


def settled(reading: LayerReading) -> str:
    """Share of positions that have their final token one layer before the end; "" where none has a final token."""
    before, final = reading.top[-2:]
    there = final >= 0
    if not bool(there.any()):
        return ""
    share = float((before == final)[there].float().mean())
    return Message("final token one layer before the end: {share}", share=percent(share, 0))


def explained(subject: Subject) -> str:
    """Operations that are applied to each layer in this model."""
    config = subject.model.config
    stack = _("decoder") if last_stack(subject.trace.network) == "decoder" else _("encoder")
    output = _("the projection")
    if config.output_head == "transform":
        output = _("the head's transform (linear, activation, norm) and the projection")
    if not config.ends_in_norm:
        return _(
            "Post-norm: each layer of the {stack} already ends in its own norm, so what is applied to it is {output}."
        ).format(stack=stack, output=output)
    if config.norm == "none":
        return _("This model has no norms: what is applied to the {stack} is {output}.").format(
            stack=stack, output=output
        )
    return _("The {stack}'s final norm, then {output}, applied to the residual stream after each layer.").format(
        stack=stack, output=output
    )


def probability_chart(subject: Subject, readings: Readings) -> Chart:
    """Probability of the final and of the actual token by layer at the chosen position."""
    series = _followed(subject, readings, lambda reading: reading.probability)
    y = Axis(Message("probability"), low=0.0, high=1.0)
    return _by_layer(subject, series, y, Message("Probability by layer"), "probability-by-layer")


def rank_chart(subject: Subject, readings: Readings) -> Chart:
    """Their ranks by layer, on a logarithmic axis."""
    series = _followed(subject, readings, lambda reading: reading.rank)
    y = Axis(Message("rank"), log=True, low=1.0, high=float(subject.logits.shape[-1]))
    return _by_layer(subject, series, y, Message("Rank by layer"), "rank-by-layer")


def entropy_chart(subject: Subject, readings: Readings) -> Chart:
    """Entropy by layer: of the chosen position, and the mean over all."""
    at = subject.chosen
    own = readings.own.entropy
    xs = np.arange(len(own), dtype=np.float32)
    series = [
        Series(subject.question(at), xs, array(own[:, at]), FIRST),
        Series(Message("mean over positions"), xs, array(own.mean(dim=1)), EXPECTED),
    ]
    if readings.pinned is not None and subject.pinned_at(at) is not None:
        series.append(Series(Message("pinned"), xs, array(readings.pinned.entropy[:, at]), PINNED, dash=True))
    y = Axis(Message("entropy (nats)"), low=0.0)
    return _by_layer(subject, series, y, Message("Entropy by layer"), "entropy-by-layer")


def _followed(subject: Subject, readings: Readings, part: Callable[[LayerReading], Tensor]) -> list[Series]:
    """A quantity of the tokens followed at the chosen position, by layer; -1 stands for no reading."""
    at = subject.chosen
    tokens = readings.wanted[:, at].tolist()
    xs = np.arange(readings.own.top.shape[0], dtype=np.float32)
    series = []
    for index, (token, colour) in enumerate(zip(dict.fromkeys(tokens), (OUTPUT, FIRST), strict=False)):
        name = visible(subject.label(token))
        series.append(Series(name, xs, known(part(readings.own)[index, :, at]), colour))
        if readings.pinned is not None and subject.pinned_at(at) is not None:
            values = known(part(readings.pinned)[index, :, at])
            name = Message("{token} (pinned)", token=name)
            series.append(Series(name, xs, values, PINNED if not index else SECOND, dash=True))
    return series


def known(values: Tensor) -> NDArray[np.float32]:
    """Values by layer, NaN where there is no reading."""
    return array(values.float().masked_fill(values < 0, torch.nan))


def _by_layer(subject: Subject, series: list[Series], y: Axis, name: str, file: str) -> Chart:
    about = about_layers(subject.model, file.removesuffix("-by-layer"))
    above = caption(subject.inputs, name, file, sentence=subject.question(subject.chosen), about=about)
    return Chart(above, series, layer_axis(len(series[0].xs)), y, tall=120)


def table(subject: Subject, readings: Readings) -> DataFrame:
    """A row per position and layer."""
    own = readings.own
    layers, positions = own.top.shape
    columns: dict[str, Any] = {
        Message("position"): np.repeat(np.arange(1, positions + 1), layers),
        Message("layer"): layer_names(layers) * positions,
        Message("token"): [subject.label(token) if token >= 0 else "" for token in own.top.T.flatten().tolist()],
        Message("probability"): own.top_probability.T.flatten().tolist(),
        Message("rank of the final token"): [rank if rank > 0 else None for rank in own.rank[0].T.flatten().tolist()],
        Message("probability of the final token"): own.probability[0].T.flatten().tolist(),
        Message("entropy (nats)"): own.entropy.T.flatten().tolist(),
    }
    return frame_of(columns)
