"""Tokens as the model gets them: ids, embeddings, lengths, nearest tokens, a plane they lie on."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis.embeddings import nearest, principal_plane
from model.inference.model import Inspectable
from model.text.tokenizer import Tokens
from viz.i18n.catalogue import _
from viz.sections.embeddings import (
    WIDE,
    Chosen,
    lengths,
    norm_name,
    pack_norms,
    pack_table,
    pinned_norms,
    quantity_name,
    stack_of,
)
from viz.sections.neighbours import pack_nearest, pack_plane
from viz.state.workbench import Workbench, choose, workbench
from viz.ui.parts import Views, classes, data_table, explanation, folded, mount

QUANTITIES = ("tokens", "positions", "output")
ADDS_NONE = ("rotary", "alibi", "relative", "none")  # positions that the sum does not hold


def section(lens: Inspectable, row: DeltaGenerator) -> Views:
    """Controls; then all that the trace holds of the tokens is packed; then mounted."""
    side = "source"
    if lens.kind == "encoder-decoder":
        side = choose(_("Side"), ("source", "target"), side, "side", side_choice, row)
    added = [name for name in QUANTITIES if name != "positions" or lens.config.position not in ADDS_NONE]
    quantity = choose(_("Quantity"), added, added[0], "vectors", quantity_name, row)
    wide = lens.config.d_model > WIDE
    binned = not wide or choose(_("Channels"), ("means", "first"), "means", "channels", channels_choice, row) == "means"
    around = choose(_("Plane"), ("text", "near"), "near", "plane", plane_choice, row) == "near"
    left, right = st.columns([11, 9], gap="medium")
    with left:
        table, norms = st.container(), st.container()
    with right:
        near, plane = st.container(), st.container()
        explain(lens, side)
        data = folded("tokens_data", _("Data"))

    def views(lens: Inspectable) -> Iterator[None]:
        bench = workbench()
        assert bench.trace is not None
        assert bench.source is not None
        chosen = Chosen(lens, bench.trace, side, quantity, binned, around)
        given = bench.source if side == "source" else bench.target
        assert given is not None
        bench.selection.side = side
        query = min(bench.selection.query, len(given) - 1)
        parts = [
            (table, pack_table(bench, chosen, given, query)),
            (norms, pack_norms(bench, chosen, given, query)),
            (near, pack_nearest(bench, chosen, given, query)),
            (plane, pack_plane(bench, chosen, given, query)),
        ]
        yield
        mount(parts)
        data_table("tokens_data", lambda: norms_table(bench, chosen, given), f"tokens-{side}", place=data, parts=parts)

    return views


def explain(lens: Inspectable, side: str) -> None:
    config = lens.config
    scaled = r"\sqrt{d_{\mathrm{model}}}\," if config.scale_embedding else ""
    added = "" if config.position in ADDS_NONE else " + PE_p"
    embedding = lens.model.get_submodule(f"{stack_of(lens, side)}.embedding")
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


def norms_table(bench: Workbench, chosen: Chosen, given: Tokens) -> pd.DataFrame:
    columns = {norm_name(name): norms.tolist() for name, norms in lengths(chosen, given).items()}
    if (before := pinned_norms(bench, chosen)) is not None:
        columns[f"{norm_name('sum')} · {_('pinned')}"] = before.tolist()
    return pd.DataFrame({_("token"): given.labels, "id": given.ids, **columns})


def side_choice(name: str) -> str:
    return {"source": _("Source"), "target": _("Target")}[name]


def channels_choice(name: str) -> str:
    return {"means": _("all channels, in groups"), "first": _("first channels")}[name]


def plane_choice(name: str) -> str:
    return {"near": _("+ nearest"), "text": _("text alone")}[name]
