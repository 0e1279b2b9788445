"""Norms: their statistics by token, one norm's channels and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from model.analysis.norms import norm_levels, norm_table, stack_norms
from model.network.norms import Norm
from model.runtime.errors import require
from viz.components.view import Answer
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.render.view import FigureView, view
from viz.ui.parts import classes, explanation
from viz.ui.plots import (
    FIRST,
    SECOND,
    THIRD,
    array,
    beside,
    block_label,
    cell_note,
    chosen_token,
    heading,
    levels,
    missing,
    now,
    pinned,
    token_axis,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from model.network.transformer import Network
    from viz.state.session import Session


def norm_label(path: str) -> str:
    """A norm's short name: its layer, counted from 1, and the sublayer that it belongs to."""
    if not (parts := _parts(path)):
        return _("embedding") if ".embedding." in path else _("final")
    layer, block = parts
    name = block_label(int(layer), block.removesuffix("_block"))
    return _("{name} out").format(name=name) if path.endswith(".output_norm") else name


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


def quantity_name(quantity: str) -> str:
    return {
        "mean": _("mean μ"),
        "std": _("deviation σ"),
        "before": _("‖x‖ before"),
        "after": _("‖y‖ after"),
    }[quantity]


def norm_map(
    session: Session,
    stack: str,
    paths: Sequence[str],
    quantity: str,
    chosen: tuple[int, int],
    key: str,
    on_cell: Answer,
) -> FigureView:
    """One quantity of every norm at every token; a click chooses both."""
    trace = session.trace
    values = norm_levels(now(session), paths, quantity)
    assert values is not None
    other = norm_levels(pinned(session), paths, quantity)
    shown, scale = levels(values, other, session, quantity_name(quantity), signed=quantity == "mean")
    rows, (row, column) = Axis(_("norm"), [norm_label(path) for path in paths], f"{stack} norm"), chosen
    note = cell_note(norm_label(paths[row]), trace.tokens_of(stack + ".")[column], values[row, column])
    name, lacking, about = _("Every norm, every token"), missing(session, other), about_norms(quantity)
    above = heading(trace, name, f"norms-{stack}-{quantity}", note, lacking, about=about)
    return view(
        key, Heatmap(above, shown, rows, token_axis(trace, stack), scale, chosen=row, column=column), cell=on_cell
    )


def norm_channels(session: Session, path: str, position: int, key: str) -> FigureView:
    """What one norm gets and gives at one token, channel by channel."""
    trace = session.trace
    series: list[Series] = []
    other = None
    for name, part, colour in ((_("input"), "input", SECOND), (_("output"), "output", FIRST)):
        whole = pinned(session)(f"{path}.{part}")
        other = None if whole is None else whole[position]
        own = array(trace[f"{path}.{part}"][position])
        series += beside(name, own, None if other is None else array(other), colour)
    x = trace[f"{path}.input"][position].float()
    name = _("{norm} at {token}").format(norm=norm_label(path), token=trace.tokens_of(path)[position])
    note = f"μ {significant(float(Norm.mean(x)))}  σ {significant(float(Norm.std(x)))}"
    lacking = missing(session, other, other)
    about = About(
        _("The chosen token, channel by channel: what goes into the chosen norm, and what comes out of it."),
        [norm_formula(session, path)],
        classes(trace.module(path)),
    )
    above = heading(trace, name, f"norm-{path}-{position}", note, lacking, about=about)
    return view(key, Chart(above, series, Axis(_("channel")), Axis(_("value")), tall=180))


def norm_weights(session: Session, path: str, key: str) -> FigureView:
    """γ, and β where there is one, of the norm at `path`."""
    trace = session.trace
    norm = trace.module(path)
    assert isinstance(norm, Norm)
    before = _pinned_norm(session, path)
    same = before if before is not None and before.weight.shape == norm.weight.shape else None
    equal = same is not None and _equal(norm.weight, same.weight) and _equal(norm.bias, same.bias)
    shown = None if equal else same
    series = beside("γ", array(norm.weight), array(shown.weight) if shown else None, THIRD)
    if norm.bias is not None:
        other = shown.bias if shown else None
        series += beside("β", array(norm.bias), None if other is None else array(other), "#2a9d8f")
    low, high = (float(each) for each in norm.weight.detach().float().aminmax())
    name = "γ" if norm.bias is None else _("γ and β")
    note = f"γ {significant(low)} … {significant(high)}" + (f" · {_('no β')}" if norm.bias is None else "")
    sentence = _("the pinned ones are the same") if equal else missing(session, same)
    said = _("What the norm multiplies each normalised channel by, γ, and what it adds to it, β.")
    if norm.bias is None:
        said = _("What the norm multiplies each normalised channel by, γ; it adds nothing.")
    about = About(said, [norm_formula(session, path)], classes(norm))
    above = heading(trace, name, f"norm-weights-{path}", note, sentence, about=about)
    return view(key, Chart(above, series, Axis(_("channel")), Axis(_("value")), tall=120))


def _parts(path: str) -> tuple[str, str] | None:
    """The layer and the block of a norm inside a layer."""
    pieces = path.split(".")
    return (pieces[2], pieces[3]) if pieces[1] == "layers" else None


def _pinned_norm(session: Session, path: str) -> Norm | None:
    if session.pin is None:
        return None
    found = dict(session.pin.trace.network.named_modules()).get(path)
    return found if isinstance(found, Norm) else None


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two weights, or the lack of both, are the same."""
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and bool((one == other.to(one.device)).all())


def norms_table(session: Session) -> pd.DataFrame:
    """A row per norm and token, of both stacks."""
    return norm_table(session.trace).rename(
        columns={
            "name": _("norm"),
            "position": _("position"),
            "token": _("token"),
            "mean": quantity_name("mean"),
            "std": quantity_name("std"),
            "input norm": quantity_name("before"),
            "output norm": quantity_name("after"),
        }
    )


FORMULAS = {
    "layer": r"y = \frac{x - \mu}{\sqrt{\sigma^2 + \varepsilon}} \odot \gamma",
    "textbook": r"y = \frac{x - \mu}{\sigma + \varepsilon} \odot \gamma",
    "textbook-sample": r"y = \frac{x - \mu}{s + \varepsilon} \odot \gamma",
    "rms": r"y = \frac{x}{\sqrt{\overline{x^2} + \varepsilon}} \odot \gamma",
}


def norm_formula(session: Session, path: str) -> str:
    """What the norm at `path` computes."""
    shift = getattr(session.trace.module(path), "bias", None)
    return FORMULAS[session.model.config.norm] + ("" if shift is None else r" + \beta")


def about_norms(quantity: str) -> About:
    """Of the map of all norms, for the quantity that it shows."""
    sentence, formula = {
        "mean": (
            _("A row is a norm, a column a token: the mean of the channels that the norm reads."),
            r"\mu = \frac1d \sum_c x_c",
        ),
        "std": (
            _("A row is a norm, a column a token: how far the channels that the norm reads lie from their mean."),
            r"\sigma = \sqrt{\textstyle\frac1d \sum_c (x_c - \mu)^2}",
        ),
        "before": (
            _("A row is a norm, a column a token: how long the vector is that the norm reads."),
            r"\lVert x \rVert = \sqrt{\textstyle\sum_c x_c^2}",
        ),
        "after": (
            _("A row is a norm, a column a token: how long the vector is that the norm gives."),
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
