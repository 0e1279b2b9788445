"""Embeddings as the stack gets them: a heatmap, and how long they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st
from torch import Tensor

from model.analysis.embeddings import in_groups
from model.capture.trace import Trace
from model.inference.model import Inspectable
from model.network.layers import TokenEmbedding
from model.text.tokenizer import Tokens
from viz.components.plots import Mount, Series, chart, heatmap
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.state.positions import position_name
from viz.state.workbench import Workbench, workbench
from viz.ui.parts import plot_words, stamp
from viz.ui.plots import PINNED, missing

WIDE = 256  # channels that a heatmap shows one by one
COLOURS = {"plain": "#5b7083", "times": "#0072b2", "over": "#8a6fb0", "positions": "#d55e00", "sum": "#009e73"}
TABLE, NORMS = "embedding", "norms"


def stack_of(lens: Inspectable, side: str) -> str:
    """The stack that reads a side's tokens."""
    return "encoder" if lens.config.n_encoder_layers and side == "source" else "decoder"


@dataclass(frozen=True)
class Chosen:
    """What the controls say, and what it is said of."""

    lens: Inspectable
    trace: Trace
    side: str
    quantity: str
    binned: bool
    neighbours: bool

    @property
    def stack(self) -> str:
        return stack_of(self.lens, self.side)

    @property
    def name(self) -> str:
        return f"{self.stack}.embedding.{self.quantity}"

    @property
    def labels(self) -> list[str]:
        return self.trace.source_tokens if self.side == "source" else self.trace.target_tokens

    @property
    def matrix(self) -> Tensor:
        """The embedding of the vocabulary."""
        return self.lens.model.get_parameter(f"{self.stack}.embedding.tokens.weight").detach()

    @property
    def factor(self) -> float:
        embedding = self.lens.model.get_submodule(f"{self.stack}.embedding.tokens")
        return embedding.factor if isinstance(embedding, TokenEmbedding) else 1.0


def pack_table(bench: Workbench, chosen: Chosen, given: Tokens, query: int) -> Mount:
    """Tokens by channels, or their difference from the pinned ones."""
    comparison = bench.comparison if bench.differing else None
    difference = comparison.difference(chosen.name) if comparison else None
    values = (chosen.trace[chosen.name] if difference is None else difference).float()
    shown, size, note = channels(values, chosen.binned)
    if comparison is not None and difference is None:
        note = _("The pinned trace has no such quantity to compare with.")
    elif size > 1:
        note = _("means of {size} channels").format(size=size)
    finite = shown[~shown.isnan()]
    top = float(finite.abs().max()) if len(finite) and bool(finite.any()) else 1.0
    if difference is not None and len(finite) and not bool(finite.any()):
        note = _("nothing differs from the pin")
    array = shown.cpu().numpy()
    name = quantity_name(chosen.quantity)
    sentence = _("{tokens} tokens × {channels} channels, with their ids")
    summary = _("{name}: {tokens} tokens, {channels} channels, values from {low} to {high}.")
    low, high = (significant(float(x)) for x in ((finite.min(), finite.max()) if len(finite) else (0.0, 0.0)))
    counts = {"tokens": len(given), "channels": values.shape[1]}
    title = _("difference") if difference is not None else _("value")
    header = {
        "rows": {"title": _("token"), "labels": ids_and_labels(given), "side": chosen.side},
        "columns": {"title": _("channel"), "labels": [str(size * at) for at in range(array.shape[1])], "side": ""},
        "scale": {"low": -top, "high": top, "title": title, "difference": difference is not None},
        "chosen": query,
        "name": name,
        "sentence": sentence.format(**counts),
        "note": note,
        "alt": summary.format(name=name, low=low, high=high, **counts),
        "file": f"embedding-{chosen.side}-{chosen.quantity}",
        "stamp": stamp(chosen.trace),
        "words": plot_words(_("token"), _("channel"), title, _("masked")),
    }
    return heatmap(array, np.ones(array.shape, np.bool_), header, TABLE, on_row)


def channels(values: Tensor, binned: bool) -> tuple[Tensor, int, str]:
    """Channels as wide as a heatmap is, how many are one column, and what is said where some are left out."""
    if binned:
        return *in_groups(values, WIDE), ""
    note = _("channels 0 to {last} of {all}").format(last=WIDE - 1, all=values.shape[1])
    return values[:, :WIDE], 1, note


def lengths(chosen: Chosen, given: Tokens) -> dict[str, Tensor]:
    """Norms of what is added up, the token's embedding with and without its factor (claims 11 and 12)."""
    plain = chosen.matrix[given.ids].float().norm(dim=-1)
    root = chosen.lens.config.d_model**0.5
    embedding = f"{chosen.stack}.embedding"
    tokens, positions = (chosen.trace[f"{embedding}.{part}"].float() for part in ("tokens", "positions"))
    found = {"plain": plain, "times": plain * root, "over": plain / root}
    if bool(positions.any()):
        found |= {"positions": positions.norm(dim=-1), "sum": (tokens + positions).norm(dim=-1)}
    return found


def pack_norms(bench: Workbench, chosen: Chosen, given: Tokens, query: int) -> Mount:
    found, scaled = lengths(chosen, given), chosen.factor != 1
    used = {"times" if scaled else "plain", "positions", "sum"}
    places = np.arange(len(given))
    series = [
        Series(norm_name(name), places, norms.cpu().numpy(), COLOURS[name], dash=name not in used)
        for name, norms in found.items()
    ]
    before = pinned_norms(bench, chosen)
    if before is not None:
        series.append(Series(f"{norm_name('sum')} · {_('pinned')}", places, before, PINNED, dash=True))
    means = {name: float(norms.mean()) for name, norms in found.items()}
    if "positions" in found:
        share = means["times" if scaled else "plain"] / means["positions"]
        without = means["plain"] / means["positions"]
        sentence = _("Tokens are {share} times as long as positions.")
        if scaled:
            sentence = _("Tokens are {share} times as long as positions; without the factor {without} times.")
        note = sentence.format(share=significant(share), without=significant(without))
    else:
        note = _("This model adds no positions to its embeddings ({position}).").format(
            position=position_name(chosen.lens.config.position)
        )
    note = f"{note} {missing(bench, before)}".strip()
    alt = "; ".join(f"{norm_name(name)}: {significant(mean)}" for name, mean in means.items())
    header = {
        "x": {"title": _("token"), "labels": given.labels, "side": chosen.side},
        "y": {"title": _("vector norm"), "log": True},
        "chosen": query,
        "tall": 170,
        "name": _("Vector norms"),
        "sentence": note,
        "alt": f"{note} {alt}",
        "file": f"norms-{chosen.side}",
        "stamp": stamp(chosen.trace),
        "words": plot_words(_("quantity"), _("token"), _("vector norm")),
    }
    return chart(series, header, NORMS, on_norm)


def pinned_norms(bench: Workbench, chosen: Chosen) -> np.ndarray | None:
    """How long what entered the stack was in the pinned trace, at this trace's tokens."""
    other = bench.comparison.counterpart(f"{chosen.stack}.embedding.output") if bench.comparison else None
    return None if other is None else _norms(other)


def _norms(x: Tensor) -> np.ndarray:
    return np.asarray(x.float().norm(dim=-1).cpu().numpy())


def ids_and_labels(given: Tokens) -> list[str]:
    return [f"{token} {label}" for token, label in zip(given.ids, given.labels, strict=True)]


def quantity_name(name: str) -> str:
    return {"tokens": _("Embeddings"), "positions": _("Positions"), "output": _("Sum")}[name]


def norm_name(name: str) -> str:
    return {
        "plain": _("token embedding E"),
        "times": "E · √d_model",
        "over": "E / √d_model",
        "positions": _("position"),
        "sum": _("their sum"),
    }[name]


def on_row() -> None:
    workbench().select(query=int(st.session_state[TABLE].row))


def on_norm() -> None:
    workbench().select(query=int(st.session_state[NORMS].place["index"]))
