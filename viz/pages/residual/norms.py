"""Norms: their statistics by token, one norm's channels and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from model.analysis.norms import norm_levels, norm_table, stack_norms
from model.message import Message
from model.network.norms import Norm
from model.runtime.errors import require
from viz.figures.axis import Axis, largest, scale_of
from viz.figures.chart import Chart, Series
from viz.figures.colours import EXPECTED, FIFTH, FIRST, SECOND, THIRD
from viz.figures.compared import Compared
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _
from viz.i18n.format import significant, significant_alike
from viz.i18n.messages import in_language, joined
from viz.ui.parts import classes, explanation
from viz.ui.plots import array, block_name, caption, cell_note, compared, lacking, series_of, side_of, tokens_axis, word

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor
    from torch.nn import Module

    from model.network.config import TransformerConfig
    from model.network.transformer import Network
    from viz.state.inputs import Inputs
    from viz.state.session import Session


def norm_label(path: str) -> str:
    """A norm's short name: its layer, counted from 1, and the sublayer that it belongs to."""
    if not (parts := _parts(path)):
        return Message("embedding") if ".embedding." in path else Message("final")
    layer, block = parts
    name = block_name(int(layer), block.removesuffix("_block"))
    return Message("{name} out", name=name) if path.endswith(".output_norm") else name


def norm_place(config: TransformerConfig, path: str) -> Message:
    """Place of a norm in words."""
    if not (parts := _parts(path)):
        return Message("After the embedding") if ".embedding." in path else Message("After the last layer")
    sublayer = {
        "self_attention": Message("self-attention"),
        "cross_attention": Message("cross-attention"),
        "feed_forward": Message("feed-forward"),
    }[parts[1].removesuffix("_block")]
    after = config.norm_placement == "post" or path.endswith(".output_norm")
    layer = int(parts[0]) + 1
    if after:
        return Message("After {sublayer}, layer {layer}", sublayer=sublayer, layer=layer)
    return Message("Before {sublayer}, layer {layer}", sublayer=sublayer, layer=layer)


def norm_at(inputs: Inputs, path: str, position: int) -> Message:
    """Place of a norm, and the token that it reads."""
    token = inputs.trace.tokens_of(path)[position]
    return Message("{norm}, at {token}", norm=norm_place(inputs.config, path), token=token)


def layer_of(path: str) -> int | None:
    """The layer that a norm belongs to; None of the stack's first or last."""
    return int(parts[0]) if (parts := _parts(path)) else None


def chosen_norm(session: Session, stack: str, wish: str | None) -> tuple[list[str], int, int]:
    """The norms of a stack, which is chosen, the one wished or the first of the chosen layer, and the chosen token.

    Raises:
        MissingQuantityError: none of the model's norms was recognised.
    """
    paths = stack_norms(session.trace, stack)
    if not paths:
        require(session.trace.network, f"{stack}.layers.0.self_attention_block.norm.output")
    if wish in paths:
        return paths, paths.index(wish), chosen_token(session, stack)
    layers = [layer_of(path) for path in paths]
    last = max(layer for layer in layers if layer is not None)
    return paths, layers.index(min(session.selection.layer, last)), chosen_token(session, stack)


def quantity_name(quantity: str) -> Message:
    return {
        "mean": Message("mean μ"),
        "std": Message("deviation σ"),
        "before": Message("‖x‖ before"),
        "after": Message("‖y‖ after"),
    }[quantity]


def norm_map(inputs: Inputs, stack: str, paths: Sequence[str], quantity: str, chosen: tuple[int, int]) -> Heatmap:
    """One quantity of every norm at every token."""
    values, before = (norm_levels(get, paths, quantity) for get in (inputs.now, inputs.before))
    assert values is not None
    scale = scale_of(array(values), quantity_name(quantity), signed=quantity == "mean")
    names, (row, column) = [norm_label(path) for path in paths], chosen
    rows = Axis(Message("norm"), names, f"{stack} norm", prose=True)
    note = cell_note(norm_label(paths[row]), inputs.trace.tokens_of(stack + ".")[column], values[row, column])
    name, file = Message("Every norm, every token"), f"norms-{stack}-{quantity}"
    columns = tokens_axis(inputs, stack)
    norm, token = divmod(int(values.abs().nan_to_num(nan=-1.0).argmax()), values.shape[1])
    finding = Message(
        "Largest {quantity}: {value}, at {token} ({norm})",
        quantity=quantity_name(quantity),
        value=significant(float(values[norm, token])),
        token=word(inputs.trace.tokens_of(stack + ".")[token]),
        norm=norm_label(paths[norm]),
    )
    above = caption(inputs, name, file, note, lacking(inputs, before), about=about_norms(quantity), finding=finding)
    return Heatmap(above, compared(values, before), rows, columns, scale, chosen=row, column=column, large=True)


BINS = 48  # of a histogram
APART = 20  # times as far as the others: vectors whose histograms have axes of their own


def norm_steps(inputs: Inputs, path: str, position: int) -> list[Chart]:
    """Histograms of a token's channels before a norm, standardised, and after γ and β."""
    norm, parts = _norm(inputs.trace.module(path)), [f"{path}.input", f"{path}.output"]
    now = _vectors(norm, *(inputs.trace[part][position] for part in parts))
    pairs, other = [inputs.before(part) for part in parts], _pinned_norm(inputs, path)
    pinned: list[NDArray[np.float32]] | None = None
    if other is not None and pairs[0] is not None and pairs[1] is not None:
        pinned = _vectors(other, pairs[0][position], pairs[1][position])
    ends = [largest(np.stack(vectors)) for vectors in zip(now, *([pinned] if pinned else []), strict=True)]
    if max(ends) <= APART * min(ends):
        ends = [max(ends)] * 3
    charts = []
    for number, (name, colour, purpose) in enumerate(_steps(inputs, path, position)):
        edges = np.linspace(-ends[number], ends[number], BINS + 1)
        bars = Compared(_histogram(now[number], edges), _histogram(pinned[number], edges) if pinned else None)
        series = Series(Message("channels"), (edges[:-1] + edges[1:]) / 2, bars, colour, "bars")
        without = lacking(inputs, pairs[0], None if pairs[0] is None else pairs[0][position]) if not number else ""
        about = About(purpose, [norm_formula(inputs, path)], classes(norm), meaning=STEPS)
        note, marks = spread(now[number], norm.centred), _spread_marks(now[number], norm.centred)
        above = caption(inputs, name, f"norm-{path}-{position}-{number}", note, without, about=about)
        x = Axis(Message("value of a channel") if number == 2 else "", low=edges[0], high=edges[-1])
        place = Message("value of a channel")
        charts.append(Chart(above, [series], x, Axis(Message("channels")), tall=64, marks=marks, place=place))
    return charts


def _steps(inputs: Inputs, path: str, position: int) -> list[tuple[str, str, Message]]:
    """Names, colours and explanations of a vector before a norm, standardised, and after γ and β."""
    norm = _norm(inputs.trace.module(path))
    standardised = Message("Its channels less their mean, over their deviation: mean 0, deviation 1 at every token.")
    learned = Message("What training makes of that: each channel is stretched by its own γ, and moved by its own β.")
    if not norm.centred:
        standardised = Message("Its channels over their root mean square: one length at every token and layer.")
    if norm.bias is None:
        learned = Message("What training makes of that: each channel is stretched by its own γ.")
    unchanged = Message("The token's vector as the norm finds it: how many of its channels have which value.")
    return [
        (norm_at(inputs, path, position), SECOND, unchanged),
        (STANDARDISED[inputs.config.norm], EXPECTED, standardised),
        ("… · γ" if norm.bias is None else "… · γ + β", FIRST, learned),
    ]


STEPS = Message(
    "Read the three from top to bottom: the middle and the width of the bars are what a norm changes, their order it "
    "keeps until γ comes."
)
STANDARDISED = {
    "layer": "(x − μ) / σ",
    "textbook": "(x − μ) / (σ + ε)",
    "textbook-sample": "(x − μ) / (s + ε)",
    "rms": "x / rms",
}


def _norm(module: Module) -> Norm:
    assert isinstance(module, Norm)
    return module


def _vectors(norm: Norm, x: Tensor, y: Tensor) -> list[NDArray[np.float32]]:
    """Input of a norm at one token, the same standardised, and its output."""
    return [array(x), array(norm.standardised(x.to(norm.weight.device))), array(y)]


def _histogram(values: NDArray[np.float32], edges: NDArray[np.float64]) -> NDArray[np.float32]:
    """Count of values between neighbouring edges; NaN where one is no number."""
    if not np.isfinite(values).all():
        return np.full(len(edges) - 1, np.nan, np.float32)
    return np.histogram(values, edges)[0].astype(np.float32)


def _moments(values: NDArray[np.float32], centred: bool) -> tuple[float, float]:
    """Mean and deviation of a vector's channels, or 0 and their root mean square; 0 where only rounding is left."""
    wide = values.astype(np.float64)
    if not centred:
        return 0.0, float(np.sqrt((wide**2).mean()))
    mean, deviation = float(wide.mean()), float(wide.std())
    return mean if abs(mean) > 1e-5 * deviation else 0.0, deviation


def spread(values: NDArray[np.float32], centred: bool) -> Message:
    """Mean and deviation of a vector's channels in words; of RMSNorm, which knows neither, their root mean square."""
    mean, deviation = significant_alike(*_moments(values, centred))
    if not centred:
        return Message("rms {size}", size=deviation)
    return Message("mean {mean} · deviation {deviation}", mean=mean, deviation=deviation)


def _spread_marks(values: NDArray[np.float32], centred: bool) -> list[dict[str, Any]]:
    """Lines at the mean and one deviation around it, or at ± rms."""
    mean, deviation = _moments(values, centred)
    middle = [{"x": mean, "text": ""}] if centred else []
    return [
        {"x": mean - deviation, "text": ""},
        *middle,
        {"x": mean + deviation, "text": "μ ± σ" if centred else "± rms"},
    ]


def norm_channels(inputs: Inputs, path: str, position: int) -> Chart:
    """Input and output of one norm at one token, channel by channel."""
    trace = inputs.trace
    series: list[Series] = []
    before = None
    for name, part, colour in ((Message("input"), "input", SECOND), (Message("output"), "output", FIRST)):
        whole = inputs.before(f"{path}.{part}")
        before = None if whole is None else whole[position]
        series.append(series_of(name, compared(trace[f"{path}.{part}"][position], before), colour))
    about = About(
        Message("The chosen token, channel by channel: what goes into the chosen norm, and what comes out of it."),
        [norm_formula(inputs, path)],
        classes(trace.module(path)),
        meaning=Message("Mean and size are set anew; which channels stand out mostly stays."),
    )
    name, file = Message("Channel by channel"), f"norm-{path}-{position}"
    above = caption(inputs, name, file, "", lacking(inputs, before, before), about=about)
    return Chart(above, series, Axis(Message("channel")), Axis(Message("value")), tall=140)


def norm_weights(inputs: Inputs, path: str) -> Chart:
    """γ, and β where there is one, of the norm at `path`."""
    norm = _norm(inputs.trace.module(path))
    before = _pinned_norm(inputs, path)
    same = before if before is not None and before.weight.shape == norm.weight.shape else None
    equal = same is not None and _equal(norm.weight, same.weight) and _equal(norm.bias, same.bias)
    other = None if equal else same
    series = [series_of("γ", compared(norm.weight, other.weight if other else None), THIRD)]
    if norm.bias is not None:
        series.append(series_of("β", compared(norm.bias, other.bias if other else None), FIFTH))
    low, high = (float(each) for each in norm.weight.detach().float().aminmax())
    name = "γ" if norm.bias is None else Message("γ and β")
    without = Message("no β") if norm.bias is None else ""
    note = joined(" · ", f"γ {significant(low)} … {significant(high)}", without)
    sentence = Message("the pinned ones are the same") if equal else lacking(inputs, same)
    purpose = Message("What the norm multiplies each normalised channel by, γ, and what it adds to it, β.")
    if norm.bias is None:
        purpose = Message("What the norm multiplies each normalised channel by, γ; it adds nothing.")
    about = About(
        purpose,
        [norm_formula(inputs, path)],
        classes(norm),
        meaning=Message("A channel with a small γ is one that the next block hardly reads."),
    )
    above = caption(inputs, name, f"norm-weights-{path}", note, sentence, about=about)
    return Chart(above, series, Axis(Message("channel")), Axis(Message("value")), tall=140)


def _parts(path: str) -> tuple[str, str] | None:
    """The layer and the block of a norm inside a layer."""
    pieces = path.split(".")
    return (pieces[2], pieces[3]) if pieces[1] == "layers" else None


def _pinned_norm(inputs: Inputs, path: str) -> Norm | None:
    if inputs.comparison is None:
        return None
    norm = dict(inputs.comparison.pinned.network.named_modules()).get(path)
    return norm if isinstance(norm, Norm) else None


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    """True if two weights, or the lack of both, are the same."""
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and bool((one == other.to(one.device)).all())


def norms_table(inputs: Inputs) -> pd.DataFrame:
    """A row per norm and token, of both stacks."""
    names = {
        "name": Message("norm"),
        "position": Message("position"),
        "token": Message("token"),
        "mean": quantity_name("mean"),
        "std": quantity_name("std"),
        "input norm": quantity_name("before"),
        "output norm": quantity_name("after"),
    }
    table = norm_table(inputs.trace)
    table["position"] += 1  # as on every page; the model counts from 0
    return table.rename(columns={name: in_language(title) for name, title in names.items()})


FORMULAS = {
    "layer": r"y = \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} \odot \gamma",
    "textbook": r"y = \frac{x - \mu}{\sigma + \varepsilon} \odot \gamma",
    "textbook-sample": r"y = \frac{x - \mu}{s + \varepsilon} \odot \gamma",
    "rms": r"y = \frac{x}{\sqrt{\overline{x^2} + \varepsilon}} \odot \gamma",
}


def norm_formula(inputs: Inputs, path: str) -> str:
    """Formula of the norm at `path`."""
    shift = getattr(inputs.trace.module(path), "bias", None)
    return FORMULAS[inputs.config.norm] + ("" if shift is None else r" + \beta")


def about_norms(quantity: str) -> About:
    """Explanation of the map of all norms, for the quantity that it shows."""
    sentence, formula = {
        "mean": (
            Message("A row is a norm, a column a token: the mean of the channels that the norm reads."),
            r"\mu = \frac1d \sum_c x_c",
        ),
        "std": (
            Message("A row is a norm, a column a token: how far the channels that the norm reads lie from their mean."),
            r"\sigma = \sqrt{\textstyle\frac1d \sum_c (x_c - \mu)^2}",
        ),
        "before": (
            Message("A row is a norm, a column a token: how long the vector is that the norm reads."),
            r"\lVert x \rVert = \sqrt{\textstyle\sum_c x_c^2}",
        ),
        "after": (
            Message("A row is a norm, a column a token: how long the vector is that the norm gives."),
            r"\lVert y \rVert = \sqrt{\textstyle\sum_c y_c^2}",
        ),
    }[quantity]
    ran = {"mean": Norm.mean, "std": Norm.std}.get(quantity, norm_levels)
    return About(
        sentence,
        [formula],
        [ran],
        meaning=Message("The stream grows with the depth; the norm hides that from the block that reads it."),
    )


def explain(key: str, network: Network) -> None:
    norm = next(part for part in network.modules() if isinstance(part, Norm))
    plain = _(
        "Before its numbers are used, each token's vector is put on one scale: its mean is taken away, and it is "
        "divided by its deviation. Two learned vectors, γ and β, then stretch and move each channel."
    )
    if not norm.centred:
        plain = _(
            "Before its numbers are used, each token's vector is put on one scale: it is divided by its root mean "
            "square. A learned vector, γ, then stretches each channel."
        )
    text = _(
        "Ba et al., *Layer Normalization*, 2016, section 3; Vaswani et al., section 3.1. μ and σ are taken over "
        "the channels of one token; RMSNorm (Zhang and Sennrich, 2019, equation 4) takes no μ away and has no β. A "
        "row is a norm, a column a token; press one to see what goes in and what comes out. This is the code that has "
        "just run:"
    )
    if not norm.centred:
        text = _(
            "Zhang and Sennrich, 2019, equation 4: a shorter form of LayerNorm (Ba et al., 2016). The mean of the "
            "squares is taken over the channels of one token. A row is a norm, a column a token; press one to see what "
            "goes in and what comes out. This is the code that has just run:"
        )
    formula = FORMULAS[network.config.norm] + ("" if norm.bias is None else r" + \beta")
    explanation(key, plain, [formula], text, *classes(norm))


def chosen_token(session: Session, stack: str) -> int:
    """The chosen position, moved inside the stack's text; a click on its tokens chooses another."""
    session.selection.side = side_of(session.trace, stack)
    return min(session.selection.query, len(session.trace.tokens_of(f"{stack}.")) - 1)
