"""Feed-forward: every unit of a layer at every token, what a unit reads and writes, and that positions are apart."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis.feed_forward import Seen, quantities
from model.analysis.residual import stacks
from model.inference.text_model import TextModel
from model.network.config import TransformerConfig
from viz.components.view import View, live
from viz.i18n.catalogue import _
from viz.i18n.format import attention_name
from viz.pages.feed_forward import layer, units
from viz.pages.feed_forward.text import ORDERS, UNIT_VIEWS, order_name, unit_quantity, unit_view
from viz.state.session import Session, address_count, choice, choose, current_session
from viz.ui.parts import Drawing, Views, data_table, under_figures


class Part(StrEnum):
    """Keys of this page's controls, which are parameters of the address bar, and of its components."""

    STACK = "stack"
    QUANTITY = "units"
    ORDER = "units_order"
    PAGE = "page"
    PAGE_FIELD = "units_page"
    UNIT = "unit"
    VIEW = "look"
    SEEN = "units_seen"
    LAYERS = "units_layers"
    UNITS = "units_map"
    ALL = "units_all"
    FIRST = "units_first"
    SECOND = "units_second"
    THIRD = "units_third"
    EXPLANATION = "units_explanation"
    DATA = "units_data"


def page(model: TextModel) -> Views:
    """Places and controls first; then all that the session's trace of this model holds is packed; then mounted."""
    row = st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center")
    names, parts = stacks(model.config), quantities(model.config)
    choose(_("Quantity"), parts, parts[0], Part.QUANTITY, unit_quantity, row)
    choose(_("Order"), ORDERS, ORDERS[0], Part.ORDER, order_name, row)
    turn_page(model, row)
    if len(names) > 1:
        choose(_("Stack"), names, names[-1], Part.STACK, attention_name, row)
    said = st.container()
    left, right = st.columns([11, 9], gap="medium")
    with left:
        figure, everything = st.container(), st.container()
    with right:
        overview = st.container()
        view = choose(_("View"), UNIT_VIEWS, UNIT_VIEWS[0], Part.VIEW, unit_view, right)
        detail = st.container()
    data = under_figures(partial(layer.explain, Part.EXPLANATION, model.config), Part.DATA)

    def views(model: TextModel) -> Drawing:
        session, seen = current_session(), units_seen()
        seen.add(session.trace, model.config)
        chosen = current(session, model.config)
        mounts: list[tuple[DeltaGenerator, View]] = [
            (overview, units.layer_map(session, model.config, chosen, Part.LAYERS, on_layer)),
            (figure, units.unit_map(session, chosen, Part.UNITS, on_cell)),
            (everything, units.all_units(session, chosen, Part.ALL, on_rank)),
        ]
        sentence, table = "", None
        if view == "unit":
            mounts.append((detail, units.unit_chart(session, chosen, Part.FIRST, on_token)))
            directions, sentence = layer.direction_charts(session, model.config, chosen, (Part.SECOND, Part.THIRD))
            mounts += [(detail, chart) for chart in directions]
        elif view == "token":
            mounts.append((detail, units.token_chart(session, chosen, Part.FIRST, on_top)))
        elif view == "layer":
            mounts.append((detail, layer.histogram(session, chosen, Part.FIRST)))
        else:
            table, sentence = layer.apart_table(session, chosen)
        summary = layer.layer_sentence(session, model.config, chosen, seen)
        yield mounts

        def rest() -> None:
            said.markdown(summary)
            if sentence:
                detail.caption(sentence)
            if table is not None:
                detail.dataframe(table.style.format("{:.3g}", subset=list(table.columns[1:])), hide_index=True)
            every = partial(layer.unit_table, session, model.config, chosen, seen)
            more = {} if table is None else {unit_view(view): lambda: table}
            data_table(Part.DATA, every, f"units-{chosen.name}", place=data, parts=mounts, more=more)

        return rest

    return views


def current(session: Session, config: TransformerConfig) -> units.Chosen:
    """What the controls and the address choose, moved inside what there is."""
    names, parts = stacks(config), quantities(config)
    return units.choose_units(
        session,
        config,
        choice(names, names[-1], Part.STACK),
        choice(parts, parts[0], Part.QUANTITY),
        choice(ORDERS, ORDERS[0], Part.ORDER),
        page_number(config),
        address_count(Part.UNIT),
    )


def page_number(config: TransformerConfig) -> int:
    """The chosen page of units, counted from 0."""
    return max(1, min(address_count(Part.PAGE) or 1, units.pages(config))) - 1


def turn_page(model: TextModel, place: DeltaGenerator) -> None:
    """The field that turns the pages of units."""
    last = units.pages(model.config)
    st.session_state[Part.PAGE_FIELD] = page_number(model.config) + 1
    label = _("page of {count}").format(count=last)
    field = place.container(horizontal=True, vertical_alignment="center", width="content")
    field.caption(_("page"), width="content")
    field.number_input(label, 1, last, on_change=on_page, width=150, key=Part.PAGE_FIELD, label_visibility="collapsed")
    field.caption(_("of {count}").format(count=last), width="content")


def units_seen() -> Seen:
    """Which units have been on in this session."""
    seen: Seen = current_session().memory.setdefault(Part.SEEN, Seen())
    return seen


def chosen_now() -> tuple[Session, units.Chosen]:
    session = current_session()
    return session, current(session, session.model.config)


def on_page() -> None:
    current_session().say(Part.PAGE, str(st.session_state[Part.PAGE_FIELD]))


@live
def on_layer(clicked: dict[str, Any]) -> None:
    """A click on a layer at a token."""
    current_session().select(layer=int(clicked["row"]), query=int(clicked["column"]))


@live
def on_cell(clicked: dict[str, Any]) -> None:
    """A click on a unit at a token."""
    session, chosen = chosen_now()
    session.say(Part.UNIT, str(units.on_page(session, chosen)[int(clicked["column"])]))
    session.select(query=int(clicked["row"]))


def on_rank(clicked: dict[str, Any]) -> None:
    """A click among all units opens the page that has it, and chooses it."""
    index, (session, chosen) = int(clicked["index"]), chosen_now()
    session.say(Part.UNIT, str(units.ordered(session, chosen)[index]))
    session.say(Part.PAGE, str(index // units.PAGE + 1))


@live
def on_token(clicked: dict[str, Any]) -> None:
    """A click on a bar of the unit chooses its token."""
    current_session().select(query=int(clicked["index"]))


@live
def on_top(clicked: dict[str, Any]) -> None:
    """A click on a bar of the token chooses its unit."""
    index, (session, chosen) = int(clicked["index"]), chosen_now()
    session.say(Part.UNIT, str(units.top_units(session, chosen)[index]))
