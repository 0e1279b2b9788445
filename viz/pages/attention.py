"""Attention: every head of one kind, one head or several combined large, one query step by step; BertViz."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import cast

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis.heads import METRICS
from model.analysis.maps import Quantity
from model.inspectable import Inspectable
from model.trace import AttentionKind
from viz.absent import unless_absent
from viz.attention import bertviz
from viz.attention.explained import explain, missing, refusal
from viz.attention.figure import file_name, large, pack_figure
from viz.attention.grid import pack_heads
from viz.attention.shown import Shown, Wish
from viz.attention.steps import pack_stages
from viz.attention.tables import metrics_table, weights_table
from viz.attention.thumbnails import thumbnails
from viz.attention.words import (
    bertviz_name,
    combination_name,
    drawing_name,
    metric_name,
    order_name,
    quantity_name,
)
from viz.i18n import _
from viz.parts import data_table, folded
from viz.words import attention_name, scale_name
from viz.workbench import Key, Selection, attention_kinds, choice, choose, workbench


class Part(StrEnum):
    """Keys of this page's components."""

    HEADS = "heads"
    HEAD = "head_large"
    LINES = "head_lines"
    STAGES = "stages"
    EXPLANATION = "explanation"
    DATA = "data"
    METRICS = "metrics"
    BERTVIZ = "bertviz_open"


class Choice(StrEnum):
    """This page's controls; their names are parameters of the address bar."""

    QUANTITY = "quantity"
    METRIC = "metric"
    ORDER = "order"
    LAYERS = "layers"
    HEADS = "heads_shown"
    LEAST = "least"
    MOST = "most"
    COMBINATION = "combine"
    DRAWING = "draw"
    THRESHOLD = "threshold"
    BERTVIZ = "bertviz"


SCALES = ("one", "largest")
ORDERS = ("layer", "highest", "lowest")
COMBINED = ("head", "average", "maximum", "rollout")
DRAWINGS = ("map", "lines")


def page(lens: Inspectable) -> Iterator[None]:
    """Places and controls first; then all that the workbench's trace of this model holds is packed; then mounted."""
    wish = show_controls(lens)
    grid, figures = st.columns([11, 9], gap="medium")
    with grid:
        wish = show_head_controls(wish, lens)
        heads = st.container()
        st.markdown(f"**{_('One query, step by step')}** · softmax(QKᵀ/√d_k + M) V, §3.2.1")
        steps = st.container()
    with figures:
        wish = show_figure_controls(wish)
        figure = st.container()
        explain(Part.EXPLANATION, wish)
        data, numbers = folded(Part.DATA, _("Data")), folded(Part.METRICS, _("Data: every head"))
    others = folded(Part.BERTVIZ, "BertViz")
    yield
    bench = workbench()
    trace = bench.trace
    assert trace is not None
    shown = Shown(trace, wish, bench.comparison, bench.differing)
    maps = shown.maps
    chosen = bench.fit_selection(maps.layers, maps.heads, maps.queries)
    made = thumbnails(shown)
    listed = shown.shown_heads(made.values)
    filmed = bench.step is not None and not bench.what_if.changes  # else the film shows another forward pass
    parts = [(heads, pack_heads(shown, made, listed, (chosen.layer, chosen.head), Part.HEADS, on_head, filmed))]
    staged, lacking = unless_absent(lambda: pack_stages(shown, chosen, Part.STAGES, on_query))
    parts += [(steps, staged)] if staged else []
    drawn = None
    problem = refusal(shown, listed)
    if not problem:
        drawn = large(shown, chosen, listed)
        key, on_row = (Part.LINES, on_line) if wish.drawing == "lines" else (Part.HEAD, on_cell)
        parts.append((figure, pack_figure(shown, drawn, made, chosen, listed, key, on_row)))
    yield
    for place, mount in parts:
        with place:
            mount()
    for place, sentence in ((steps, lacking), (figure, problem or missing(shown, chosen))):
        with place:
            say(sentence)
    if drawn is not None:
        table = drawn
        data_table(Part.DATA, lambda: weights_table(shown, table), file_name(shown, chosen), place=data)
    data_table(Part.METRICS, lambda: metrics_table(shown), f"heads-{wish.kind}", place=numbers)
    if others.open:
        with others:
            show_bertviz(shown, chosen)


def show_controls(lens: Inspectable) -> Wish:
    """What is drawn of every head."""
    kinds = attention_kinds(lens.model)
    row = st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center")
    kind = kinds[0]
    if len(kinds) > 1:
        kind = cast(AttentionKind, choose(_("Attention"), kinds, kinds[-1], Key.KIND, attention_name, row))
    quantity = choose(_("Quantity"), list(Quantity), Quantity.WEIGHT, Choice.QUANTITY, quantity_name, row)
    scale = choose(_("Scale"), SCALES, SCALES[0], Key.SCALE, scale_name, row)
    threshold = number(row, _("Hide weights below"), Choice.THRESHOLD, 0.0) or 0.0
    return Wish(kind, Quantity(quantity), scale, threshold=threshold)


def show_head_controls(wish: Wish, lens: Inspectable) -> Wish:
    """Which heads there are, in which order, and with which number."""
    row = st.container(horizontal=True, vertical_alignment="center")
    metric = pick(_("Number of each head"), list(METRICS), Choice.METRIC, metric_name, row)
    order = choose(_("Order"), ORDERS, ORDERS[0], Choice.ORDER, order_name, row)
    with row.popover(_("Heads"), width="content"):
        layers = several(_("Layers"), depth(lens, wish.kind), Choice.LAYERS)
        heads = several(_("Heads"), lens.config.n_heads, Choice.HEADS)
        st.caption(_("Only heads whose number lies between these; the figure combines those that are shown."))
        low, high = st.columns(2)
        least = number(low, _("at least"), Choice.LEAST, None)
        most = number(high, _("at most"), Choice.MOST, None)
    return replace(wish, metric=metric, order=order, layers=layers, heads=heads, least=least, most=most)


def show_figure_controls(wish: Wish) -> Wish:
    """What the large figure joins, and how it is drawn."""
    row = st.container(horizontal=True, horizontal_alignment="distribute")
    combination = choose(_("Combine"), COMBINED, COMBINED[0], Choice.COMBINATION, combination_name, row)
    drawing = choose(_("Drawing"), DRAWINGS, DRAWINGS[0], Choice.DRAWING, drawing_name, row)
    return replace(wish, combination=combination, drawing=drawing)


def pick(label: str, options: Sequence[str], key: str, words: Callable[[str], str], place: DeltaGenerator) -> str:
    """One of a list, the first unless chosen otherwise, in the address bar by its name."""
    named = {option: words(option) for option in options}
    index = list(options).index(choice(options, options[0], key))
    picked = place.selectbox(
        label, options, index=index, key=key, format_func=named.__getitem__, label_visibility="collapsed", width=240
    )
    if picked != options[0] or key in st.query_params:
        workbench().say(key, picked)
    return picked


def several(label: str, count: int, key: str) -> list[int]:
    """Some of so many layers or heads, counted from 0; none stands for all of them."""
    numbers = list(range(count))
    asked = st.query_params.get(key, "").split(",")
    picked = st.pills(
        label,
        numbers,
        selection_mode="multi",
        default=[number for number in numbers if str(number + 1) in asked],
        format_func=lambda number: str(number + 1),
        key=f"{key} {count}",
    )
    if picked or key in st.query_params:
        workbench().say(key, ",".join(str(number + 1) for number in picked))
    return list(picked)


def number(place: DeltaGenerator, label: str, key: str, low: float | None) -> float | None:
    """A number, or none where the field is empty."""
    try:
        asked = float(st.query_params[key])
    except (KeyError, ValueError):
        asked = math.nan
    first = asked if math.isfinite(asked) and (low is None or asked >= low) else None
    given = place.number_input(
        label, low, value=first, step=0.05, key=key, placeholder=label, label_visibility="collapsed", width=220
    )
    if given is not None or key in st.query_params:
        workbench().say(key, "" if given is None else f"{given:g}")
    return given


def depth(lens: Inspectable, kind: AttentionKind) -> int:
    return lens.config.n_encoder_layers if kind == "encoder" else lens.config.n_decoder_layers


def say(sentence: str) -> None:
    if sentence:
        st.info(sentence)


def show_bertviz(shown: Shown, chosen: Selection) -> None:
    """BertViz's views, made when the user opens them."""
    maps = shown.maps
    view = choose("BertViz", bertviz.VIEWS, bertviz.VIEWS[0], Choice.BERTVIZ, bertviz_name, st.container())
    longest = max(maps.queries, maps.keys)
    if longest > bertviz.MOST:
        text = _("BertViz draws a line for every cell: it is shown up to {most} tokens, this text has {count}.")
        return say(text.format(most=bertviz.MOST, count=longest))
    try:
        page = bertviz.document(maps, view, chosen.layer, chosen.head, st.context.theme.type == "dark")
    except ValueError as error:
        return say(str(error))
    st.iframe(bertviz.address(page), height=bertviz.height(maps, view), alt=f"BertViz: {bertviz_name(view)}")


def on_head() -> None:
    clicked = st.session_state[Part.HEADS].head
    workbench().select(layer=int(clicked["layer"]), head=int(clicked["head"]))


def on_query() -> None:
    workbench().select(query=int(st.session_state[Part.STAGES].query))


def on_cell() -> None:
    workbench().select(query=int(st.session_state[Part.HEAD].row))


def on_line() -> None:
    workbench().select(query=int(st.session_state[Part.LINES].row))
