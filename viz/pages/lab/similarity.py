"""Dot product against cosine: vectors in the plane, and the keys of a head of the loaded model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import streamlit as st
import torch

from model.analysis.attention_maps import Maps
from model.capture.trace import AttentionKind
from model.experiments.similarity import (
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
from viz.components.old_plots import chart
from viz.components.plots import Mount, Series
from viz.i18n.catalogue import _
from viz.i18n.errors import unless_absent
from viz.i18n.format import sides, significant, token_sign, tokens
from viz.pages.lab.components import vectors
from viz.pages.lab.experiment import percent, show_claim
from viz.pages.lab.head_choice import choose_head, choose_kind, head_panels, heading, marked, mean
from viz.state.cache import cached
from viz.state.pin import cached_for_pin
from viz.state.session import Selection, Session, current_session
from viz.ui.parts import Views, data_table, expander, explanation, mount, plot_words, stamp
from viz.ui.plots import PINNED, array

if TYPE_CHECKING:
    from model.capture.trace import Trace

NAMES = ("q", "a", "b")
COLOURS = ("#0072b2", "#d55e00", "#e69f00")
Places = tuple[tuple[float, float], ...]


def pack_vectors(places: Places, key: str, on_move: Callable[[], None]) -> Mount:
    """The query and two keys in the plane."""
    described = [
        {"name": name, "place": list(place), "colour": colour}
        for name, place, colour in zip(NAMES, places, COLOURS, strict=True)
    ]
    header: dict[str, Any] = {
        "vectors": described,
        "tall": 340,
        "name": _("Drag a tip"),
        "sentence": _("q is the query, a and b are keys; dotted: each key's shadow on q"),
        "alt": "; ".join(f"{name} = ({x:g}, {y:g})" for name, (x, y) in zip(NAMES, places, strict=True)),
        "file": "vectors",
        "stamp": str(places),
        "words": plot_words(_("vector"), "x", "y") | {"drag": _("drag, or move with the arrow keys")},
    }
    return vectors(header, key, on_move)


def plane_verdict(places: Places) -> str:
    """Whether the key with the larger dot product is the one with the larger cosine too."""
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


def plane_rows(places: Places) -> dict[str, list[str] | list[float]]:
    """A row for each key."""
    dot, norm, cosine = plane(places)
    angle = torch.rad2deg(cosine.clamp(-1, 1).arccos())
    return {
        _("key"): list(NAMES[1:]),
        "q · k": dot.tolist(),
        "‖q‖": [float(norm[0])] * len(dot),
        "‖k‖": norm[1:].tolist(),
        "cos(q, k)": cosine.tolist(),
        _("angle, °"): angle.tolist(),
    }


@dataclass(frozen=True)
class Ranked:
    """The keys of one query, and the token of each."""

    keys: RankedKeys
    labels: list[str]


def rank(trace: Trace, kind: AttentionKind, chosen: Selection) -> Ranked:
    keys = rank_keys(Maps(trace, kind), chosen.layer, chosen.head, chosen.query)
    asked = tokens(trace, sides(trace, kind)[1])
    return Ranked(keys, [asked[place] for place in keys.places])


def pack_scatter(trace: Trace, ranked: Ranked, pinned: Ranked | None, query: str, key: str) -> Mount:
    """Each key at its cosine and its dot product."""
    series = [
        Series(_("keys"), array(ranked.keys.cosine), array(ranked.keys.dot), COLOURS[1], "dots", labels=ranked.labels)
    ]
    if pinned is not None:
        series.append(
            Series(_("pinned"), array(pinned.keys.cosine), array(pinned.keys.dot), PINNED, "dots", labels=pinned.labels)
        )
    rho = ranked.keys.correlation
    note = "" if np.isnan(rho) else _("rank correlation {rho}").format(rho=significant(rho))
    header = {
        "x": {"title": _("cosine of query and key")},
        "y": {"title": "q · k"},
        "tall": 230,
        "name": _("Keys of {token}").format(token=token_sign(query)),
        "note": note,
        "alt": _("Dot product over cosine of each key. {note}").format(note=note),
        "file": "dot-product-cosine",
        "stamp": stamp(trace),
        "words": plot_words(_("key"), _("cosine of query and key"), "q · k"),
    }
    return chart(series, header, key)


def pack_queries(
    trace: Trace,
    found: Agreement,
    other: Agreement | None,
    labels: Sequence[str],
    side: str,
    chosen: Selection,
    key: str,
    on_place: Callable[[], None],
) -> Mount:
    """The rank correlation of each query of the chosen head; a click chooses a query."""
    places = found.queries.numpy()
    series = [Series(_("now"), places, array(found.correlation[chosen.layer, chosen.head]), COLOURS[0], "dots")]
    if other is not None and other.correlation.shape == found.correlation.shape:
        series.append(Series(_("pinned"), places, array(other.correlation[chosen.layer, chosen.head]), PINNED, "dots"))
    header = {
        "x": {"title": _("query"), "labels": list(labels), "side": side},
        "y": {"title": _("rank correlation"), "high": 1.04},
        "tall": 150,
        "chosen": chosen.query,
        "name": _("Each query of head {layer}.{head}").format(layer=chosen.layer + 1, head=chosen.head + 1),
        "sentence": _("a click chooses one"),
        "alt": _("Spearman's rank correlation of dot products and cosines, for each query"),
        "file": "rank-correlation",
        "stamp": stamp(trace),
        "words": plot_words(_("series"), _("query"), _("rank correlation")),
    }
    return chart(series, header, key, on_place)


def model_verdict(found: Agreement, other: Agreement | None) -> str:
    """How often the best key is the same, over all heads and queries."""
    usable = int((~found.same_best.isnan()).sum())
    if not usable:
        return _("No query of this text sees two keys: there is nothing to rank.")
    sentence = _(
        "In this model, over {count} queries of all heads: the key with the largest dot product is also the one with "
        "the largest cosine in {share}; mean rank correlation {rho}. {verdict}"
    )
    said = sentence.format(
        count=f"{usable:,}",
        share=percent(found.share),
        rho=significant(mean(found.correlation)),
        verdict=_("On this text the two never choose differently.")
        if found.share == 1.0
        else _("So the dot product often stands for similarity, and not always: the lengths of the keys count.")
        if found.share >= 0.5
        else _("So the lengths of the keys decide more often than their directions."),
    )
    if other is not None and bool((~other.same_best.isnan()).any()):
        pinned = _("In the pinned trace: {share}, {rho}.")
        said += " " + pinned.format(share=percent(other.share), rho=significant(mean(other.correlation)))
    return said


def query_verdict(ranked: Ranked, query: str) -> str:
    """Which key each of the two prefers."""
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


def ranked_rows(ranked: Ranked) -> dict[str, Any]:
    """A row for each key, by dot product."""
    order = np.argsort(-array(ranked.keys.dot), kind="stable")
    return {
        _("key"): [ranked.labels[place] for place in order],
        _("place"): [ranked.keys.places[place] for place in order],
        "q · k": [float(ranked.keys.dot[place]) for place in order],
        _("cosine of query and key"): [float(ranked.keys.cosine[place]) for place in order],
    }


# Whether a larger dot product means more similar vectors: in the plane, and in the loaded model.

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
    EXPLANATION = "similarity_explanation"
    DATA = "similarity_data"


def section(model: TextModel) -> Views:
    show_claim(
        _("A larger dot product means more similar vectors."),
        _("That is sure only between vectors of equal length: q · k = ‖q‖ ‖k‖ cos(q, k)."),
    )
    left, right = st.columns(2, gap="large")
    with left:
        heading(_("In the plane")).button(_("Back to the counter-example"), key=Part.RESTORE, on_click=restore)
        verdict, figure, numbers = st.container(), st.container(), st.container()
        explain()
        data = expander(Part.DATA, _("Data"))
    with right:
        kind = choose_kind(model, heading(_("In the loaded model")))
        said, heads, queries, scatter = (st.container() for _number in range(4))

    def views(_model: TextModel) -> Iterator[None]:
        session, places = current_session(), typed_vectors()
        rows = plane_rows(places)
        parts = [(figure, pack_vectors(places, Part.PLANE, on_move))]
        found, lacking = unless_absent(lambda: of_model(session, kind))
        ranked = None
        if found is not None:
            sentences, ranked, mounts = found
            parts += zip((heads, queries, scatter), mounts, strict=False)
        yield
        verdict.text(plane_verdict(places))
        mount(parts)
        numbers.dataframe(
            pd.DataFrame(rows),
            hide_index=True,
            column_config={name: st.column_config.NumberColumn(format="%.3g") for name in list(rows)[1:]},
        )
        with said:
            if found is None:
                st.info(lacking)
            else:
                st.text("\n".join(sentences))
        if ranked is not None:
            table = ranked
            data_table(Part.DATA, lambda: pd.DataFrame(ranked_rows(table)), "dot-product-cosine", place=data)

    return views


def of_model(session: Session, kind: AttentionKind) -> tuple[list[str], Ranked, list[Mount]]:
    """What is said of the loaded model, the keys of the chosen query, and the figures.

    Raises:
        AbsentError: the model does not show its queries and keys.
    """
    trace = session.trace
    maps = Maps(trace, kind)
    found = cached(Part.FOUND, (trace, kind), lambda: agreement(maps))
    chosen = session.fit_selection(maps.layers, maps.heads, maps.queries)
    side = sides(trace, kind)[0]
    labels = tokens(trace, side)
    ranked = rank(trace, kind, chosen)
    other, pinned = of_pinned(session, kind, chosen, side)
    values = {
        _("same best key"): found.same_best.nanmean(dim=-1),
        _("rank correlation"): found.correlation.nanmean(dim=-1),
    }
    place = chosen.layer, chosen.head
    title = _("How far dot product and cosine agree")
    mounts = [
        head_panels(trace, values, title, _("share"), 1.0, place, Part.HEADS, partial(choose_head, Part.HEADS)),
        pack_queries(trace, found, other, labels, side, chosen, Part.QUERIES, on_query),
        pack_scatter(trace, ranked, pinned, labels[chosen.query], Part.SCATTER),
    ]
    said = [model_verdict(found, other), query_verdict(ranked, labels[chosen.query])]
    return said, ranked, mounts


def of_pinned(
    session: Session, kind: AttentionKind, chosen: Selection, side: str
) -> tuple[Agreement | None, Ranked | None]:
    """The same of the pinned trace, as far as it has such an attention, head and query."""
    if session.pin is None or session.comparison is None:
        return None, None
    pin, trace = session.pin, session.pin.trace
    if not trace.attention_paths(kind):
        return None, None
    found, _lacking = unless_absent(
        lambda: cached_for_pin(pin, "agreement", (kind,), lambda: agreement(Maps(trace, kind)))
    )
    alignment = session.comparison.source if side == "source" else session.comparison.target
    query = alignment.places[chosen.query]
    if found is None or query < 0 or chosen.layer >= len(found.same_best) or chosen.head >= found.same_best.shape[1]:
        return found, None
    return found, rank(trace, kind, replace(chosen, query=query))


def typed_vectors() -> Places:
    """Of this session, else of the address, else the counter-example."""
    if Part.VECTORS not in st.session_state:
        st.session_state[Part.VECTORS] = read(st.query_params.get(Part.VECTORS, "").split(",")) or COUNTER
    places: Places = st.session_state[Part.VECTORS]
    return places


def read(numbers: Sequence[object]) -> Places | None:
    """Three pairs of numbers; None if they are not."""
    try:
        found = [float(str(each)) for each in numbers]
    except ValueError:
        return None
    if len(found) != 6 or not all(math.isfinite(each) and abs(each) <= FARTHEST for each in found):
        return None
    return ((found[0], found[1]), (found[2], found[3]), (found[4], found[5]))


def keep(places: Places) -> None:
    st.session_state[Part.VECTORS] = places
    written = ",".join(f"{number:g}" for place in places for number in place)
    current_session().say(Part.VECTORS, None if places == COUNTER else written)


def on_move() -> None:
    """A vector was dragged."""
    if places := read(st.session_state[Part.PLANE].move["places"]):
        keep(places)


def restore() -> None:
    keep(COUNTER)


def on_query() -> None:
    found: Agreement = st.session_state[Part.FOUND][1]
    index = int(st.session_state[Part.QUERIES].place["index"])
    current_session().select(query=int(found.queries[index]))


def explain() -> None:
    explanation(
        Part.EXPLANATION,
        [
            r"q \cdot k = \|q\|\,\|k\|\cos(q, k)",
            r"\rho = \mathrm{corr}(\mathrm{rank}(q \cdot k_j),\ \mathrm{rank}(\cos(q, k_j)))",
        ],
        _(
            "Attention scores are dot products (Vaswani et al., section 3.2.1): of keys of equal length, the one that "
            "points most along the query has the largest; a long key can have a larger one without pointing there. In "
            "the model, the keys that each query may look at are ranked by q · k and by the cosine; ρ is Spearman's "
            "rank correlation. What positions add to the scores is left out. This is the code that has just run:"
        ),
        *(plane, dots, cosines, ranks, spearman, agreement),
    )
