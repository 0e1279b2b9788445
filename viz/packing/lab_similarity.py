"""Dot product against cosine: vectors in the plane, and the keys of a head of the loaded model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from model.analysis.attention_maps import Maps
from model.experiments.similarity import RankedKeys, plane, rank_keys
from viz.components.arithmetic_views import vectors
from viz.components.plots import Series, chart
from viz.i18n.catalogue import _
from viz.i18n.format import sides, significant, token_sign, tokens
from viz.packing.lab_head_panels import marked, mean
from viz.packing.lab_plots import percent
from viz.ui.parts import plot_words, stamp
from viz.ui.plots import PINNED, array

if TYPE_CHECKING:
    from model.capture.trace import AttentionKind, Trace
    from model.experiments.similarity import Agreement
    from viz.components.plots import Mount
    from viz.state.workbench import Selection

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
