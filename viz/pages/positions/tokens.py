"""Embeddings as the stack gets them: a heatmap, and how long they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import streamlit as st
import torch
from torch import Tensor

from model.analysis.embeddings import Plane, in_groups, nearest, principal_plane
from model.inference.text_model import TextModel
from model.message import Message
from model.network.config import TWO_STACKS
from model.network.layers import TokenEmbedding
from model.text.tokenizer import Tokenizer, Tokens
from viz.components.view import live
from viz.figures.axis import Axis, scale_of
from viz.figures.chart import Chart, Series
from viz.figures.colours import EXPECTED, FIFTH, FIRST, FOURTH, PINNED, PLAIN, SECOND, THIRD
from viz.figures.figure import About
from viz.figures.heatmap import Heatmap
from viz.i18n.catalogue import _
from viz.i18n.format import percent, significant
from viz.i18n.messages import joined
from viz.render.view import view
from viz.state.position_override import position_name
from viz.state.session import choose, current_session
from viz.ui.choice_row import ChoiceRow
from viz.ui.parts import Drawing, Views, classes, data_table, expander, explanation, frame_of
from viz.ui.plots import array, caption, compared, lacking

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from viz.state.inputs import Inputs

WIDE = 256  # channels that a heatmap shows one by one
COLOURS = {
    "plain": PLAIN,
    "times": SECOND,
    "over": THIRD,
    "positions": FIRST,
    "types": FOURTH,
    "sum": FIFTH,
}
TABLE, NORMS, SIDE = "embedding", "norms", "side"


def stack_of(model: TextModel, side: str) -> str:
    """The stack that reads a side's tokens."""
    return "encoder" if model.config.n_encoder_layers and side == "source" else "decoder"


@dataclass(frozen=True)
class Chosen:
    """Text of the inputs, and what the controls say of it.

    binned: channels of a wide model in groups, else its first ones. neighbours: the plane has the nearest tokens too.
    """

    inputs: Inputs
    side: str = "source"
    quantity: str = "tokens"
    binned: bool = True
    neighbours: bool = False

    @property
    def model(self) -> TextModel:
        return self.inputs.model

    @property
    def stack(self) -> str:
        return stack_of(self.model, self.side)

    @property
    def name(self) -> str:
        return f"{self.stack}.embedding.{self.quantity}"

    @property
    def tokens(self) -> Tokens:
        tokens = self.inputs.source if self.side == "source" else self.inputs.target
        assert tokens is not None
        return tokens

    @property
    def query(self) -> int:
        """Place of the chosen token."""
        return min(self.inputs.selection.query, len(self.tokens) - 1)

    @property
    def tokenizer(self) -> Tokenizer:
        return self.model.source_tokenizer if self.side == "source" else self.model.target_tokenizer

    @property
    def matrix(self) -> Tensor:
        """The embedding of the vocabulary."""
        return self.model.network.get_parameter(f"{self.stack}.embedding.tokens.weight").detach()

    @property
    def factor(self) -> float:
        embedding = self.model.network.get_submodule(f"{self.stack}.embedding.tokens")
        return embedding.factor if isinstance(embedding, TokenEmbedding) else 1.0


def table_map(chosen: Chosen) -> Heatmap:
    """Tokens by channels."""
    inputs, tokens = chosen.inputs, chosen.tokens
    own, other = inputs.trace[chosen.name].float(), inputs.before(chosen.name)
    values, size, note = channels(own, chosen.binned)
    before = None if other is None else channels(other.float(), chosen.binned)[0]
    by_place = chosen.quantity == "positions"  # a vector of where a token stands, whichever it is
    counted: dict[str, Any] = {"tokens": len(tokens), "channels": own.shape[1]}
    counts = (
        Message("tokens × channels: {tokens} × {channels}, with their positions", **counted)
        if by_place
        else Message("tokens × channels: {tokens} × {channels}, with their ids", **counted)
    )
    sentence, about = joined(" · ", counts, lacking(inputs, other)), about_table(chosen)
    name, file = quantity_name(chosen.quantity), f"embedding-{chosen.side}-{chosen.quantity}"
    numbers = range(len(tokens)) if by_place else tokens.ids
    labels = [f"{number} {label}" for number, label in zip(numbers, tokens.labels, strict=True)]
    return Heatmap(
        caption(inputs, name, file, note, sentence, about=about),
        compared(values, before),
        Axis(Message("token"), labels, chosen.side),
        Axis(Message("channel"), [str(size * place) for place in range(values.shape[1])], ""),
        scale_of(array(values), Message("value"), signed=True),
        large=True,
        chosen=chosen.query,
        unchanged=Message("nothing differs from the pin"),
    )


def channels(values: Tensor, binned: bool) -> tuple[Tensor, int, str]:
    """Channels as wide as a heatmap is, how many are one column, and a note where a column is not one, or some lack."""
    if not binned:
        return values[:, :WIDE], 1, Message("channels 0 to {last} of {all}", last=WIDE - 1, all=values.shape[1])
    means, size = in_groups(values, WIDE)
    return means, size, Message("means of {size} channels", size=size) if size > 1 else ""


def lengths(chosen: Chosen) -> dict[str, Tensor]:
    """Norms of what is added up, the token's embedding with and without its factor (claims 11 and 12)."""
    trace, plain = chosen.inputs.trace, chosen.matrix[chosen.tokens.ids].float().norm(dim=-1)
    root = chosen.model.config.d_model**0.5
    embedding = f"{chosen.stack}.embedding"
    tokens, positions = (trace[f"{embedding}.{part}"].float() for part in ("tokens", "positions"))
    vectors = {"plain": plain, "times": plain * root, "over": plain / root}
    types = trace[f"{embedding}.types"].float() if f"{embedding}.types" in trace.names() else None
    second = types is not None and bool(types.any())
    if bool(positions.any()) or second:
        vectors["positions"] = positions.norm(dim=-1)
    if types is not None and second:
        vectors["types"], positions = types.norm(dim=-1), positions + types
    if "positions" in vectors:
        vectors["sum"] = (tokens + positions).norm(dim=-1)
    return vectors


def norms_chart(chosen: Chosen) -> Chart:
    """Lengths of each token's vectors: solid what is added up, dashed what it might be taken for."""
    inputs, norms, scaled = chosen.inputs, lengths(chosen), chosen.factor != 1
    used = {"times" if scaled else "plain", "positions", "types", "sum"}
    places = np.arange(len(chosen.tokens))
    series = [
        Series(norm_name(name), places, array(each), COLOURS[name], dash=name not in used)
        for name, each in norms.items()
    ]
    before = pinned_norms(chosen)
    if before is not None:
        series.append(Series(PINNED_SUM, places, before, PINNED, dash=True))
    sentence = joined(" ", norms_sentence(chosen, norms), lacking(inputs, before))
    about = about_norms(chosen)
    above = caption(inputs, Message("Vector norms"), f"norms-{chosen.side}", sentence=sentence, about=about)
    x, y = Axis(Message("token"), chosen.tokens.labels, chosen.side), Axis(Message("vector norm"), log=True)
    return Chart(above, series, x, y, chosen=chosen.query, tall=170, of=Message("quantity"))


def norms_sentence(chosen: Chosen, norms: dict[str, Tensor]) -> Message:
    """Ratio of the lengths of tokens and positions, in a sentence."""
    if "positions" not in norms:
        return Message(
            "This model adds no positions to its embeddings ({position}).",
            position=position_name(chosen.model.config.position),
        )
    share, without = (
        significant(float(norms[name].mean()) / float(norms["positions"].mean()))
        for name in ("times" if chosen.factor != 1 else "plain", "plain")
    )
    if chosen.factor == 1:
        return Message("Tokens are {share} times as long as positions.", share=share)
    return Message(
        "Tokens are {share} times as long as positions; without the factor √d_model they would be {without} times as "
        "long.",
        share=share,
        without=without,
    )


def pinned_norms(chosen: Chosen) -> NDArray[np.float32] | None:
    """Lengths of what entered the stack in the pinned trace, at this trace's tokens."""
    other = chosen.inputs.before(f"{chosen.stack}.embedding.output")
    return None if other is None else array(other.float().norm(dim=-1))


def quantity_name(name: str) -> Message:
    return {
        "tokens": Message("Embeddings"),
        "positions": Message("Positions"),
        "types": Message("Second text"),
        "output": Message("Sum"),
    }[name]


def norm_name(name: str) -> str:
    return {
        "plain": Message("token embedding E"),
        "times": "E · √d_model",
        "over": "E / √d_model",
        "positions": Message("position"),
        "types": Message("second text"),
        "sum": Message("their sum"),
    }[name]


PINNED_SUM = joined(" · ", norm_name("sum"), Message("pinned"))


@live
def on_row(clicked: int) -> None:
    current_session().select(query=int(clicked))


@live
def on_norm(clicked: dict[str, Any]) -> None:
    current_session().select(query=int(clicked["index"]))


# Tokens beside each other: the nearest of the vocabulary, and a plane on which the text's lie.

NEAREST = 12
PLANE = "plane_view"


def nearest_chart(chosen: Chosen) -> Chart:
    """The tokens of the vocabulary whose embeddings have the largest cosine with the chosen token's."""
    token, label = (each[chosen.query] for each in (chosen.tokens.ids, chosen.tokens.labels))
    ids, cosines = nearest(chosen.matrix, int(token), NEAREST)
    labels = [chosen.tokenizer.label(each) for each in ids.tolist()]
    before, sentence = _pinned_cosines(chosen, int(token), ids)
    series = [Series(Message("cosine"), np.arange(len(labels)), array(cosines), PLAIN, "bars"), *before]
    listed = ", ".join(f"{name} {significant(value)}" for name, value in zip(labels, cosines.tolist(), strict=True))
    counted = Message("of {count} in the embedding, by cosine", count=f"{len(chosen.matrix):,}")
    about = About(
        Message(
            "The other tokens of the vocabulary whose embeddings point most nearly the same way as the chosen token's."
        ),
        [r"\cos(E_t, E_v) = \frac{E_t \cdot E_v}{\lVert E_t \rVert\, \lVert E_v \rVert}"],
        [nearest],
        meaning=Message("Nobody has told the model that they are alike: it has learnt it from their use."),
    )
    above = caption(
        chosen.inputs,
        Message("Nearest tokens"),
        f"nearest-{token}",
        f"{label} · {token}",
        joined(" · ", counted, sentence),
        Message("Nearest to {label}: {listed}.", label=label, listed=listed),
        about,
    )
    x, y = Axis(Message("token of the vocabulary"), labels), Axis(Message("cosine"), zero=True)
    return Chart(above, series, x, y, tall=130, of=Message("quantity"))


def _pinned_cosines(chosen: Chosen, token: int, ids: Tensor) -> tuple[list[Series], str]:
    """The cosines of the same tokens in the pinned model's embedding; or a sentence where its vocabulary is another."""
    pin = chosen.inputs.pin
    if pin is None:
        return [], ""
    other = dict(pin.trace.network.named_parameters()).get(f"{chosen.stack}.embedding.tokens.weight")
    if not pin.same_words(chosen.model, chosen.side) or other is None or len(other) != len(chosen.matrix):
        return [], Message("the pinned model has another vocabulary here: nothing to compare with")
    rows = other.detach().float()
    cosines = array(torch.nn.functional.cosine_similarity(rows[ids], rows[token], dim=-1))
    name = joined(" · ", Message("cosine"), Message("pinned"))
    return [Series(name, np.arange(len(ids)), cosines, PINNED, "dots")], ""


def plane_chart(chosen: Chosen) -> Chart:
    """The two directions in which the vectors differ most, and where each token lies in them."""
    inputs, tokens = chosen.inputs, chosen.tokens
    own, other = inputs.trace[chosen.name].float(), inputs.before(chosen.name)
    near, labels = own[:0], []
    if chosen.quantity == "tokens" and chosen.neighbours:
        ids, _cosines = nearest(chosen.matrix, tokens.ids[chosen.query], NEAREST)
        near, labels = chosen.matrix[ids].float() * chosen.factor, chosen.tokenizer.tokens(ids.tolist()).labels
    plane = principal_plane(torch.cat([own, near]))
    series = [replace(_dots(Message("text"), plane.project(own), FIRST, tokens.labels), side=chosen.side)]
    if labels:
        series.append(_dots(Message("nearest to the chosen token"), plane.project(near), EXPECTED, labels))
    if other is not None:
        series.append(_dots(Message("pinned"), plane.project(other.float()), PINNED))
    first, second = (percent(share) for share in plane.shares)
    explained = Message("{first} and {second} of the variance", first=first, second=second)
    if plane.shares == (0.0, 0.0):
        explained = Message("one point: these vectors do not differ")
    sentence = joined(" · ", quantity_name(chosen.quantity), explained, lacking(inputs, other))
    about = About(
        Message("The plane in which these vectors differ most, a point for each: what lies together is alike in it."),
        [r"x_p - \bar{x} = \sum_k s_k\, u_{pk}\, v_k", r"\mathrm{PC}_k(p) = (x_p - \bar{x}) \cdot v_k, \quad k = 1, 2"],
        [Plane, principal_plane],
        meaning=Message("Two directions may leave out most of it: how much they hold is said beside."),
    )
    name, file = Message("Principal components"), f"plane-{chosen.side}-{chosen.quantity}"
    above = caption(inputs, name, file, sentence=sentence, about=about)
    x, y = Axis(f"PC 1 ({first})"), Axis(f"PC 2 ({second})")
    return Chart(above, series, x, y, chosen=chosen.query, tall=200, of=Message("quantity"), place=Message("token"))


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


def section(model: TextModel, row: ChoiceRow) -> Views:
    """Controls; then all that the trace holds of the tokens is packed; then mounted."""
    side = "source"
    if model.kind in TWO_STACKS:
        session = current_session()
        if SIDE not in st.session_state and session.query_side:  # opened from a page where a token was chosen
            session.address.set_choices({SIDE: session.query_side})
        side = choose(_("Side"), ("source", "target"), side, SIDE, side_choice, row.place)
        session.query_side = session.query_side and side
    added = [name for name in QUANTITIES if name != "positions" or model.config.position not in ADDS_NONE]
    added = [name for name in added if name != "types" or model.config.separator is not None]
    quantity = choose(_("Quantity"), added, added[0], "vectors", quantity_name, row.place)
    wide = model.config.d_model > WIDE
    binned = not wide or row.choose(_("Channels"), ("means", "first"), "means", "channels", channels_choice) == "means"
    around = row.choose(_("Plane"), ("text", "near"), "near", "plane", plane_choice) == "near"
    left, right = st.columns([11, 9], gap="medium")
    with left:
        table = st.container()
        if quantity == "positions":
            st.button(
                _("Position curves for any base, length and width"),
                on_click=_to_curves,
                type="tertiary",
                icon=":material/arrow_forward:",
            )
        norms = st.container()
    with right:
        near, plane = st.container(), st.container()
        explain(model, side)
        data = expander("tokens_data", _("Data"))

    def views(_model: TextModel) -> Drawing:
        session = current_session()
        session.selection.side = side
        chosen = Chosen(session.inputs, side, quantity, binned, around)
        parts = [
            (table, view(TABLE, table_map(chosen), row=on_row)),
            (norms, view(NORMS, norms_chart(chosen), place=on_norm)),
            (near, view("nearest", nearest_chart(chosen))),
            (plane, view(PLANE, plane_chart(chosen), place=on_dot)),
        ]
        yield parts

        def rest() -> None:
            data_table("tokens_data", lambda: norms_table(chosen), f"tokens-{side}", place=data, parts=parts)

        return rest

    return views


def _to_curves() -> None:
    """Show the part of the page with the curves of a formula."""
    current_session().address.set_choices({"part": "laboratory"})


def token_formula(model: TextModel) -> str:
    """A token's term of the sum."""
    return (r"\sqrt{d_{\mathrm{model}}}\," if model.config.scale_embedding else "") + r"E_{\text{token}(p)}"


def sum_formula(model: TextModel) -> str:
    """The sum that enters the stack."""
    added = "" if model.config.position in ADDS_NONE else " + PE_p"
    types = "" if model.config.separator is None else r" + S_{\text{text}(p)}"
    total = token_formula(model) + added + types
    return rf"x_p = \mathrm{{Norm}}\left({total}\right)" if model.config.embedding_norm else f"x_p = {total}"


def position_formulas(model: TextModel) -> list[str]:
    """A position's term of the sum; only its name where the model has a way of its own."""
    if model.config.position == "learned":
        return [r"PE_p = P_p, \quad P \in \mathbb{R}^{\text{positions} \times d_{\mathrm{model}}}"]
    angle = rf"\frac{{p}}{{{model.config.position_base:g}^{{2i/d_{{\mathrm{{model}}}}}}}}"
    places = {
        "sinusoidal": ("2i", "2i+1"),
        "sinusoidal-halves": ("i", r"i + d_{\mathrm{model}}/2"),
    }.get(model.config.position)
    if places is None:
        return ["PE_p"]
    return [rf"PE_{{p,\,{at}}} = \{wave}{angle}" for at, wave in zip(places, ("sin", "cos"), strict=True)]


def about_table(chosen: Chosen) -> About:
    """Explanation of the heatmap, for the part of the sum that it shows."""
    sentence, formulas = {
        "tokens": (
            Message("A row is a token, a column a channel of its embedding, as it is added up."),
            [token_formula(chosen.model)],
        ),
        "positions": (
            Message("A row is a token, a column a channel of what its position adds."),
            position_formulas(chosen.model),
        ),
        "types": (
            Message("A row is a token, a column a channel of the vector that says to which of two texts it belongs."),
            [r"S_{\text{text}(p)}"],
        ),
        "output": (
            Message("A row is a token, a column a channel of the sum that enters the first layer."),
            [sum_formula(chosen.model)],
        ),
    }[chosen.quantity]
    return About(
        sentence,
        formulas,
        classes(chosen.inputs.trace.module(chosen.name)),
        meaning=Message("Equal tokens have equal rows in the embedding; the positions make them differ."),
    )


def about_norms(chosen: Chosen) -> About:
    sentence = Message(
        "How long each token's vectors are: solid what this model adds up, dashed what other readings give."
    )
    formulas = [sum_formula(chosen.model), r"\lVert v \rVert = \sqrt{\textstyle\sum_c v_c^2}"]
    return About(
        sentence,
        formulas,
        [type(chosen.inputs.trace.module(f"{chosen.stack}.embedding"))],
        meaning=Message(
            "Where the token's is much longer than the position's, what it is counts more than where it stands."
        ),
    )


def explain(model: TextModel, side: str) -> None:
    embedding = model.network.get_submodule(f"{stack_of(model, side)}.embedding")
    explanation(
        "tokens_explanation",
        _(
            "Every token becomes a vector from a learned table, and a second vector that says where it stands is "
            "added. Their sum is all that the model ever knows of the text."
        ),
        [sum_formula(model)],
        _(
            "Vaswani et al., *Attention Is All You Need*, sections 3.4 and 3.5: the embedding's output is multiplied "
            "by √d_model, its weights are not divided by it. Solid norms are what this model adds up, dashed ones what "
            "the other readings would give. Nearest tokens have the largest cosine; the plane is that of the two "
            "principal components (Pearson, 1901). This is the code that has just run:"
        ),
        *(*classes(embedding), nearest, principal_plane),
    )


def norms_table(chosen: Chosen) -> pd.DataFrame:
    table: dict[str, Any] = {Message("token"): chosen.tokens.labels, "id": chosen.tokens.ids}
    table |= {norm_name(name): norms.tolist() for name, norms in lengths(chosen).items()}
    if (before := pinned_norms(chosen)) is not None:
        table[PINNED_SUM] = before.tolist()
    return frame_of(table)


def side_choice(name: str) -> str:
    return {"source": _("Source"), "target": _("Target")}[name]


def channels_choice(name: str) -> str:
    return {"means": _("all channels, in groups"), "first": _("first channels")}[name]


def plane_choice(name: str) -> str:
    return {"near": _("+ nearest"), "text": _("text alone")}[name]
