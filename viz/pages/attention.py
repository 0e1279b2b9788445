"""Attention: every head of one kind, one head large, one query step by step."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import cast

import numpy as np
import pandas as pd
import streamlit as st

from model.analysis.heads import entropy
from model.attention import Masked, MultiHeadAttention, Scaled, Scores, Weights
from model.inspectable import Inspectable
from model.text import MASK, SPECIAL
from model.trace import AttentionKind, Trace
from viz.components.views import Mount, head_grid, heatmap, stages
from viz.i18n import _
from viz.parts import data_table, explanation, plot_words, stamp
from viz.sides import side_name, sides, tokens
from viz.words import attention_name, attention_sentence, scale_name, significant
from viz.workbench import Key, Selection, attention_kinds, choose, workbench


class Part(StrEnum):
    """Keys of this page's components."""

    HEADS = "heads"
    HEAD = "head_large"
    STAGES = "stages"
    EXPLANATION = "explanation"
    DATA = "data"


SCALES = ("one", "largest")


def page(lens: Inspectable) -> Iterator[None]:
    """Places and controls first; then all that the workbench's trace of this model holds is packed; then mounted."""
    kinds = attention_kinds(lens.model)
    row = st.container(horizontal=True, horizontal_alignment="distribute")
    kind = kinds[0]
    if len(kinds) > 1:
        kind = cast(AttentionKind, choose(_("Attention"), kinds, kinds[-1], Key.KIND, attention_name, row))
    scale = choose(_("Scale"), SCALES, SCALES[0], Key.SCALE, scale_name, row)
    grid, large = st.columns([11, 9], gap="medium")
    with grid:
        thumbnails = st.container()
        st.markdown(f"**{_('One query, step by step')}** · softmax(QKᵀ/√d_k + M) V, §3.2.1")
        steps = st.container()
    with large:
        figure = st.container()
        show_explanation()
        data = st.container()
    yield
    bench = workbench()
    trace = bench.trace
    assert trace is not None
    tensor = trace.attention(kind).float()
    weights = tensor.cpu().numpy()
    layers, heads, queries, _keys = weights.shape
    chosen = bench.fit_selection(layers, heads, queries)
    path = trace.attention_paths(kind)[chosen.layer]
    visible = trace[f"{path}.visible"].cpu().numpy()
    tops = np.maximum(weights.max(axis=(2, 3)), 1e-9) if scale == "largest" else np.ones((layers, heads))
    head, top = weights[chosen.layer, chosen.head], tops[chosen.layer, chosen.head]
    parts = [
        (thumbnails, pack_heads(trace, kind, weights, visible, tops, entropy(tensor).flatten().tolist(), chosen)),
        (steps, pack_stages(trace, kind, path, chosen)),
        (figure, pack_head(trace, kind, head, visible, top, chosen)),
    ]
    yield
    for place, mount in parts:
        with place:
            mount()
    with data:
        data_table(Part.DATA, lambda: weights_table(trace, kind, head, visible), file_name(kind, chosen))


def pack_heads(
    trace: Trace,
    kind: AttentionKind,
    weights: np.ndarray,
    visible: np.ndarray,
    tops: np.ndarray,
    entropies: list[float],
    chosen: Selection,
) -> Mount:
    rows, columns = sides(trace, kind)
    layers, heads = weights.shape[:2]
    caption = _(
        "{layers} layers × {heads} heads · H = entropy in nats · rows: {rows} (query), columns: {columns} (key)"
    )
    words = {
        "layer": _("layer"),
        "head": _("head"),
        "entropy": _("entropy"),
        "masked": _("masked"),
        "film": _("film: step {step}"),
        "caption": caption.format(
            layers=layers, heads=heads, rows=side_name(trace, rows), columns=side_name(trace, columns)
        ),
    }
    bench = workbench()
    filmed = bench.step is not None and not bench.what_if.changes  # else the film shows another forward pass
    header = {
        "kind": kind if filmed else "",
        "stamp": stamp(trace),
        "chosen": [chosen.layer, chosen.head],
        "entropy": entropies,
        "words": words,
        "labels": {"rows": tokens(trace, rows), "columns": tokens(trace, columns)},
        "sides": {"rows": rows, "columns": columns},
    }
    return head_grid(weights, visible, tops.flatten().tolist(), header, Part.HEADS, on_head)


def pack_head(
    trace: Trace, kind: AttentionKind, weights: np.ndarray, visible: np.ndarray, top: float, chosen: Selection
) -> Mount:
    rows, columns = (tokens(trace, side) for side in sides(trace, kind))
    row = weights[chosen.query]
    strongest = f"{rows[chosen.query]} → {columns[int(row.argmax())]}  {significant(float(row.max()))}"
    name = _("Layer {layer}, head {head}").format(layer=chosen.layer + 1, head=chosen.head + 1)
    sentence = attention_sentence(kind, bool(trace.target_tokens))
    summary = _("{name}, {sentence}. {rows} queries, {columns} keys. The chosen query looks most at: {strongest}.")
    row_side, column_side = sides(trace, kind)
    header = {
        "rows": {"title": _("query (from)"), "labels": rows, "side": row_side},
        "columns": {"title": _("key (to)"), "labels": columns, "side": column_side},
        "scale": {"low": 0, "high": float(top), "title": _("weight")},
        "chosen": chosen.query,
        "name": name,
        "sentence": sentence,
        "note": strongest,
        "alt": summary.format(name=name, sentence=sentence, rows=len(rows), columns=len(columns), strongest=strongest),
        "file": file_name(kind, chosen),
        "stamp": stamp(trace),
        "words": plot_words(_("query"), _("key"), _("weight"), _("masked")),
    }
    return heatmap(weights, visible, header, Part.HEAD, on_row)


def pack_stages(trace: Trace, kind: AttentionKind, path: str, chosen: Selection) -> Mount:
    rows, columns = sides(trace, kind)
    head, query = chosen.head, chosen.query
    steps = trace.maps_of(path)
    stage = {name: trace[f"{path}.{name}"][head, query].float() for name in steps}
    weighted = stage["weights"][:, None] * trace.values(path)[head].float()
    output = trace[f"{path}.heads"][head, query].float()
    attention = trace.model.get_submodule(path)
    factor = attention.scaled.factor if isinstance(attention, MultiHeadAttention) else 1.0
    header = {
        "queries": tokens(trace, rows),
        "keys": tokens(trace, columns),
        "sides": {"rows": rows, "columns": columns},
        "special": {
            "rows": [token in (*SPECIAL, MASK) for token in tokens(trace, rows)],
            "columns": [token in (*SPECIAL, MASK) for token in tokens(trace, columns)],
        },
        "chosen": query,
        "stamp": stamp(trace),
        "words": {
            "query": _("query"),
            "value": _("weight × value"),
            "output": _("output of this head"),
            "columns": [
                {"name": _("key"), "formula": "k"},
                {"name": _("score"), "formula": "q·k"},
                {"name": _("scaled"), "formula": f"× {significant(factor)}"},
                *([{"name": _("biased"), "formula": "− m·|i − j|"}] if "biased" in steps else []),
                {"name": _("masked"), "formula": "−∞"},
                {"name": _("weight"), "formula": "softmax"},
                {"name": _("weighted value"), "formula": f"w·v, {len(output)} d"},
            ],
        },
    }
    arrays = [*stage.values(), weighted, output]
    return stages([array.cpu().numpy() for array in arrays], header, Part.STAGES, on_query)


def show_explanation() -> None:
    explanation(
        Part.EXPLANATION,
        [r"\mathrm{Attention}(Q, K, V) = \mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}} + M\right)V"],
        _(
            "Vaswani et al., *Attention Is All You Need*, section 3.2, equation 1. Each thumbnail is one head. "
            "A row is a query: how it divides its attention over the keys; the row adds up to 1. "
            "A hatched cell is masked: M is −∞ there. In cross-attention the queries come from the target, "
            "the keys and values from the source. This is the code that has just run:"
        ),
        *(MultiHeadAttention, Scores, Scaled, Masked, Weights),
    )


def weights_table(trace: Trace, kind: AttentionKind, weights: np.ndarray, visible: np.ndarray) -> pd.DataFrame:
    rows, columns = (tokens(trace, side) for side in sides(trace, kind))
    return pd.DataFrame(
        {
            _("query"): np.repeat(rows, len(columns)),
            _("key"): np.tile(columns, len(rows)),
            _("weight"): weights.flatten(),
            _("masked"): ~visible.flatten(),
        }
    )


def file_name(kind: AttentionKind, chosen: Selection) -> str:
    return f"attention-{kind}-layer{chosen.layer + 1}-head{chosen.head + 1}"


def on_head() -> None:
    clicked = st.session_state[Part.HEADS].head
    workbench().select(layer=int(clicked["layer"]), head=int(clicked["head"]))


def on_query() -> None:
    workbench().select(query=int(st.session_state[Part.STAGES].query))


def on_row() -> None:
    workbench().select(query=int(st.session_state[Part.HEAD].row))
