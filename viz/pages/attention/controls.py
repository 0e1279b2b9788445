"""Attention: what is drawn of which heads, chosen by the user and kept in the address bar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis.attention_maps import Quantity
from model.analysis.head_metrics import METRICS
from model.capture.trace import ATTENTION_PATHS, AttentionKind
from model.inference.text_model import TextModel
from model.network.config import Kind
from viz.i18n.catalogue import _
from viz.i18n.errors import lacks
from viz.i18n.format import scale_name
from viz.i18n.messages import in_language
from viz.pages.attention.text import (
    below_name,
    combination_name,
    drawing_name,
    metrics_of,
    order_name,
    quantity_name,
)
from viz.pages.attention.view import HeadSettings
from viz.state.session import Key, attention_kinds, choice, choose, choose_attention, current_session, follow_language
from viz.ui.choice_row import ChoiceRow, choice_row

FILTERS = "head_filters"


class Choice(StrEnum):
    """This page's controls; their names are parameters of the address bar."""

    QUANTITY = "quantity"
    METRIC, METRIC_ACROSS = "metric", "metric_across"
    ORDER, ORDER_ACROSS = "order", "order_across"
    LAYERS = "layers"
    HEADS = "heads_shown"
    LEAST = "least"
    MOST = "most"
    COMBINATION, COMBINATION_ACROSS = "combine", "combine_across"
    DRAWING = "draw"
    THRESHOLD = "threshold"
    BERTVIZ = "bertviz"
    BERTVIZ_TRACE = "bertviz_trace"
    BELOW = "below"


SCALES = ("one", "largest", "others", "log")
ORDERS = ("layer", "highest", "lowest")
COMBINED = ("head", "average", "maximum", "rollout")
DRAWINGS = ("map", "lines")
BELOW = ("steps", "importance")


def show_controls(model: TextModel) -> HeadSettings:
    """The page's choices: kind, quantity and order of the heads; the rest behind "More"."""
    kinds = attention_kinds(model.network)
    with choice_row("attention") as row:
        kind = choose_attention(kinds, row.place)
        quantity = str(Quantity.WEIGHT)
        if not lacks(model.network, f"{ATTENTION_PATHS[kind].format(0)}.value"):
            quantity = choose(_("Quantity"), list(Quantity), Quantity.WEIGHT, Choice.QUANTITY, quantity_name, row.place)
        metric, order = choose_order(metrics_of(kind), row.place)
        wish = HeadSettings(kind, Quantity(quantity), metric=metric, order=order)
        return show_drawing_controls(show_filters(wish, model, row), row)


def show_drawing_controls(wish: HeadSettings, row: ChoiceRow) -> HeadSettings:
    """Controls of how maps are drawn, and of what the large one combines."""
    scaled = row.rest and row.rest.container(horizontal=True, vertical_alignment="center", width="content")
    name = partial(scale_name, weights=wish.quantity == Quantity.WEIGHT and not current_session().differing)
    scale = choose(_("Scale"), SCALES, SCALES[0], Key.SCALE, name, scaled)
    limit = scaled and scaled.container(horizontal=True, vertical_alignment="center", width="content")
    if limit:
        limit.caption(_("Hide weights <"), width="content")
    threshold = number(limit, _("Hide weights <"), Choice.THRESHOLD, 0.0, width=110) or 0.0
    row.changed += [scale != SCALES[0], threshold > 0]
    combination = choose_combination(wish.kind, row)
    drawing = row.choose(_("Drawing"), DRAWINGS, DRAWINGS[0], Choice.DRAWING, drawing_name)
    return replace(wish, scale=scale, threshold=threshold, combination=combination, drawing=drawing)


def choose_combination(kind: AttentionKind, row: ChoiceRow) -> str:
    """What the large figure combines. Cross-attention has no rollout: where that is chosen, another choice is made
    there, one head at first, and rollout comes back with the other kinds.
    """
    options: Sequence[str] = COMBINED
    key = str(Choice.COMBINATION)
    if kind == "cross":
        options = COMBINED[:-1]
        if choice(COMBINED, COMBINED[0], key) == COMBINED[-1]:
            key = Choice.COMBINATION_ACROSS
    return row.choose(_("Combine"), options, options[0], key, combination_name)


def show_filters(wish: HeadSettings, model: TextModel, row: ChoiceRow) -> HeadSettings:
    """Controls of which heads are shown."""
    count = model.config.shape_of("encoder" if wish.kind == "encoder" else "decoder").heads
    filters = row.rest.popover(_("Heads"), width="content", key=FILTERS, on_change="rerun") if row.rest else None
    if filters is not None and filters.open:
        with filters:
            layers = several(_("Layers"), model.config.depth(wish.kind), Choice.LAYERS)
            heads = several(_("Heads"), count, Choice.HEADS)
            sentence = _(
                "Only heads whose number, as the entropy, lies between these; the figure combines those that are shown."
            )
            st.caption(sentence)
            low, high = st.columns(2)
            least = number(low, _("at least"), Choice.LEAST, None)
            most = number(high, _("at most"), Choice.MOST, None)
    else:  # its controls need not be drawn at every look: the address bar has their values
        layers = asked_several(model.config.depth(wish.kind), Choice.LAYERS)
        heads = asked_several(count, Choice.HEADS)
        least, most = address_number(Choice.LEAST), address_number(Choice.MOST)
    row.changed.append(bool(layers or heads or least is not None or most is not None))
    return replace(wish, layers=layers, heads=heads, least=least, most=most)


def show_below(kind: Kind) -> str:
    """Choice of the section under the heads: the steps of one query, or what each head is good for."""
    row = st.container(horizontal=True, vertical_alignment="center")
    chosen = choose(_("Under the heads"), BELOW, BELOW[0], Choice.BELOW, below_name, row)
    formula = {"steps": "softmax(QKᵀ/√d_k + M) V, §3.2.1", "importance": "I_h = L(ξ_h = 0) − L, Michel et al., 2019"}
    if kind != "recurrent":  # of which neither is there, as is said below
        row.caption(formula[chosen], width="content")
    return chosen


def choose_order(metrics: Sequence[str], place: DeltaGenerator) -> tuple[str, str]:
    """Number of each head and order by it, of one list: by layer, each number from its highest, the one shown from its
    lowest. Both are in the address bar. A number that this kind of attention does not have gives way to another choice,
    the layers' order at first, and comes back with the other kinds.
    """
    address, number_key, key = current_session().address, Choice.METRIC, Choice.ORDER
    if (named := address.get(number_key) or "") in METRICS and named not in metrics:
        number_key, key = Choice.METRIC_ACROSS, Choice.ORDER_ACROSS
        named = address.get(number_key) or ""
    options = [ORDERS[0], *metrics, ORDERS[-1]]
    was_pending = address.take(number_key) | address.take(key)
    metric = named if named in metrics else metrics[0]
    wish = {"highest": metric, "lowest": "lowest"}.get(address.get(key) or "", ORDERS[0])
    if was_pending or st.session_state.get(key, wish) not in options:
        st.session_state[key] = wish
    words = {option: in_language(order_name(option)) for option in options}
    follow_language(key)
    picked = place.selectbox(
        _("Order"),
        options,
        index=options.index(wish),
        key=key,
        format_func=words.__getitem__,
        label_visibility="collapsed",
        width=330,
    )
    metric, order = (picked, "highest") if picked in metrics else (metric, picked)
    for name, value, first in ((number_key, metric, metrics[0]), (key, order, ORDERS[0])):
        if value != first or address.get(name) is not None:
            address.set(name, value)
    return metric, order


def several(label: str, count: int, key: str) -> list[int]:
    """Some of so many layers or heads, counted from 0; none stands for all of them."""
    widget, picked_before = f"{key} {count}", asked_several(count, key)
    if current_session().address.take(key):
        st.session_state[widget] = picked_before
    picked = st.pills(
        label,
        list(range(count)),
        selection_mode="multi",
        default=picked_before,
        format_func=lambda number: str(number + 1),
        key=widget,
    )
    if picked or key in st.query_params:
        current_session().address.set(key, ",".join(str(number + 1) for number in picked) or None)
    return list(picked)


def asked_several(count: int, key: str) -> list[int]:
    """Numbers in the address bar, of so many."""
    named = (current_session().address.get(key) or "").split(",")
    return [number for number in range(count) if str(number + 1) in named]


def number(
    place: DeltaGenerator | None, label: str, key: str, low: float | None, width: int | Literal["stretch"] = "stretch"
) -> float | None:
    """A number, or none where the field is empty; of a given width it stands beside its label. place: None while it is
    hidden.
    """
    if place is None:
        return address_number(key, low)
    value = address_number(key, low)
    if current_session().address.take(key):
        st.session_state[key] = value
    given = place.number_input(
        label,
        low,
        value=value,
        step=0.05,
        key=key,
        placeholder="–",
        label_visibility="visible" if width == "stretch" else "collapsed",
        width=width,
    )
    if given is not None or key in st.query_params:
        current_session().address.set(key, None if given is None or given == low else f"{given:g}")
    return given


def address_number(key: str, low: float | None = None) -> float | None:
    """The number in the address bar, if it is one."""
    try:
        value = float(current_session().address.get(key) or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and (low is None or value >= low) else None
