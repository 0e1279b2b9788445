"""Norms: their statistics by token, one norm's channels and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from model.analysis.norms import norm_levels, norm_table, stack_norms
from model.message import Message
from model.network.norms import Norm
from model.runtime.errors import require
from viz.figures.axis import Axis, scale_of
from viz.figures.chart import Chart, Series
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.i18n.messages import in_language, joined
from viz.ui.parts import classes, explanation
from viz.ui.plots import (
    FIRST,
    SECOND,
    THIRD,
    array,
    block_name,
    caption,
    cell_note,
    compared,
    lacking,
    series_of,
    side_of,
    tokens_axis,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

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
    rows, (row, column) = Axis(Message("norm"), [norm_label(path) for path in paths], f"{stack} norm"), chosen
    note = cell_note(norm_label(paths[row]), inputs.trace.tokens_of(stack + ".")[column], values[row, column])
    name, file = Message("Every norm, every token"), f"norms-{stack}-{quantity}"
    above = caption(inputs, name, file, note, lacking(inputs, before), about=about_norms(quantity))
    columns = tokens_axis(inputs, stack)
    return Heatmap(above, compared(values, before), rows, columns, scale, chosen=row, column=column)


def norm_channels(inputs: Inputs, path: str, position: int) -> Chart:
    """Input and output of one norm at one token, channel by channel."""
    trace = inputs.trace
    series: list[Series] = []
    before = None
    for name, part, colour in ((Message("input"), "input", SECOND), (Message("output"), "output", FIRST)):
        whole = inputs.before(f"{path}.{part}")
        before = None if whole is None else whole[position]
        series.append(series_of(name, compared(trace[f"{path}.{part}"][position], before), colour))
    x = trace[f"{path}.input"][position].float()
    name = Message("{norm} at {token}", norm=norm_label(path), token=trace.tokens_of(path)[position])
    note = f"μ {significant(float(Norm.mean(x)))}  σ {significant(float(Norm.std(x)))}"
    about = About(
        Message("The chosen token, channel by channel: what goes into the chosen norm, and what comes out of it."),
        [norm_formula(inputs, path)],
        classes(trace.module(path)),
    )
    above = caption(inputs, name, f"norm-{path}-{position}", note, lacking(inputs, before, before), about=about)
    return Chart(above, series, Axis(Message("channel")), Axis(Message("value")), tall=180)


def norm_weights(inputs: Inputs, path: str) -> Chart:
    """γ, and β where there is one, of the norm at `path`."""
    norm = inputs.trace.module(path)
    assert isinstance(norm, Norm)
    before = _pinned_norm(inputs, path)
    same = before if before is not None and before.weight.shape == norm.weight.shape else None
    equal = same is not None and _equal(norm.weight, same.weight) and _equal(norm.bias, same.bias)
    other = None if equal else same
    series = [series_of("γ", compared(norm.weight, other.weight if other else None), THIRD)]
    if norm.bias is not None:
        series.append(series_of("β", compared(norm.bias, other.bias if other else None), "#2a9d8f"))
    low, high = (float(each) for each in norm.weight.detach().float().aminmax())
    name = "γ" if norm.bias is None else Message("γ and β")
    without = Message("no β") if norm.bias is None else ""
    note = joined(" · ", f"γ {significant(low)} … {significant(high)}", without)
    sentence = Message("the pinned ones are the same") if equal else lacking(inputs, same)
    purpose = Message("What the norm multiplies each normalised channel by, γ, and what it adds to it, β.")
    if norm.bias is None:
        purpose = Message("What the norm multiplies each normalised channel by, γ; it adds nothing.")
    about = About(purpose, [norm_formula(inputs, path)], classes(norm))
    above = caption(inputs, name, f"norm-weights-{path}", note, sentence, about=about)
    return Chart(above, series, Axis(Message("channel")), Axis(Message("value")), tall=120)


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
    return About(sentence, [formula], [ran])


def explain(key: str, network: Network) -> None:
    norm = next(part for part in network.modules() if isinstance(part, Norm))
    explanation(
        key,
        [FORMULAS[network.config.norm] + ("" if norm.bias is None else r" + \beta")],
        _(
            "Ba et al., *Layer Normalization*, 2016, section 3; Vaswani et al., section 3.1. μ and σ are taken over "
            "the channels of one token; RMSNorm (Zhang and Sennrich, 2019, equation 4) takes no μ away and has no β. A "
            "row is a norm, a column a token; a click shows what goes in and what comes out. This is the code that has "
            "just run:"
        ),
        *classes(norm),
    )


def chosen_token(session: Session, stack: str) -> int:
    """The chosen position, moved inside the stack's text; a click on its tokens chooses another."""
    session.selection.side = side_of(session.trace, stack)
    return min(session.selection.query, len(session.trace.tokens_of(f"{stack}.")) - 1)
