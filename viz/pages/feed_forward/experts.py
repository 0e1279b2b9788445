"""A mixture of experts as pictures: which token goes where, how loaded each expert is, here and over a file."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import streamlit as st
import torch

from model.analysis.experts import Loads, load, loads_of, mixed_layers
from model.analysis.feed_forward import path_of
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _
from viz.i18n.format import literal
from viz.pages.feed_forward.units import Chosen, expert_name
from viz.render.view import FigureView, view
from viz.state import permissions
from viz.state.permissions import Permission
from viz.ui import fields
from viz.ui.background import Filling, bar, follow
from viz.ui.plots import FIRST, PINNED, SECOND, array, heading, levels, missing, now, pinned, token_axis

if TYPE_CHECKING:
    from model.analysis.residual import Get
    from model.inference.text_model import TextModel
    from viz.components.view import Answer, View
    from viz.state.session import Session

ROUTED = ("gates", "router")  # what is shown of the router: the weights, or what they are made of
NAMED = 3  # of them in a note
LOAD = r"\frac1n \sum_p \mathbb{1}[g_e(x_p) \ne 0]"


def routed_name(quantity: str) -> str:
    """What the router gives."""
    return {"gates": _("weight of the expert"), "router": _("logit of the router")}[quantity]


def has_router(session: Session, chosen: Chosen) -> bool:
    """Whether the router's logits are known beside its weights."""
    return f"{chosen.mixture}.router" in session.trace


def router_map(session: Session, chosen: Chosen, quantity: str, key: str, on_cell: Answer) -> FigureView:
    """What the router gives each token for each expert, hatched where the token does not go; a click chooses both."""
    name = f"{chosen.mixture}.{quantity}"
    values, other = session.trace[name].float(), pinned(session)(name)
    taken = session.trace[f"{chosen.mixture}.gates"] != 0
    if quantity == "gates":
        values = values.masked_fill(~taken, torch.nan)
    shown, scale = levels(values, other, session, routed_name(quantity), signed=quantity == "router")
    count = values.shape[-1]
    columns = Axis(_("expert"), [str(number + 1) for number in range(count)], "experts")
    title = _("Layer {layer}: the router, {chosen} of {count} experts for each token").format(
        layer=chosen.layer + 1, chosen=int(taken.sum(dim=-1).max()), count=count
    )
    expert = int(chosen.expert) if chosen.expert.isdecimal() else -1
    note = _most_loaded(load(session.trace[f"{chosen.mixture}.gates"]))
    sentence, formula = {
        "gates": (
            _("The weight that the router gives each expert, a column, for each token, a row; hatched: not chosen."),
            r"g(x) = \text{router}(x W_g)",
        ),
        "router": (
            _("The logit of each expert, a column, for each token, a row: the router chooses by them."),
            "x W_g",
        ),
    }[quantity]
    about = About(sentence, [formula], [type(session.trace.module(chosen.mixture))])
    above = heading(session.trace, title, f"router-{name}", note, missing(session, other), about=about)
    rows = token_axis(session.trace, chosen.stack)
    visible = array(taken.float()) > 0 if quantity == "gates" else None
    return view(
        key,
        Heatmap(
            above,
            np.nan_to_num(shown) if quantity == "gates" and not scale.difference else shown,
            rows,
            columns,
            scale,
            visible=visible,
            words={"masked": _("not chosen")},
            chosen=chosen.token,
            column=expert,
        ),
        cell=on_cell,
    )


def _most_loaded(shares: torch.Tensor) -> str:
    order = shares.argsort(descending=True, stable=True)[:NAMED].tolist()
    told = ", ".join(f"{number + 1}: {float(shares[number]):.0%}" for number in order)
    return _("most loaded: {experts}").format(experts=told)


def load_map(session: Session, chosen: Chosen, key: str, on_cell: Answer) -> FigureView:
    """The share of this text's tokens that go through each expert of each layer; a click chooses both."""
    values, other = (_loads(session, get, chosen.stack) for get in (now(session), pinned(session)))
    assert values is not None
    shown, scale = levels(values, other, session, _("share of tokens"), high=1.0)
    rows = Axis(_("layer"), [str(row + 1) for row in range(len(values))], "layers")
    columns = Axis(_("expert"), [str(number + 1) for number in range(values.shape[-1])], "experts")
    dense = len(values) > len(mixed_layers(session.trace, chosen.stack))
    sentence = _("hatched: one network for all tokens, no experts") if dense else ""
    above = heading(
        session.trace,
        _("Load of every expert over this text"),
        f"experts-load-{chosen.stack}",
        sentence=missing(session, other) or sentence,
        about=About(
            _("A row is a layer, a column an expert: the share of this text's tokens that go through it."),
            [LOAD],
            [load],
        ),
    )
    column = int(chosen.expert) if chosen.expert.isdecimal() else -1
    words, drawn = {"masked": _("no such expert in this layer")}, ~np.isnan(array(values))
    return view(
        key,
        Heatmap(above, shown, rows, columns, scale, visible=drawn, words=words, chosen=chosen.layer, column=column),
        cell=on_cell,
    )


def _loads(session: Session, get: Get, stack: str) -> torch.Tensor | None:
    """(layer, expert): the load, NaN where a layer has no such expert; None where nothing is to be had."""
    found: dict[int, torch.Tensor] = {}
    for layer in mixed_layers(session.trace, stack):
        gates = get(f"{path_of(stack, layer)}.gates")
        if gates is None:
            return None
        found[layer] = load(gates[~gates.isnan().any(dim=-1)]).cpu()
    most = max(len(shares) for shares in found.values())
    table = torch.full((session.model.config.depth(stack), most), torch.nan)
    for layer, shares in found.items():
        table[layer, : len(shares)] = shares
    return table


def load_chart(session: Session, chosen: Chosen, key: str, on_place: Answer) -> FigureView:
    """How many of this text's tokens go through each expert of the layer, beside the file's, where one was read."""
    gates = session.trace[f"{chosen.mixture}.gates"]
    shares, places = array(load(gates)), np.arange(gates.shape[-1])
    series = [Series(_("this text"), places, shares, SECOND, "bars")]
    other = pinned(session)(f"{chosen.mixture}.gates")
    if other is not None:
        before = load(other[~other.isnan().any(dim=-1)])
        series.append(Series(_("pinned"), places, array(before), PINNED, "dots"))
    over = file_loads(session)
    if over is not None and chosen.mixture in over.tokens:
        series.append(Series(_("the file"), places, array(over.share(chosen.mixture)), FIRST, "dots"))
    labels = [str(number + 1) for number in range(len(places))]
    even = int((gates != 0).sum()) / gates.numel()
    title = _("Layer {layer}: load of each expert").format(layer=chosen.layer + 1)
    note = _("even: {share:.0%}").format(share=even)
    about = About(_("The share of the tokens that go through each expert of this layer."), [LOAD], [load])
    above = heading(session.trace, title, f"experts-{chosen.mixture}", note, about=about)
    framed = int(chosen.expert) if chosen.expert.isdecimal() else -1
    x_axis, y_axis = Axis(_("expert"), labels, "experts"), Axis(_("share of tokens"), zero=True)
    return view(key, Chart(above, series, x_axis, y_axis, chosen=framed, tall=150), place=on_place)


def load_table(session: Session, chosen: Chosen) -> pd.DataFrame:
    """A row for each expert of the layer."""
    gates = session.trace[f"{chosen.mixture}.gates"].float()
    table = pd.DataFrame(
        {
            _("expert"): [expert_name(str(number)) for number in range(gates.shape[-1])],
            _("tokens"): array((gates != 0).sum(dim=0)).astype(int),
            _("share of tokens"): array(load(gates)),
            _("mean weight over all tokens"): array(gates.mean(dim=0)),
        }
    )
    over = file_loads(session)
    if over is not None and chosen.mixture in over.tokens:
        table[_("share of the file's tokens")] = array(over.share(chosen.mixture))
    return table


# Over a file: its lines are read in a thread of its own, some at a time.

LINES, AT_ONCE = 2000, 8  # of a file at most, and of one job
LIMIT = 10  # MB


class Part(StrEnum):
    """Keys of this section, and what is kept under them in the session's memory."""

    FILE = "experts_file"
    KEPT = "experts_over_file"
    BAR = "experts_bar"


class FileLoads(Filling):
    """Loads over the lines of a file."""

    patience = 30.0  # the page that asked for them may be closed

    def __init__(self, model: TextModel, name: str, lines: list[str], left: int) -> None:
        """left: lines that are not read."""
        self.model, self.name, self.count, self.left = model, name, len(lines), left
        parts = [lines[first : first + AT_ONCE] for first in range(0, len(lines), AT_ONCE)]
        super().__init__(
            [(str(number), len(part), partial(loads_of, model, part)) for number, part in enumerate(parts)]
        )

    @property
    def loads(self) -> Loads:
        """Of the lines that are read so far."""
        together = Loads()
        for part in list(self.found.values()):
            together.add(part)
        return together

    @property
    def whole(self) -> bool:
        """Whether all lines were read."""
        return self.finished and not self.stopped and not self.failed

    @property
    def progress(self) -> dict[str, Any] | None:
        told = super().progress
        if told is not None:
            told["text"] = _("read {done} of {all} lines").format(done=f"{self._done:,}", all=f"{self.count:,}")
        return told


def file_loads(session: Session) -> Loads | None:
    """Loads over a file, for the model that is shown; None until all of it is read."""
    filling: FileLoads | None = session.memory.get(Part.KEPT)
    if filling is None or filling.model.network is not session.trace.network:
        return None
    return filling.loads if filling.whole else None


def _forget(session: Session) -> None:
    """Nothing of a former file is shown any more."""
    filling: FileLoads | None = session.memory.pop(Part.KEPT, None)
    if filling is not None:
        filling.stop()


def over_file(session: Session, model: TextModel) -> None:
    """A file to be read, and how far it is."""
    if told := permissions.refused(Permission.UPLOADS):
        st.caption(told)
        return
    st.caption(
        _(
            "The load over a file: text in UTF-8, a line each; for a model with two stacks a line may be a source, a "
            "tab and a target. At most {lines} lines are read."
        ).format(lines=f"{LINES:,}")
    )
    fields.in_words()
    given = st.file_uploader(
        _("A text file"), ["txt", "tsv", "csv"], key=Part.FILE, max_upload_size=LIMIT, label_visibility="collapsed"
    )
    filling: FileLoads | None = session.memory.get(Part.KEPT)
    if given is None:
        _forget(session)
        return
    if filling is None or filling.model is not model or filling.name != given.file_id:
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
        filling = FileLoads(model, given.file_id, lines[:LINES], max(0, len(lines) - LINES))
        session.memory[Part.KEPT] = filling

    def view() -> View | None:
        return bar(Part.BAR, filling)

    follow([filling], view)
    if not filling.whole:
        return
    said = _("{name}: {count} lines, {positions} positions in a layer").format(
        name=literal(given.name),
        count=f"{filling.count:,}",
        positions=f"{max(filling.loads.positions.values(), default=0):,}",
    )
    if cut := filling.loads.cut:
        length = f"{model.config.max_length:,}"
        said += " · " + _("{count} of them cut at {length} tokens").format(count=f"{cut:,}", length=length)
    if filling.left:
        said += " · " + _("{count} more lines were not read").format(count=f"{filling.left:,}")
    st.caption(said)
