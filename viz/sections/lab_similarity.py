"""Whether a larger dot product means more similar vectors: in the plane, and in the loaded model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial

import pandas as pd
import streamlit as st

from model.analysis.attention_maps import Maps
from model.capture.trace import AttentionKind
from model.experiments.similarity import Agreement, agreement, cosines, dots, plane, ranks, spearman
from model.inference.model import Inspectable
from viz.components.plots import Mount
from viz.i18n.catalogue import _
from viz.i18n.errors import unless_absent
from viz.i18n.format import sides, tokens
from viz.packing import lab_similarity as packing
from viz.packing.lab_head_panels import head_panels
from viz.packing.lab_similarity import Places
from viz.sections.lab_claim import show_claim
from viz.sections.lab_selection import choose_head, choose_kind, heading
from viz.state.cache import of_pin, remembered
from viz.state.workbench import Selection, Workbench, workbench
from viz.ui.parts import Views, data_table, explanation, folded, mount

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


def section(lens: Inspectable) -> Views:
    show_claim(
        _("A larger dot product means more similar vectors."),
        _("That is sure only between vectors of equal length: q · k = ‖q‖ ‖k‖ cos(q, k)."),
    )
    left, right = st.columns(2, gap="large")
    with left:
        heading(_("In the plane")).button(_("Back to the counter-example"), key=Part.RESTORE, on_click=restore)
        verdict, figure, numbers = st.container(), st.container(), st.container()
        explain()
        data = folded(Part.DATA, _("Data"))
    with right:
        kind = choose_kind(lens, heading(_("In the loaded model")))
        said, heads, queries, scatter = (st.container() for _number in range(4))

    def views(_lens: Inspectable) -> Iterator[None]:
        bench, places = workbench(), typed_vectors()
        rows = packing.plane_rows(places)
        parts = [(figure, packing.pack_vectors(places, Part.PLANE, on_move))]
        found, lacking = unless_absent(lambda: of_model(bench, kind))
        ranked = None
        if found is not None:
            sentences, ranked, mounts = found
            parts += zip((heads, queries, scatter), mounts, strict=False)
        yield
        verdict.text(packing.plane_verdict(places))
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
            data_table(Part.DATA, lambda: pd.DataFrame(packing.ranked_rows(table)), "dot-product-cosine", place=data)

    return views


def of_model(bench: Workbench, kind: AttentionKind) -> tuple[list[str], packing.Ranked, list[Mount]]:
    """What is said of the loaded model, the keys of the chosen query, and the figures.

    Raises:
        AbsentError: the model does not show its queries and keys.
    """
    trace = bench.trace
    assert trace is not None
    maps = Maps(trace, kind)
    found = remembered(Part.FOUND, (trace, kind), lambda: agreement(maps))
    chosen = bench.fit_selection(maps.layers, maps.heads, maps.queries)
    side = sides(trace, kind)[0]
    labels = tokens(trace, side)
    ranked = packing.rank(trace, kind, chosen)
    other, pinned = of_pinned(bench, kind, chosen, side)
    values = {
        _("same best key"): found.same_best.nanmean(dim=-1),
        _("rank correlation"): found.correlation.nanmean(dim=-1),
    }
    place = chosen.layer, chosen.head
    title = _("How far dot product and cosine agree")
    mounts = [
        head_panels(trace, values, title, _("share"), 1.0, place, Part.HEADS, partial(choose_head, Part.HEADS)),
        packing.pack_queries(trace, found, other, labels, side, chosen, Part.QUERIES, on_query),
        packing.pack_scatter(trace, ranked, pinned, labels[chosen.query], Part.SCATTER),
    ]
    said = [packing.model_verdict(found, other), packing.query_verdict(ranked, labels[chosen.query])]
    return said, ranked, mounts


def of_pinned(
    bench: Workbench, kind: AttentionKind, chosen: Selection, side: str
) -> tuple[Agreement | None, packing.Ranked | None]:
    """The same of the pinned trace, as far as it has such an attention, head and query."""
    if bench.pin is None or bench.comparison is None:
        return None, None
    pin, trace = bench.pin, bench.pin.trace
    if not trace.attention_paths(kind):
        return None, None
    found, _lacking = unless_absent(lambda: of_pin(pin, "agreement", (kind,), lambda: agreement(Maps(trace, kind))))
    alignment = bench.comparison.source if side == "source" else bench.comparison.target
    query = alignment.places[chosen.query]
    if found is None or query < 0 or chosen.layer >= len(found.same_best) or chosen.head >= found.same_best.shape[1]:
        return found, None
    return found, packing.rank(trace, kind, replace(chosen, query=query))


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
    workbench().say(Part.VECTORS, None if places == COUNTER else written)


def on_move() -> None:
    """A vector was dragged."""
    if places := read(st.session_state[Part.PLANE].move["places"]):
        keep(places)


def restore() -> None:
    keep(COUNTER)


def on_query() -> None:
    found: Agreement = st.session_state[Part.FOUND][1]
    index = int(st.session_state[Part.QUERIES].place["index"])
    workbench().select(query=int(found.queries[index]))


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
