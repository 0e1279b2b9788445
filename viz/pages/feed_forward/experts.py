"""A mixture of experts as pictures: which token goes where, how loaded each expert is, here and over a file."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import streamlit as st
import torch

from model.analysis.experts import Loads, load, loads_of, mixed_layers
from model.analysis.feed_forward import path_of
from model.message import Message
from viz.figures.axis import Axis, scale_of
from viz.figures.chart import Chart, Series
from viz.figures.colours import FIRST, PINNED, PLAIN
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _, ngettext
from viz.i18n.format import literal, percent
from viz.i18n.messages import joined, labelled
from viz.jobs import TableJob, TableTask
from viz.pages.feed_forward.units import Chosen, expert_name
from viz.state import permissions
from viz.state.permissions import Permission
from viz.ui.file_field import FileField
from viz.ui.job_view import follow, job_bar
from viz.ui.parts import frame_of
from viz.ui.plots import array, caption, compared, lacking, tokens_axis

if TYPE_CHECKING:
    from pandas import DataFrame

    from model.analysis.residual import Get
    from model.inference.text_model import TextModel
    from viz.components.view import View
    from viz.state.inputs import Inputs
    from viz.state.session import Session

ROUTED = ("gates", "router")  # quantities of the router: the weights, or its logits
NAMED = 3  # of them in a note
LOAD = r"\frac1n \sum_p \mathbb{1}[g_e(x_p) \ne 0]"


def routed_name(quantity: str) -> str:
    """Name of the router's output."""
    return {"gates": Message("weight of the expert"), "router": Message("logit of the router")}[quantity]


def has_router(inputs: Inputs, chosen: Chosen) -> bool:
    """True if the router's logits are known beside its weights."""
    return f"{chosen.mixture}.router" in inputs.trace


def router_map(inputs: Inputs, chosen: Chosen, quantity: str) -> Heatmap:
    """The router's output for each token and expert, hatched where the token does not go."""
    name = f"{chosen.mixture}.{quantity}"
    values, other = inputs.now(name).float(), inputs.before(name)
    gates = inputs.now(f"{chosen.mixture}.gates")
    taken, count = gates != 0, values.shape[-1]
    if quantity == "gates" and other is not None:
        other = other.masked_fill(~taken.to(other.device), torch.nan)
    scale = scale_of(array(values), routed_name(quantity), signed=quantity == "router")
    columns = Axis(Message("expert"), [str(number + 1) for number in range(count)], "experts")
    title = Message(
        "Layer {layer}: the router, {chosen} of {count} experts for each token",
        layer=chosen.layer + 1,
        chosen=int(taken.sum(dim=-1).max()),
        count=count,
    )
    expert = int(chosen.expert) if chosen.expert.isdecimal() else -1
    note = _most_loaded(load(gates))
    sentence, formula = {
        "gates": (
            Message(
                "The weight that the router gives each expert, a column, for each token, a row; hatched: not chosen."
            ),
            r"g(x) = \text{router}(x W_g)",
        ),
        "router": (
            Message("The logit of each expert, a column, for each token, a row: the router chooses by them."),
            "x W_g",
        ),
    }[quantity]
    about = About(
        sentence,
        [formula],
        [type(inputs.trace.module(chosen.mixture))],
        meaning=Message("A token is computed by the few that it chooses; the others cost nothing."),
    )
    above = caption(inputs, title, f"router-{name}", note, lacking(inputs, other), about=about)
    return Heatmap(
        *(above, compared(values, other), tokens_axis(inputs, chosen.stack), columns, scale),
        visible=taken.cpu().numpy() if quantity == "gates" else None,
        words={"masked": Message("not chosen")},
        chosen=chosen.token,
        column=expert,
        large=True,
    )


def _most_loaded(shares: torch.Tensor) -> str:
    order = shares.argsort(descending=True, stable=True)[:NAMED].tolist()
    experts = joined(", ", *(labelled(str(number + 1), percent(float(shares[number]), 0)) for number in order))
    return Message("most loaded: {experts}", experts=experts)


def load_map(inputs: Inputs, chosen: Chosen) -> Heatmap:
    """The share of this text's tokens that go through each expert of each layer."""
    values, other = (_loads(inputs, get, chosen.stack) for get in (inputs.now, inputs.before))
    assert values is not None
    scale = scale_of(array(values), Message("share of tokens"), high=1.0)
    rows = Axis(Message("layer"), [str(row + 1) for row in range(len(values))], "layers")
    columns = Axis(Message("expert"), [str(number + 1) for number in range(values.shape[-1])], "experts")
    dense = len(values) > len(mixed_layers(inputs.trace, chosen.stack))
    sentence = Message("hatched: one network for all tokens, no experts") if dense else ""
    above = caption(
        inputs,
        Message("Load of every expert over this text"),
        f"experts-load-{chosen.stack}",
        sentence=lacking(inputs, other) or sentence,
        about=About(
            Message("A row is a layer, a column an expert: the share of this text's tokens that go through it."),
            [LOAD],
            [load],
            meaning=Message("In an even row all experts have work; one strong cell means that most of them are idle."),
        ),
    )
    column = int(chosen.expert) if chosen.expert.isdecimal() else -1
    return Heatmap(
        *(above, compared(values, other), rows, columns, scale),
        visible=~np.isnan(array(values)),
        words={"masked": Message("no such expert in this layer")},
        chosen=chosen.layer,
        column=column,
    )


def _loads(inputs: Inputs, get: Get, stack: str) -> torch.Tensor | None:
    """(layer, expert): the load, NaN where a layer has no such expert; None where nothing is to be had."""
    by_layer: dict[int, torch.Tensor] = {}
    for layer in mixed_layers(inputs.trace, stack):
        gates = get(f"{path_of(stack, layer)}.gates")
        if gates is None:
            return None
        by_layer[layer] = load(gates[~gates.isnan().any(dim=-1)]).cpu()
    most = max(len(shares) for shares in by_layer.values())
    table = torch.full((inputs.config.depth(stack), most), torch.nan)
    for layer, shares in by_layer.items():
        table[layer, : len(shares)] = shares
    return table


def load_chart(inputs: Inputs, chosen: Chosen, over: Loads | None = None) -> Chart:
    """Number of this text's tokens that go through each expert of the layer. over: loads over a file."""
    gates = inputs.now(f"{chosen.mixture}.gates")
    shares, places = array(load(gates)), np.arange(gates.shape[-1])
    series = [Series(Message("this text"), places, shares, PLAIN, "bars")]
    other = inputs.before(f"{chosen.mixture}.gates")
    if other is not None:
        before = load(other[~other.isnan().any(dim=-1)])
        series.append(Series(Message("pinned"), places, array(before), PINNED, "dots"))
    if over is not None and chosen.mixture in over.tokens:
        series.append(Series(Message("the file"), places, array(over.share(chosen.mixture)), FIRST, "dots"))
    labels = [str(number + 1) for number in range(len(places))]
    even = int((gates != 0).sum()) / gates.numel()
    title = Message("Layer {layer}: load of each expert", layer=chosen.layer + 1)
    note = Message("even: {share}", share=percent(even, 0))
    about = About(
        Message("The share of the tokens that go through each expert of this layer."),
        [LOAD],
        [load],
        meaning=Message("One near 0 was hardly needed for this text, one far above the even share carries most of it."),
    )
    above = caption(inputs, title, f"experts-{chosen.mixture}", note, about=about)
    framed = int(chosen.expert) if chosen.expert.isdecimal() else -1
    x_axis, y_axis = Axis(Message("expert"), labels, "experts"), Axis(Message("share of tokens"), zero=True)
    return Chart(above, series, x_axis, y_axis, chosen=framed, tall=150)


def load_table(inputs: Inputs, chosen: Chosen, over: Loads | None = None) -> DataFrame:
    """A row for each expert of the layer. over: as of `load_chart`."""
    gates = inputs.now(f"{chosen.mixture}.gates").float()
    table: dict[str, Any] = {
        Message("expert"): [expert_name(str(number)) for number in range(gates.shape[-1])],
        Message("tokens"): array((gates != 0).sum(dim=0)).astype(int),
        Message("share of tokens"): array(load(gates)),
        Message("mean weight over all tokens"): array(gates.mean(dim=0)),
    }
    if over is not None and chosen.mixture in over.tokens:
        table[Message("share of the file's tokens")] = array(over.share(chosen.mixture))
    return frame_of(table)


# Over a file: its lines are read in a thread of its own, some at a time.

LINES, AT_ONCE = 2000, 8  # of a file at most, and of one task


class Part(StrEnum):
    """Keys of this section, and what is kept under them in the session's memory."""

    KEPT = "experts_over_file"
    BAR = "experts_bar"


class FileLoads(TableJob):
    """Loads over the lines of a file."""

    patience = 30.0  # the page that asked for them may be closed

    def __init__(self, model: TextModel, name: str, lines: list[str], left: int) -> None:
        """left: lines that are not read."""
        self.model, self.name, self.count, self.left = model, name, len(lines), left
        parts = [lines[first : first + AT_ONCE] for first in range(0, len(lines), AT_ONCE)]
        super().__init__(
            [TableTask(str(number), len(part), partial(loads_of, model, part)) for number, part in enumerate(parts)]
        )

    @property
    def loads(self) -> Loads:
        """Loads of the lines that are read so far."""
        together = Loads()
        for part in list(self.values.values()):
            together.add(part)
        return together

    @property
    def sentence(self) -> Message:
        return Message(
            "read {done:,} of {count:,} line",
            plural="read {done:,} of {count:,} lines",
            done=self.done,
            count=self.count,
        )


def file_loads(session: Session) -> Loads | None:
    """Loads over a file, for the model that is shown; None until all of it is read."""
    job: FileLoads | None = session.memory.get(Part.KEPT)
    if job is None or job.model.network is not session.trace.network:
        return None
    return job.loads if job.complete else None


def _forget(session: Session) -> None:
    """Forget the loads of a former file."""
    job: FileLoads | None = session.memory.pop(Part.KEPT, None)
    if job is not None:
        job.cancel()


def over_file(session: Session, model: TextModel) -> None:
    """A file to be read, and how far it is."""
    if refusal := permissions.refused(Permission.UPLOADS):
        st.caption(refusal)
        return
    st.caption(
        _(
            "The load over a file: text in UTF-8, a line each; for a model with two stacks a line may be a source, a "
            "tab and a target. At most {lines} lines are read."
        ).format(lines=f"{LINES:,}")
    )
    given = FileField(key="experts", labels={"file": _("A text file")}).draw("file", st.container())
    job: FileLoads | None = session.memory.get(Part.KEPT)
    if given is None:
        _forget(session)
        return
    if job is None or job.model is not model or job.name != given.file_id:
        _forget(session)
        try:
            text = given.getvalue().decode("utf-8-sig")
        except UnicodeDecodeError:
            st.error(_("This file is not UTF-8: save it as UTF-8, and choose it again."))
            return
        lines = [line for line in text.splitlines() if line.strip()]
        if not lines:
            st.error(_("This file has no text in it: choose another one."))
            return
        job = FileLoads(model, given.file_id, lines[:LINES], max(0, len(lines) - LINES))
        session.memory[Part.KEPT] = job

    def view() -> View | None:
        return job_bar(Part.BAR, job)

    follow([job], view)
    if not job.complete:
        return
    sentence = ngettext(
        "{name}: {count} line, {positions} positions in a layer",
        "{name}: {count} lines, {positions} positions in a layer",
        job.count,
    ).format(
        name=literal(given.name),
        count=f"{job.count:,}",
        positions=f"{max(job.loads.positions.values(), default=0):,}",
    )
    if cut := job.loads.cut:
        length = f"{model.config.max_length:,}"
        sentence += " · " + _("{count} of them cut at {length} tokens").format(count=f"{cut:,}", length=length)
    if job.left:
        sentence += " · " + ngettext(
            "{count} more line was not read", "{count} more lines were not read", job.left
        ).format(count=f"{job.left:,}")
    st.caption(sentence)
