"""Dot product against cosine: vectors in the plane, and the keys of a head of the loaded model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from model.analysis.attention_maps import Maps
from model.capture.trace import AttentionKind
from model.experiments.engines.similarity import (
    Agreement,
    RankedKeys,
    agreement,
    cosines,
    dots,
    plane,
    rank_keys,
    ranks,
    spearman,
)
from model.inference.text_model import TextModel
from model.message import Message
from viz.components.view import live
from viz.figures.axis import Axis
from viz.figures.chart import Chart, Series
from viz.figures.colours import FIRST, KEY, PINNED, PLAIN, QUERY
from viz.figures.figure import About, Caption
from viz.i18n.catalogue import _
from viz.i18n.errors import unless_absent
from viz.i18n.format import in_turn, percent, sides, significant, token_sign, tokens
from viz.pages.lab.components import Vectors
from viz.pages.lab.experiment import Findings, Instrument, Live
from viz.pages.lab.head_choice import choose_head, head_panels, marked, mean, title_row
from viz.render.view import view
from viz.state.pin import cached_for_pin
from viz.state.session import Selection, Session, attention_kinds, choose_attention, current_session
from viz.ui.plots import array, caption

if TYPE_CHECKING:
    from model.capture.trace import Trace
    from viz.state.inputs import Inputs

NAMES = ("q", "a", "b")
Places = tuple[tuple[float, float], ...]
# A counter-example: b has the larger dot product with q, a the larger cosine.
COUNTER: Places = ((3.0, 0.5), (1.5, -0.5), (1.5, 3.0))
FARTHEST = 50.0


class Part(StrEnum):
    """Names in the session state; VECTORS is a parameter of the address bar too."""

    VECTORS = "vectors"
    PLANE = "similarity_plane"
    RESTORE = "similarity_restore"
    HEADS = "similarity_heads"
    QUERIES = "similarity_queries"
    SCATTER = "similarity_scatter"
    FOUND = "similarity_found"


def experiment(model: TextModel) -> Instrument:
    """Larger dot products beside more similar vectors: in the plane, and in the loaded model."""
    return Instrument(
        key="similarity",
        claim=_("A larger dot product means more similar vectors."),
        truth=_("That is sure only between vectors of equal length: q · k = ‖q‖ ‖k‖ cos(q, k)."),
        parts=[in_plane, partial(in_model, model)],
        plain=_(
            "A dot product is large when two vectors point the same way, but also when one of them is long. Here you "
            "see how often the two ways of measuring agree."
        ),
        formulas=[
            r"q \cdot k = \|q\|\,\|k\|\cos(q, k)",
            r"\rho = \mathrm{corr}(\mathrm{rank}(q \cdot k_j),\ \mathrm{rank}(\cos(q, k_j)))",
        ],
        explanation=_(
            "A query is compared with each key by a dot product. That grows when the key points the query's way, and "
            "also when the key is merely long. "
            "Attention scores are dot products (Vaswani et al., section 3.2.1): of keys of equal length, the one that "
            "points most along the query has the largest; a long key can have a larger one without pointing there. In "
            "the model, the keys that each query may look at are ranked by q · k and by the cosine; ρ is Spearman's "
            "rank correlation. What positions add to the scores is left out. This is the code that has just run:"
        ),
        code=(plane, dots, cosines, ranks, spearman, agreement),
    )


# Explanations behind the "?" of each figure.

PRODUCT = r"q \cdot k = \|q\|\,\|k\|\cos(q, k)"
SPEARMAN = r"\rho = \mathrm{corr}(\mathrm{rank}(q \cdot k_j),\ \mathrm{rank}(\cos(q, k_j)))"
ABOUT_PLANE = About(
    Message("A query and two keys: a key's dot product is its shadow on the query times the query's length."),
    [PRODUCT],
    [plane],
    meaning=Message("So a long key may win though another points more nearly the same way."),
)
ABOUT_AGREEMENT = About(
    Message("Each cell is a head: how often both prefer the same key, and how alike they rank all keys, on average."),
    [r"\arg\max_j\, q \cdot k_j = \arg\max_j\, \cos(q, k_j)", SPEARMAN],
    [agreement, spearman],
    meaning=Message("Where both are 1, dividing by the lengths would change nothing."),
)
ABOUT_QUERIES = About(
    Message("Each dot is a query of this head: whether dot product and cosine rank its keys alike; 1 is wholly."),
    [SPEARMAN],
    [spearman],
    meaning=Message("At a low one the lengths of the keys decide."),
)
ABOUT_KEYS = About(
    Message("Each dot is a key of this query: its cosine across, its dot product up; alike ranked, they rise."),
    [PRODUCT],
    [rank_keys],
    meaning=Message("One beside the rise is a key that its length lifts, or holds down."),
)


# In the plane.


def in_plane() -> Live:
    title_row("plane", _("In the plane")).button(_("Back to the counter-example"), key=Part.RESTORE, on_click=restore)
    return Live(plane_findings, numbers=False)


def plane_findings() -> Findings:
    places = typed_vectors()
    return Findings([plane_verdict(places)], [[view(Part.PLANE, vectors(places), move=on_move)], [plane_table(places)]])


def typed_vectors() -> Places:
    """Vectors of this session, else of the address, else the counter-example."""
    session = current_session()
    if Part.VECTORS not in session.memory:
        session.memory[Part.VECTORS] = read((session.address.get(Part.VECTORS) or "").split(",")) or COUNTER
    places: Places = session.memory[Part.VECTORS]
    return places


def read(numbers: Sequence[object]) -> Places | None:
    """Three pairs of numbers; None if they are not."""
    try:
        values = [float(str(each)) for each in numbers]
    except ValueError:
        return None
    if len(values) != 6 or not all(math.isfinite(each) and abs(each) <= FARTHEST for each in values):
        return None
    return ((values[0], values[1]), (values[2], values[3]), (values[4], values[5]))


def keep(places: Places) -> None:
    session = current_session()
    session.memory[Part.VECTORS] = places
    written = ",".join(f"{number:g}" for place in places for number in place)
    session.address.set(Part.VECTORS, None if places == COUNTER else written)


@live
def on_move(clicked: dict[str, Any]) -> None:
    """A vector was dragged."""
    if places := read(clicked["places"]):
        keep(places)


def restore() -> None:
    keep(COUNTER)


def vectors(places: Places) -> Vectors:
    """The query and two keys in the plane."""
    sentence = Message("q is the query, a and b are keys; dotted: each key's shadow on q")
    above = Caption(Message("Drag a tip"), "vectors", str(places), sentence=sentence, about=ABOUT_PLANE)
    named, drag = dict(zip(NAMES, places, strict=True)), {"drag": Message("drag, or move with the arrow keys")}
    return Vectors(above, named, (QUERY, KEY, FIRST), tall=340, words=drag)


def plane_verdict(places: Places) -> str:
    """Sentence on two keys: the larger dot product has the larger cosine too, or not."""
    dot, norm, cosine = plane(places)
    if bool(cosine.isnan().any()):
        return _("A vector of length 0 has no direction and so no cosine: move it.")
    by_dot, by_cosine = int(dot.argmax()), int(cosine.argmax())
    equal = float((dot[0] - dot[1]).abs()) < 1e-9, float((cosine[0] - cosine[1]).abs()) < 1e-9
    if any(equal):
        return (
            _("Both keys have the same dot product and the same cosine: neither is preferred.")
            if all(equal)
            else _("The two keys have the same dot product, but not the same cosine: the claim cannot tell them apart.")
            if equal[0]
            else _("The two keys have the same cosine: only their lengths make their dot products differ.")
        )
    if by_dot == by_cosine:
        sentence = _("Here the claim holds: {name} has the larger dot product and the larger cosine.")
        return sentence.format(name=NAMES[1 + by_dot])
    sentence = _(
        "Here the claim fails: {one} has the larger dot product, {other} the larger cosine. "
        "{one} wins by its length, {long} against {short}."
    )
    one, other = 1 + by_dot, 1 + by_cosine
    return sentence.format(
        one=NAMES[one], other=NAMES[other], long=significant(float(norm[one])), short=significant(float(norm[other]))
    )


def plane_table(places: Places) -> pd.DataFrame:
    """A row for each key."""
    dot, norm, cosine = plane(places)
    angle = torch.rad2deg(cosine.clamp(-1, 1).arccos())
    return pd.DataFrame(
        {
            _("key"): NAMES[1:],
            "q · k": dot.tolist(),
            "‖q‖": float(norm[0]),
            "‖k‖": norm[1:].tolist(),
            "cos(q, k)": cosine.tolist(),
            _("angle, °"): angle.tolist(),
        }
    )


# In the loaded model.


def in_model(model: TextModel) -> Live:
    kind = choose_attention(attention_kinds(model.network), title_row("loaded", _("In the loaded model")))
    return Live(partial(model_findings, kind))


def model_findings(kind: AttentionKind) -> Findings:
    """Findings on the loaded model, and the keys of the chosen query.

    Raises:
        MissingQuantityError: the model does not show its queries and keys.
    """
    session = current_session()
    inputs = session.inputs
    trace = inputs.trace
    maps = Maps(trace, kind)
    own = session.cached(Part.FOUND, (trace, kind), lambda: agreement(maps))
    chosen = session.fit_selection(maps.layers, maps.heads, maps.queries)
    side = sides(trace, kind)[0]
    query = tokens(trace, side)[chosen.query]
    ranked = rank(trace, kind, chosen)
    other, pinned = of_pinned(session, kind, chosen, side)
    values: dict[str, Tensor] = {
        Message("same best key"): own.same_best.nanmean(dim=-1),
        Message("rank correlation"): own.correlation.nanmean(dim=-1),
    }
    title, place = Message("How far dot product and cosine agree"), (chosen.layer, chosen.head)
    heads = head_panels(inputs, values, title, Message("share"), 1.0, place, Part.HEADS, ABOUT_AGREEMENT)
    rows = [
        [view(Part.HEADS, heads, cell=choose_head)],
        [view(Part.QUERIES, query_chart(inputs, own, other, side, chosen), place=on_query)],
        [view(Part.SCATTER, scatter(inputs, ranked, pinned, query))],
    ]
    verdicts = [model_verdict(own, other), query_verdict(ranked, query)]
    return Findings(verdicts, rows, partial(ranked_table, ranked), "dot-product-cosine")


def of_pinned(
    session: Session, kind: AttentionKind, chosen: Selection, side: str
) -> tuple[Agreement | None, Ranked | None]:
    """Agreement and ranked keys of the pinned trace, as far as it has such an attention, head and query."""
    if session.pin is None or session.comparison is None:
        return None, None
    pin, trace = session.pin, session.pin.trace
    if not trace.attention_paths(kind):
        return None, None
    other, _lacking = unless_absent(
        lambda: cached_for_pin(pin, "agreement", (kind,), lambda: agreement(Maps(trace, kind)))
    )
    alignment = session.comparison.source if side == "source" else session.comparison.target
    query = alignment.places[chosen.query]
    heads = () if other is None else other.same_best.shape[:2]
    if query < 0 or not heads or chosen.layer >= heads[0] or chosen.head >= heads[1]:
        return other, None
    return other, rank(trace, kind, replace(chosen, query=query))


@live
def on_query(clicked: dict[str, Any]) -> None:
    own: Agreement = current_session().memory[Part.FOUND][1]
    index = int(clicked["index"])
    current_session().select(query=int(own.queries[index]))


@dataclass(frozen=True)
class Ranked:
    """The keys of one query, and the token of each."""

    keys: RankedKeys
    labels: list[str]


def rank(trace: Trace, kind: AttentionKind, chosen: Selection) -> Ranked:
    keys = rank_keys(Maps(trace, kind), chosen.layer, chosen.head, chosen.query)
    key_tokens = tokens(trace, sides(trace, kind)[1])
    return Ranked(keys, [key_tokens[place] for place in keys.places])


def scatter(inputs: Inputs, ranked: Ranked, pinned: Ranked | None, query: str) -> Chart:
    """Each key at its cosine and its dot product."""
    series = [dots_of(Message("keys"), ranked, KEY)]
    if pinned is not None:
        series.append(dots_of(Message("pinned"), pinned, PINNED))
    rho = ranked.keys.correlation
    note = "" if np.isnan(rho) else Message("rank correlation {rho}", rho=significant(rho))
    name = Message("Keys of {token}", token=token_sign(query))
    above = caption(inputs, name, "dot-product-cosine", note, about=ABOUT_KEYS)
    x, y = Axis(Message("cosine of query and key")), Axis("q · k")
    return Chart(above, series, x, y, tall=230, of=Message("key"))


def dots_of(name: str, ranked: Ranked, colour: str) -> Series:
    return Series(name, array(ranked.keys.cosine), array(ranked.keys.dot), colour, "dots", labels=ranked.labels)


def query_chart(inputs: Inputs, own: Agreement, other: Agreement | None, side: str, chosen: Selection) -> Chart:
    """The rank correlation of each query of the chosen head."""
    places, head = own.queries.numpy(), (chosen.layer, chosen.head)
    series = [Series(Message("now"), places, array(own.correlation[head]), PLAIN, "dots")]
    if other is not None and other.correlation.shape == own.correlation.shape:
        series.append(Series(Message("pinned"), places, array(other.correlation[head]), PINNED, "dots"))
    name = Message("Each query of head {layer}.{head}", layer=chosen.layer + 1, head=chosen.head + 1)
    above = caption(inputs, name, "rank-correlation", sentence=Message("press one to choose it"), about=ABOUT_QUERIES)
    x, y = Axis(Message("query"), tokens(inputs.trace, side), side), Axis(Message("rank correlation"), high=1.04)
    return Chart(above, series, x, y, tall=150, chosen=chosen.query)


def model_verdict(own: Agreement, other: Agreement | None) -> str:
    """Share of queries whose best key is the same, over all heads."""
    usable = int((~own.same_best.isnan()).sum())
    if not usable:
        return _("No query of this text sees two keys: there is nothing to rank.")
    sentence = _(
        "In this model, over {count} queries of all heads: the key with the largest dot product is also the one with "
        "the largest cosine in {share}; mean rank correlation {rho}. {verdict}"
    )
    text = sentence.format(
        count=f"{usable:,}",
        share=percent(own.share),
        rho=significant(mean(own.correlation)),
        verdict=_("On this text the two never choose differently.")
        if own.share == 1.0
        else _("So the dot product often stands for similarity, and not always: the lengths of the keys count.")
        if own.share >= 0.5
        else _("So the lengths of the keys decide more often than their directions."),
    )
    if other is not None and bool((~other.same_best.isnan()).any()):
        pinned = _("In the pinned trace: {share}, {rho}.")
        text = in_turn(text, pinned.format(share=percent(other.share), rho=significant(mean(other.correlation))))
    return text


def query_verdict(ranked: Ranked, query: str) -> str:
    """The key that each of the two prefers."""
    if len(ranked.labels) < 2:
        return _("The query {query} sees fewer than two keys.").format(query=f"“{token_sign(query)}”")
    by_dot, by_cosine = (int(values.argmax()) for values in (ranked.keys.dot, ranked.keys.cosine.nan_to_num(-2)))
    words = [token_sign(label) for label in ranked.labels]
    sentence = (
        _("The query {query}: by dot product and by cosine the best key is {one}.")
        if by_dot == by_cosine
        else _("The query {query}: by dot product the best key is {one}, by cosine {other}.")
    )
    return sentence.format(query=f"“{token_sign(query)}”", one=marked(words, by_dot), other=marked(words, by_cosine))


def ranked_table(ranked: Ranked) -> pd.DataFrame:
    """A row for each key, by dot product."""
    keys = ranked.keys
    columns = {
        _("key"): ranked.labels,
        _("place"): keys.places,
        "q · k": keys.dot.tolist(),
        _("cosine of query and key"): keys.cosine.tolist(),
    }
    return pd.DataFrame(columns).sort_values("q · k", ascending=False, kind="stable", ignore_index=True)
