"""Tokens beside each other: the nearest of the vocabulary, and a plane on which the text's lie."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import streamlit as st
import torch
from torch import Tensor

from model.analysis.embeddings import nearest, principal_plane
from model.text.tokenizer import Tokenizer, Tokens
from viz.components.plots import Mount, Series, chart
from viz.i18n.catalogue import _
from viz.i18n.format import significant
from viz.sections.embeddings import Chosen, quantity_name
from viz.state.workbench import Workbench, workbench
from viz.ui.parts import plot_words, stamp
from viz.ui.plots import PINNED, missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEAREST = 12
OWN, OTHER, QUERY = "#0072b2", "#8a949e", "#d55e00"
PLANE = "plane_view"


def tokenizer_of(chosen: Chosen) -> Tokenizer:
    return chosen.lens.source_tokenizer if chosen.side == "source" else chosen.lens.target_tokenizer


def pack_nearest(bench: Workbench, chosen: Chosen, given: Tokens, query: int) -> Mount:
    """The tokens of the vocabulary whose embeddings have the largest cosine with the chosen token's."""
    ids, cosines = nearest(chosen.matrix, given.ids[query], NEAREST)
    labels = [tokenizer_of(chosen).label(token) for token in ids.tolist()]
    places = np.arange(len(labels))
    series = [Series(_("cosine"), places, cosines.cpu().numpy(), OWN, mark="bars")]
    before, lacking = _pinned_cosines(bench, chosen, given.ids[query], ids, places)
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
    bench: Workbench, chosen: Chosen, token: int, ids: Tensor, places: NDArray[np.int64]
) -> tuple[list[Series], str]:
    """The cosines of the same tokens in the pinned model's embedding; or a sentence where its vocabulary is another."""
    if bench.pin is None:
        return [], ""
    other = dict(bench.pin.trace.model.named_parameters()).get(f"{chosen.stack}.embedding.tokens.weight")
    if not bench.pin.same_words(chosen.lens, chosen.side) or other is None or len(other) != len(chosen.matrix):
        return [], _("the pinned model has another vocabulary here: nothing to compare with")
    rows = other.detach().float()
    cosines = torch.nn.functional.cosine_similarity(rows[ids], rows[token], dim=-1)
    return [Series(f"{_('cosine')} · {_('pinned')}", places, cosines.cpu().numpy(), PINNED, mark="dots")], ""


def pack_plane(bench: Workbench, chosen: Chosen, given: Tokens, query: int) -> Mount:
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
    other = bench.comparison.counterpart(chosen.name) if bench.comparison else None
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
        "sentence": " · ".join(filter(None, [quantity_name(chosen.quantity), explained, missing(bench, other)])),
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
        workbench().select(query=int(place["index"]))
