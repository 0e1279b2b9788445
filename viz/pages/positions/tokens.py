"""Embeddings as the stack gets them: a heatmap, and how long they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import streamlit as st
import torch
from streamlit.delta_generator import DeltaGenerator
from torch import Tensor

from model.analysis.embeddings import Plane, in_groups, nearest, principal_plane
from model.capture.trace import Trace
from model.inference.text_model import TextModel
from model.network.config import TWO_STACKS
from model.network.layers import TokenEmbedding
from model.text.tokenizer import Tokenizer, Tokens
from viz.components.view import live
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.render.view import FigureView, view
from viz.state.position_override import position_name
from viz.state.session import Session, choose, current_session
from viz.ui.parts import Drawing, Views, classes, data_table, expander, explanation
from viz.ui.plots import PINNED, array, heading, levels, missing, pinned

if TYPE_CHECKING:
    from numpy.typing import NDArray

WIDE = 256  # channels that a heatmap shows one by one
COLOURS = {
    "plain": "#5b7083",
    "times": "#0072b2",
    "over": "#8a6fb0",
    "positions": "#d55e00",
    "types": "#cc79a7",
    "sum": "#009e73",
}
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


def table_map(session: Session, chosen: Chosen, given: Tokens, query: int) -> FigureView:
    """Tokens by channels, or their difference from the pinned ones."""
    values = chosen.trace[chosen.name].float()
    other = pinned(session)(chosen.name)
    drawn, size, note = channels(values, chosen.binned)
    before = None if other is None else channels(other.float(), chosen.binned)[0]
    shown, scale = levels(drawn, before, session, _("value"), signed=True)
    if scale.difference and np.isfinite(shown).any() and not np.nan_to_num(shown).any():
        note = _("nothing differs from the pin")
    counts = {"tokens": len(given), "channels": values.shape[1]}
    sentence = _("{tokens} tokens × {channels} channels, with their ids").format(**counts)
    sentence = " · ".join(filter(None, [sentence, missing(session, other)]))
    name, file = quantity_name(chosen.quantity), f"embedding-{chosen.side}-{chosen.quantity}"
    rows = Axis(_("token"), ids_and_labels(given), chosen.side)
    columns = Axis(_("channel"), [str(size * place) for place in range(shown.shape[1])], "")
    above = heading(chosen.trace, name, file, note, sentence, about=about_table(chosen))
    return view(TABLE, Heatmap(above, shown, rows, columns, scale, chosen=query), row=on_row)


def channels(values: Tensor, binned: bool) -> tuple[Tensor, int, str]:
    """Channels as wide as a heatmap is, how many are one column, and a note where a column is not one, or some lack."""
    if not binned:
        note = _("channels 0 to {last} of {all}").format(last=WIDE - 1, all=values.shape[1])
        return values[:, :WIDE], 1, note
    means, size = in_groups(values, WIDE)
    return means, size, _("means of {size} channels").format(size=size) if size > 1 else ""


def lengths(chosen: Chosen, given: Tokens) -> dict[str, Tensor]:
    """Norms of what is added up, the token's embedding with and without its factor (claims 11 and 12)."""
    plain = chosen.matrix[given.ids].float().norm(dim=-1)
    root = chosen.model.config.d_model**0.5
    embedding = f"{chosen.stack}.embedding"
    tokens, positions = (chosen.trace[f"{embedding}.{part}"].float() for part in ("tokens", "positions"))
    found = {"plain": plain, "times": plain * root, "over": plain / root}
    types = chosen.trace[f"{embedding}.types"].float() if f"{embedding}.types" in chosen.trace.names() else None
    second = types is not None and bool(types.any())
    if bool(positions.any()) or second:
        found["positions"] = positions.norm(dim=-1)
    if types is not None and second:
        found["types"], positions = types.norm(dim=-1), positions + types
    if "positions" in found:
        found["sum"] = (tokens + positions).norm(dim=-1)
    return found


def norms_chart(session: Session, chosen: Chosen, given: Tokens, query: int) -> FigureView:
    found, scaled = lengths(chosen, given), chosen.factor != 1
    used = {"times" if scaled else "plain", "positions", "types", "sum"}
    places = np.arange(len(given))
    series = [
        Series(norm_name(name), places, array(norms), COLOURS[name], dash=name not in used)
        for name, norms in found.items()
    ]
    before = pinned_norms(session, chosen)
    if before is not None:
        series.append(Series(f"{norm_name('sum')} · {_('pinned')}", places, before, PINNED, dash=True))
    if "positions" in found:
        share, without = (
            significant(float(found[name].mean()) / float(found["positions"].mean()))
            for name in ("times" if scaled else "plain", "plain")
        )
        sentence = _("Tokens are {share} times as long as positions.")
        if scaled:
            sentence = _("Tokens are {share} times as long as positions; without the factor {without} times.")
        sentence = sentence.format(share=share, without=without)
    else:
        sentence = _("This model adds no positions to its embeddings ({position}).").format(
            position=position_name(chosen.model.config.position)
        )
    sentence = f"{sentence} {missing(session, before)}".strip()
    above = heading(
        chosen.trace, _("Vector norms"), f"norms-{chosen.side}", sentence=sentence, about=about_norms(chosen)
    )
    x, y = Axis(_("token"), given.labels, chosen.side), Axis(_("vector norm"), log=True)
    return view(NORMS, Chart(above, series, x, y, chosen=query, tall=170, of=_("quantity")), place=on_norm)


def pinned_norms(session: Session, chosen: Chosen) -> NDArray[np.float32] | None:
    """How long what entered the stack was in the pinned trace, at this trace's tokens."""
    other = pinned(session)(f"{chosen.stack}.embedding.output")
    return None if other is None else array(other.float().norm(dim=-1))


def ids_and_labels(given: Tokens) -> list[str]:
    return [f"{token} {label}" for token, label in zip(given.ids, given.labels, strict=True)]


def quantity_name(name: str) -> str:
    return {"tokens": _("Embeddings"), "positions": _("Positions"), "types": _("Second text"), "output": _("Sum")}[name]


def norm_name(name: str) -> str:
    return {
        "plain": _("token embedding E"),
        "times": "E · √d_model",
        "over": "E / √d_model",
        "positions": _("position"),
        "types": _("second text"),
        "sum": _("their sum"),
    }[name]


@live
def on_row(clicked: int) -> None:
    current_session().select(query=int(clicked))


@live
def on_norm(clicked: dict[str, Any]) -> None:
    current_session().select(query=int(clicked["index"]))


# Tokens beside each other: the nearest of the vocabulary, and a plane on which the text's lie.

NEAREST = 12
OWN, OTHER, QUERY = "#0072b2", "#8a949e", "#d55e00"
PLANE = "plane_view"


def tokenizer_of(chosen: Chosen) -> Tokenizer:
    return chosen.model.source_tokenizer if chosen.side == "source" else chosen.model.target_tokenizer


def nearest_chart(session: Session, chosen: Chosen, given: Tokens, query: int) -> FigureView:
    """The tokens of the vocabulary whose embeddings have the largest cosine with the chosen token's."""
    token, label = given.ids[query], given.labels[query]
    ids, cosines = nearest(chosen.matrix, token, NEAREST)
    labels = [tokenizer_of(chosen).label(each) for each in ids.tolist()]
    before, lacking = _pinned_cosines(session, chosen, token, ids)
    series = [Series(_("cosine"), np.arange(len(labels)), array(cosines), OWN, "bars"), *before]
    listed = ", ".join(f"{name} {significant(value)}" for name, value in zip(labels, cosines.tolist(), strict=True))
    sentence = _("of {count} in the embedding, by cosine").format(count=f"{len(chosen.matrix):,}")
    sentence = " · ".join(filter(None, [sentence, lacking]))
    alt = _("Nearest to {label}: {listed}.").format(label=label, listed=listed)
    about = About(
        _("The other tokens of the vocabulary whose embeddings point most nearly the same way as the chosen token's."),
        [r"\cos(E_t, E_v) = \frac{E_t \cdot E_v}{\lVert E_t \rVert\, \lVert E_v \rVert}"],
        [nearest],
    )
    above = heading(chosen.trace, _("Nearest tokens"), f"nearest-{token}", f"{label} · {token}", sentence, alt, about)
    x, y = Axis(_("token of the vocabulary"), labels), Axis(_("cosine"), zero=True)
    return view("nearest", Chart(above, series, x, y, tall=130, of=_("quantity")))


def _pinned_cosines(session: Session, chosen: Chosen, token: int, ids: Tensor) -> tuple[list[Series], str]:
    """The cosines of the same tokens in the pinned model's embedding; or a sentence where its vocabulary is another."""
    if session.pin is None:
        return [], ""
    other = dict(session.pin.trace.network.named_parameters()).get(f"{chosen.stack}.embedding.tokens.weight")
    if not session.pin.same_words(chosen.model, chosen.side) or other is None or len(other) != len(chosen.matrix):
        return [], _("the pinned model has another vocabulary here: nothing to compare with")
    rows = other.detach().float()
    cosines = torch.nn.functional.cosine_similarity(rows[ids], rows[token], dim=-1)
    return [Series(f"{_('cosine')} · {_('pinned')}", np.arange(len(ids)), array(cosines), PINNED, "dots")], ""


def plane_chart(session: Session, chosen: Chosen, given: Tokens, query: int) -> FigureView:
    """The two directions in which the vectors differ most, and where each token lies in them."""
    own = chosen.trace[chosen.name].float()
    near, labels = own[:0], []
    if chosen.quantity == "tokens" and chosen.neighbours:
        ids, _cosines = nearest(chosen.matrix, given.ids[query], NEAREST)
        near, labels = chosen.matrix[ids].float() * chosen.factor, tokenizer_of(chosen).tokens(ids.tolist()).labels
    plane = principal_plane(torch.cat([own, near]))
    colours = [QUERY if place == query else OWN for place in range(len(given))]
    series = [replace(_dots(_("text"), plane.project(own), OWN, given.labels), side=chosen.side, colours=colours)]
    if labels:
        series.append(_dots(_("nearest to the chosen token"), plane.project(near), OTHER, labels))
    other = pinned(session)(chosen.name)
    if other is not None:
        series.append(_dots(_("pinned"), plane.project(other.float()), PINNED))
    first, second = (significant(100 * share) for share in plane.shares)
    explained = _("{first} % and {second} % of the variance").format(first=first, second=second)
    if plane.shares == (0.0, 0.0):
        explained = _("one point: these vectors do not differ")
    sentence = " · ".join(filter(None, [quantity_name(chosen.quantity), explained, missing(session, other)]))
    file = f"plane-{chosen.side}-{chosen.quantity}"
    about = About(
        _("The plane in which these vectors differ most, a point for each: what lies together is alike in it."),
        [r"x_p - \bar{x} = \sum_k s_k\, u_{pk}\, v_k", r"\mathrm{PC}_k(p) = (x_p - \bar{x}) \cdot v_k, \quad k = 1, 2"],
        [Plane, principal_plane],
    )
    above = heading(chosen.trace, _("Principal components"), file, sentence=sentence, about=about)
    x, y = Axis(f"PC 1 · {first} %"), Axis(f"PC 2 · {second} %")
    return view(PLANE, Chart(above, series, x, y, tall=200, of=_("quantity"), place=_("token")), place=on_dot)


def _dots(name: str, points: Tensor, colour: str, labels: list[str] | None = None) -> Series:
    xs, ys = array(points).T
    return Series(name, xs, ys, colour, "dots", labels=labels)


@live
def on_dot(place: dict[str, Any]) -> None:
    """A click on a token of the text chooses it."""
    if place["series"] == 0:
        current_session().select(query=int(place["index"]))


# Tokens as the model gets them: ids, embeddings, lengths, nearest tokens, a plane they lie on.

QUANTITIES = ("tokens", "positions", "types", "output")
ADDS_NONE = ("rotary", "alibi", "relative", "none")  # positions that the sum does not hold


def section(model: TextModel, row: DeltaGenerator) -> Views:
    """Controls; then all that the trace holds of the tokens is packed; then mounted."""
    side = "source"
    if model.kind in TWO_STACKS:
        side = choose(_("Side"), ("source", "target"), side, "side", side_choice, row)
    added = [name for name in QUANTITIES if name != "positions" or model.config.position not in ADDS_NONE]
    added = [name for name in added if name != "types" or model.config.separator is not None]
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

    def views(model: TextModel) -> Drawing:
        session = current_session()
        chosen = Chosen(model, session.trace, side, quantity, binned, around)
        given = session.source if side == "source" else session.target
        assert given is not None
        session.selection.side = side
        query = min(session.selection.query, len(given) - 1)
        parts = [
            (table, table_map(session, chosen, given, query)),
            (norms, norms_chart(session, chosen, given, query)),
            (near, nearest_chart(session, chosen, given, query)),
            (plane, plane_chart(session, chosen, given, query)),
        ]
        yield parts

        def rest() -> None:
            data_table(
                "tokens_data", lambda: norms_table(session, chosen, given), f"tokens-{side}", place=data, parts=parts
            )

        return rest

    return views


def token_formula(model: TextModel) -> str:
    """What a token adds to the sum."""
    return (r"\sqrt{d_{\mathrm{model}}}\," if model.config.scale_embedding else "") + r"E_{\mathrm{token}(p)}"


def sum_formula(model: TextModel) -> str:
    """What enters the stack."""
    added = "" if model.config.position in ADDS_NONE else " + PE_p"
    types = "" if model.config.separator is None else r" + S_{\mathrm{text}(p)}"
    total = token_formula(model) + added + types
    return rf"x_p = \mathrm{{Norm}}\left({total}\right)" if model.config.embedding_norm else f"x_p = {total}"


def position_formulas(model: TextModel) -> list[str]:
    """What a position adds to the sum; of what a model does in a way of its own, no more than its name."""
    if model.config.position == "learned":
        return [r"PE_p = P_p, \quad P \in \mathbb{R}^{\mathrm{positions} \times d_{\mathrm{model}}}"]
    angle = rf"\frac{{p}}{{{model.config.position_base:g}^{{2i/d_{{\mathrm{{model}}}}}}}}"
    places = {
        "sinusoidal": ("2i", "2i+1"),
        "sinusoidal-halves": ("i", r"i + d_{\mathrm{model}}/2"),
    }.get(model.config.position)
    if places is None:
        return ["PE_p"]
    return [rf"PE_{{p,\,{at}}} = \{wave}{angle}" for at, wave in zip(places, ("sin", "cos"), strict=True)]


def about_table(chosen: Chosen) -> About:
    """Of the heatmap, for the part of the sum that it shows."""
    sentence, formulas = {
        "tokens": (
            _("A row is a token, a column a channel of its embedding, as it is added up."),
            [token_formula(chosen.model)],
        ),
        "positions": (
            _("A row is a token, a column a channel of what its position adds."),
            position_formulas(chosen.model),
        ),
        "types": (
            _("A row is a token, a column a channel of the vector that says to which of two texts it belongs."),
            [r"S_{\mathrm{text}(p)}"],
        ),
        "output": (
            _("A row is a token, a column a channel of the sum that enters the first layer."),
            [sum_formula(chosen.model)],
        ),
    }[chosen.quantity]
    return About(sentence, formulas, classes(chosen.trace.module(chosen.name)))


def about_norms(chosen: Chosen) -> About:
    sentence = _("How long each token's vectors are: solid what this model adds up, dashed what other readings give.")
    formulas = [sum_formula(chosen.model), r"\lVert v \rVert = \sqrt{\textstyle\sum_c v_c^2}"]
    return About(sentence, formulas, [type(chosen.trace.module(f"{chosen.stack}.embedding"))])


def explain(model: TextModel, side: str) -> None:
    embedding = model.network.get_submodule(f"{stack_of(model, side)}.embedding")
    explanation(
        "tokens_explanation",
        [sum_formula(model)],
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
