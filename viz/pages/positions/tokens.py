"""Embeddings as the stack gets them: a heatmap, and how long they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator
from torch import Tensor

from model.analysis.embeddings import in_groups, nearest, principal_plane
from model.capture.trace import Trace
from model.inference.text_model import TextModel
from model.network.layers import TokenEmbedding
from model.text.tokenizer import Tokenizer, Tokens
from viz.components.old_plots import chart, heatmap
from viz.components.plots import Mount, Series
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.state.positions import position_name
from viz.state.session import Session, choose, current_session
from viz.ui.parts import Views, classes, data_table, expander, explanation, mount, plot_words, stamp
from viz.ui.plots import PINNED, missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

WIDE = 256  # channels that a heatmap shows one by one
COLOURS = {"plain": "#5b7083", "times": "#0072b2", "over": "#8a6fb0", "positions": "#d55e00", "sum": "#009e73"}
TABLE, NORMS = "embedding", "norms"


def stack_of(model: TextModel, side: str) -> str:
    """The stack that reads a side's tokens."""
    return "encoder" if model.config.n_encoder_layers and side == "source" else "decoder"


@dataclass(frozen=True)
class Chosen:
    """What the controls say, and what it is said of."""

    model: TextModel
    trace: Trace
    side: str
    quantity: str
    binned: bool
    neighbours: bool

    @property
    def stack(self) -> str:
        return stack_of(self.model, self.side)

    @property
    def name(self) -> str:
        return f"{self.stack}.embedding.{self.quantity}"

    @property
    def labels(self) -> list[str]:
        return self.trace.source_tokens if self.side == "source" else self.trace.target_tokens

    @property
    def matrix(self) -> Tensor:
        """The embedding of the vocabulary."""
        return self.model.network.get_parameter(f"{self.stack}.embedding.tokens.weight").detach()

    @property
    def factor(self) -> float:
        embedding = self.model.network.get_submodule(f"{self.stack}.embedding.tokens")
        return embedding.factor if isinstance(embedding, TokenEmbedding) else 1.0


def pack_table(session: Session, chosen: Chosen, given: Tokens, query: int) -> Mount:
    """Tokens by channels, or their difference from the pinned ones."""
    comparison = session.comparison if session.differing else None
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
    root = chosen.model.config.d_model**0.5
    embedding = f"{chosen.stack}.embedding"
    tokens, positions = (chosen.trace[f"{embedding}.{part}"].float() for part in ("tokens", "positions"))
    found = {"plain": plain, "times": plain * root, "over": plain / root}
    if bool(positions.any()):
        found |= {"positions": positions.norm(dim=-1), "sum": (tokens + positions).norm(dim=-1)}
    return found


def pack_norms(session: Session, chosen: Chosen, given: Tokens, query: int) -> Mount:
    found, scaled = lengths(chosen, given), chosen.factor != 1
    used = {"times" if scaled else "plain", "positions", "sum"}
    places = np.arange(len(given))
    series = [
        Series(norm_name(name), places, norms.cpu().numpy(), COLOURS[name], dash=name not in used)
        for name, norms in found.items()
    ]
    before = pinned_norms(session, chosen)
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
            position=position_name(chosen.model.config.position)
        )
    note = f"{note} {missing(session, before)}".strip()
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


def pinned_norms(session: Session, chosen: Chosen) -> np.ndarray | None:
    """How long what entered the stack was in the pinned trace, at this trace's tokens."""
    other = session.comparison.counterpart(f"{chosen.stack}.embedding.output") if session.comparison else None
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
    current_session().select(query=int(st.session_state[TABLE].row))


def on_norm() -> None:
    current_session().select(query=int(st.session_state[NORMS].place["index"]))


# Tokens beside each other: the nearest of the vocabulary, and a plane on which the text's lie.

NEAREST = 12
OWN, OTHER, QUERY = "#0072b2", "#8a949e", "#d55e00"
PLANE = "plane_view"


def tokenizer_of(chosen: Chosen) -> Tokenizer:
    return chosen.model.source_tokenizer if chosen.side == "source" else chosen.model.target_tokenizer


def pack_nearest(session: Session, chosen: Chosen, given: Tokens, query: int) -> Mount:
    """The tokens of the vocabulary whose embeddings have the largest cosine with the chosen token's."""
    ids, cosines = nearest(chosen.matrix, given.ids[query], NEAREST)
    labels = [tokenizer_of(chosen).label(token) for token in ids.tolist()]
    places = np.arange(len(labels))
    series = [Series(_("cosine"), places, cosines.cpu().numpy(), OWN, mark="bars")]
    before, lacking = _pinned_cosines(session, chosen, given.ids[query], ids, places)
    series += before
    label = given.labels[query]
    listed = ", ".join(f"{name} {significant(value)}" for name, value in zip(labels, cosines.tolist(), strict=True))
    sentence = _("of {count} in the embedding, by cosine").format(count=f"{len(chosen.matrix):,}")
    header = {
        "x": {"title": _("token of the vocabulary"), "labels": labels},
        "y": {"title": _("cosine"), "zero": True},
        "tall": 130,
        "name": _("Nearest tokens"),
        "sentence": " · ".join(filter(None, [sentence, lacking])),
        "note": f"{label} · {given.ids[query]}",
        "alt": _("Nearest to {label}: {listed}.").format(label=label, listed=listed),
        "file": f"nearest-{given.ids[query]}",
        "stamp": stamp(chosen.trace),
        "words": plot_words(_("quantity"), _("token"), _("cosine")),
    }
    return chart(series, header, "nearest")


def _pinned_cosines(
    session: Session, chosen: Chosen, token: int, ids: Tensor, places: NDArray[np.int64]
) -> tuple[list[Series], str]:
    """The cosines of the same tokens in the pinned model's embedding; or a sentence where its vocabulary is another."""
    if session.pin is None:
        return [], ""
    other = dict(session.pin.trace.network.named_parameters()).get(f"{chosen.stack}.embedding.tokens.weight")
    if not session.pin.same_words(chosen.model, chosen.side) or other is None or len(other) != len(chosen.matrix):
        return [], _("the pinned model has another vocabulary here: nothing to compare with")
    rows = other.detach().float()
    cosines = torch.nn.functional.cosine_similarity(rows[ids], rows[token], dim=-1)
    return [Series(f"{_('cosine')} · {_('pinned')}", places, cosines.cpu().numpy(), PINNED, mark="dots")], ""


def pack_plane(session: Session, chosen: Chosen, given: Tokens, query: int) -> Mount:
    """The two directions in which the vectors differ most, and where each token lies in them."""
    own = chosen.trace[chosen.name].float()
    near, labels = own[:0], []
    if chosen.quantity == "tokens" and chosen.neighbours:
        ids, _cosines = nearest(chosen.matrix, given.ids[query], NEAREST)
        near, labels = chosen.matrix[ids].float() * chosen.factor, tokenizer_of(chosen).tokens(ids.tolist()).labels
    plane = principal_plane(torch.cat([own, near]))
    colours = [QUERY if place == query else OWN for place in range(len(given))]
    series = [replace(_dots(_("text"), plane.project(own), OWN, given.labels, colours), side=chosen.side)]
    if labels:
        series.append(_dots(_("nearest to the chosen token"), plane.project(near), OTHER, labels))
    other = session.comparison.counterpart(chosen.name) if session.comparison else None
    if other is not None:
        series.append(_dots(_("pinned"), plane.project(other.float()), PINNED))
    first, second = (significant(100 * share) for share in plane.shares)
    explained = _("{first} % and {second} % of the variance").format(first=first, second=second)
    if plane.shares == (0.0, 0.0):
        explained = _("one point: these vectors do not differ")
    header = {
        "x": {"title": f"PC 1 · {first} %"},
        "y": {"title": f"PC 2 · {second} %"},
        "tall": 200,
        "name": _("Principal components"),
        "sentence": " · ".join(filter(None, [quantity_name(chosen.quantity), explained, missing(session, other)])),
        "alt": _("{count} points on the plane of the two principal components: {explained}.").format(
            count=len(own) + len(near), explained=explained
        ),
        "file": f"plane-{chosen.side}-{chosen.quantity}",
        "stamp": stamp(chosen.trace),
        "words": plot_words(_("quantity"), _("token"), "PC 2"),
    }
    return chart(series, header, PLANE, on_dot)


def _dots(
    name: str, points: Tensor, colour: str, labels: list[str] | None = None, colours: list[str] | None = None
) -> Series:
    xs, ys = points.cpu().numpy().T
    return Series(name, xs, ys, colour, mark="dots", labels=labels, colours=colours)


def on_dot() -> None:
    """A click on a token of the text chooses it."""
    place = st.session_state[PLANE].place
    if place["series"] == 0:
        current_session().select(query=int(place["index"]))


# Tokens as the model gets them: ids, embeddings, lengths, nearest tokens, a plane they lie on.

QUANTITIES = ("tokens", "positions", "output")
ADDS_NONE = ("rotary", "alibi", "relative", "none")  # positions that the sum does not hold


def section(model: TextModel, row: DeltaGenerator) -> Views:
    """Controls; then all that the trace holds of the tokens is packed; then mounted."""
    side = "source"
    if model.kind == "encoder-decoder":
        side = choose(_("Side"), ("source", "target"), side, "side", side_choice, row)
    added = [name for name in QUANTITIES if name != "positions" or model.config.position not in ADDS_NONE]
    quantity = choose(_("Quantity"), added, added[0], "vectors", quantity_name, row)
    wide = model.config.d_model > WIDE
    binned = not wide or choose(_("Channels"), ("means", "first"), "means", "channels", channels_choice, row) == "means"
    around = choose(_("Plane"), ("text", "near"), "near", "plane", plane_choice, row) == "near"
    left, right = st.columns([11, 9], gap="medium")
    with left:
        table, norms = st.container(), st.container()
    with right:
        near, plane = st.container(), st.container()
        explain(model, side)
        data = expander("tokens_data", _("Data"))

    def views(model: TextModel) -> Iterator[None]:
        session = current_session()
        chosen = Chosen(model, session.trace, side, quantity, binned, around)
        given = session.source if side == "source" else session.target
        assert given is not None
        session.selection.side = side
        query = min(session.selection.query, len(given) - 1)
        parts = [
            (table, pack_table(session, chosen, given, query)),
            (norms, pack_norms(session, chosen, given, query)),
            (near, pack_nearest(session, chosen, given, query)),
            (plane, pack_plane(session, chosen, given, query)),
        ]
        yield
        mount(parts)
        data_table(
            "tokens_data", lambda: norms_table(session, chosen, given), f"tokens-{side}", place=data, parts=parts
        )

    return views


def explain(model: TextModel, side: str) -> None:
    config = model.config
    scaled = r"\sqrt{d_{\mathrm{model}}}\," if config.scale_embedding else ""
    added = "" if config.position in ADDS_NONE else " + PE_p"
    embedding = model.network.get_submodule(f"{stack_of(model, side)}.embedding")
    explanation(
        "tokens_explanation",
        [rf"x_p = {scaled}E_{{\mathrm{{token}}(p)}}{added}"],
        _(
            "Vaswani et al., *Attention Is All You Need*, sections 3.4 and 3.5: the embedding's output is multiplied "
            "by √d_model, its weights are not divided by it. Solid norms are what this model adds up, dashed ones what "
            "the other readings would give. Nearest tokens have the largest cosine; the plane is that of the two "
            "principal components (Pearson, 1901). This is the code that has just run:"
        ),
        *(*classes(embedding), nearest, principal_plane),
    )


def norms_table(session: Session, chosen: Chosen, given: Tokens) -> pd.DataFrame:
    columns = {norm_name(name): norms.tolist() for name, norms in lengths(chosen, given).items()}
    if (before := pinned_norms(session, chosen)) is not None:
        columns[f"{norm_name('sum')} · {_('pinned')}"] = before.tolist()
    return pd.DataFrame({_("token"): given.labels, "id": given.ids, **columns})


def side_choice(name: str) -> str:
    return {"source": _("Source"), "target": _("Target")}[name]


def channels_choice(name: str) -> str:
    return {"means": _("all channels, in groups"), "first": _("first channels")}[name]


def plane_choice(name: str) -> str:
    return {"near": _("+ nearest"), "text": _("text alone")}[name]
