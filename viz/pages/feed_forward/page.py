"""Feed-forward: every unit of a layer at every token, what a unit reads and writes, that positions are apart; of a
mixture of experts the router, the loads, and the units of one expert.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import streamlit as st
from pandas import DataFrame
from streamlit.delta_generator import DeltaGenerator

from model.analysis.experts import mixed_layers
from model.analysis.feed_forward import Seen, path_of, quantities
from model.analysis.residual import stacks
from model.capture.interventions import RemovedExpert
from model.inference.text_model import TextModel
from model.network.config import Units
from model.network.recurrent import Absence
from viz.components.view import View, live
from viz.i18n.catalogue import _
from viz.i18n.errors import reason_words
from viz.i18n.format import attention_name, significant
from viz.i18n.messages import in_language
from viz.pages.feed_forward import experts, layer, units
from viz.pages.feed_forward.text import ORDERS, UNIT_VIEWS, order_name, unit_quantity, unit_view
from viz.render.view import view
from viz.state.inputs import Inputs
from viz.state.session import Session, address_count, choice, choose, current_session, follow_language, take_pending
from viz.ui.choice_row import choice_row
from viz.ui.parts import Drawing, Views, data_table, no_views, under_figures
from viz.ui.plots import side_of


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
    EXPERT = "expert"
    ROUTED = "routed"
    ROUTER = "experts_router"
    LOADS = "experts_loads"
    REMOVE = "expert_remove"
    EXPLANATION = "units_explanation"
    DATA = "units_data"


BUTTONS = 18  # experts at most, that stand as buttons side by side


def page(model: TextModel) -> Views:
    """Places and controls first; then all that the session's trace of this model holds is packed; then mounted."""
    if model.kind == "recurrent":
        st.info(reason_words(Absence.UNITS))
        return no_views
    place = Place.of(model)
    show_controls(model, place)
    sentence_place = st.container()
    left, right = st.columns([11, 9], gap="medium")
    with left:
        router, removal, figure, everything = (st.container() for _place in range(4))
    with right:
        loads, overview = st.container(), st.container()
        views_of = UNIT_VIEWS if place.experts else UNIT_VIEWS[:-1]
        view_name = choose(_("View"), views_of, views_of[0], Part.VIEW, unit_view, right)
        detail = st.container()
        if place.experts and view_name == "load":
            with right:
                experts.over_file(current_session(), model)
    data = under_figures(partial(layer.explain, Part.EXPLANATION, model.config, place.units), Part.DATA)

    def views(model: TextModel) -> Drawing:
        inputs, seen = current_session().inputs, units_seen()
        chosen = current(model)
        seen.add(inputs.trace, model.config, chosen.path)
        mounts: list[tuple[DeltaGenerator, View]] = []
        if chosen.expert:
            routed = choice(experts.ROUTED, experts.ROUTED[0], Part.ROUTED)
            routed = routed if experts.has_router(inputs, chosen) else experts.ROUTED[0]
            mounts.append((router, view(Part.ROUTER, experts.router_map(inputs, chosen, routed), cell=on_routed)))
        if mixed_layers(inputs.trace, chosen.stack):
            mounts.append((loads, view(Part.LOADS, experts.load_map(inputs, chosen), cell=on_load)))
        if units.has_dense(inputs, chosen.stack):
            act = on_layer if not place.differs else on_other_layer
            mounts.append((overview, view(Part.LAYERS, units.layer_map(inputs, chosen), cell=act)))
        used = units.is_used(inputs, chosen)
        if used:
            mounts += [
                (figure, view(Part.UNITS, units.unit_map(inputs, chosen), cell=on_cell)),
                (everything, view(Part.ALL, units.all_units(inputs, chosen), place=on_rank)),
            ]
        charts, sentence, table = closely(inputs, chosen, view_name)
        mounts += [(detail, chart) for chart in charts]
        summary = layer.layer_sentence(inputs, chosen, seen)
        yield mounts

        def rest() -> None:
            sentence_place.markdown(in_language(summary))
            if sentence:
                detail.caption(sentence)
            remove_button(removal, model, chosen)
            if table is not None:
                show_detail(detail.container(key=f"units_{view_name}"), table)
            every = partial(layer.unit_table, inputs, chosen, seen)
            if not used:
                every = partial(experts.load_table, inputs, chosen, experts.file_loads(current_session()))
            more = {} if table is None else {unit_view(view_name): lambda: table}
            data_table(Part.DATA, every, f"units-{chosen.name}", place=data, parts=mounts, more=more)

        return rest

    return views


def show_controls(model: TextModel, place: Place) -> None:
    with choice_row("units") as row:
        if len(names := stacks(model.config)) > 1:
            choose(_("Stack"), names, names[-1], Part.STACK, attention_name, row.place)
        if place.experts:
            choose_expert(place, row.place)
        if place.quantities:
            choose(_("Quantity"), place.quantities, place.quantities[0], Part.QUANTITY, unit_quantity, row.place)
            choose(_("Order"), ORDERS, ORDERS[0], Part.ORDER, order_name, row.place)
            row.changed.append(page_number(place) > 0)
            if row.rest:
                turn_page(place, row.rest)
        if place.experts:
            row.choose(_("Router"), experts.ROUTED, experts.ROUTED[0], Part.ROUTED, experts.routed_name)


def closely(inputs: Inputs, chosen: units.Chosen, view_name: str) -> tuple[Sequence[View], str, DataFrame | None]:
    """Charts of one load, unit, token or layer, a sentence beneath them, and a table in their place or of them."""
    if view_name == "load":
        over = experts.file_loads(current_session())
        load = view(Part.FIRST, experts.load_chart(inputs, chosen, over), place=on_loaded)
        return [load], "", experts.load_table(inputs, chosen, over)
    if not units.is_used(inputs, chosen):
        return [], _("There is nothing to be seen of its units: choose another expert, or another text."), None
    if view_name == "unit":
        unit = view(Part.FIRST, units.unit_chart(inputs, chosen), place=on_token)
        directions, sentence = layer.direction_charts(inputs, chosen)
        keys = {"writes": Part.SECOND, "reads": Part.THIRD}
        return [unit, *(view(keys[does], chart) for does, chart in directions.items())], sentence, None
    if view_name == "token":
        if not units.goes_through(inputs, chosen)[chosen.token]:
            return [], _("This token does not go through this expert: choose one of its own above."), None
        return [view(Part.FIRST, units.token_chart(inputs, chosen), place=on_top)], "", None
    if view_name == "layer":
        return [view(Part.FIRST, layer.histogram(inputs, chosen))], "", None
    table, sentence = layer.apart_table(inputs, chosen)
    return [], sentence, table


def show_detail(place: DeltaGenerator, table: DataFrame) -> None:
    """Table of what is looked at; of a short one words break, so that its numbers are seen in a narrow column too."""
    styled = table.style.format(significant, subset=list(table.columns[1:]))
    if len(table) <= WHOLE:
        place.table(styled, hide_index=True, border="horizontal")
    else:
        place.dataframe(styled, hide_index=True)


WHOLE = 4  # rows of a table that is seen whole
OF_TOKEN = "token"  # in the place of an expert's number: the one that the chosen token takes with the largest weight


@dataclass(frozen=True)
class Place:
    """The network that the controls are for: a layer's, or one of its experts. differs: whether layers differ.

    units: of the layer. quantities: of its units. experts: what can be chosen among them, none where there are none.
    """

    stack: str
    layer: int
    units: Units
    quantities: list[str]
    experts: list[str]
    differs: bool

    @classmethod
    def of(cls, model: TextModel) -> Place:
        """Choice in the address, known before the text is traced."""
        config, names = model.config, stacks(model.config)
        stack = choice(names, names[-1], Part.STACK)
        every = [config.units_of(stack, number) for number in range(config.depth(stack))]
        layer = min(current_session().selection.layer, len(every) - 1)
        options, path = units.experts_of(every[layer]), path_of(stack, layer)
        parts = quantities(model.network, path + units.part_of(options[0] if options else ""))
        return cls(stack, layer, every[layer], parts, options, len(set(every)) > 1)

    @property
    def width(self) -> int:
        """Number of units of the chosen network; 0: unknown."""
        wish = choice([OF_TOKEN, *self.experts], OF_TOKEN, Part.EXPERT)
        return self.units.shared if self.experts and wish == units.SHARED else self.units.width or 0


def current(model: TextModel) -> units.Chosen:
    """Choice of the controls and the address, moved inside what there is; a click on the stack's tokens chooses
    another.
    """
    place, session = Place.of(model), current_session()
    session.selection.side = side_of(session.trace, place.stack)
    parts = place.quantities or [""]
    expert = choice([OF_TOKEN, *place.experts], OF_TOKEN, Part.EXPERT)
    wishes = units.UnitSelection(
        place.stack,
        choice(parts, parts[0], Part.QUANTITY),
        choice(ORDERS, ORDERS[0], Part.ORDER),
        page_number(place),
        address_count(Part.UNIT),
        "" if expert == OF_TOKEN else expert,
    )
    return units.choose_units(session.inputs, wishes)


def choose_expert(place: Place, row: DeltaGenerator) -> None:
    """The expert whose units are shown: buttons, or of many a list."""
    options = [OF_TOKEN, *place.experts]

    def name(expert: str) -> str:
        if expert == OF_TOKEN:
            return _("expert of the token")
        return _("shared") if expert == units.SHARED else str(int(expert) + 1)

    if len(options) <= BUTTONS:
        choose(_("Expert"), options, OF_TOKEN, Part.EXPERT, name, row)
        return
    session = current_session()
    take_pending(Part.EXPERT, OF_TOKEN, options)
    if Part.EXPERT not in st.session_state:
        st.session_state[Part.EXPERT] = choice(options, OF_TOKEN, Part.EXPERT)
    follow_language(Part.EXPERT)
    chosen = row.selectbox(
        _("Expert"), options, format_func=name, key=Part.EXPERT, label_visibility="collapsed", width=220
    )
    session.address.set(Part.EXPERT, chosen)
    session.address.widget_values[Part.EXPERT] = chosen


def page_number(place: Place) -> int:
    """The chosen page of units, counted from 0."""
    return max(1, min(address_count(Part.PAGE) or 1, units.pages(place.width))) - 1


def turn_page(chosen: Place, place: DeltaGenerator) -> None:
    """The field that turns the pages of units."""
    last = units.pages(chosen.width)
    st.session_state[Part.PAGE_FIELD] = page_number(chosen) + 1
    label = _("page of {count}").format(count=last)
    field = place.container(horizontal=True, vertical_alignment="center", width="content")
    field.caption(_("page"), width="content")
    field.number_input(label, 1, last, on_change=on_page, width=150, key=Part.PAGE_FIELD, label_visibility="collapsed")
    field.caption(_("of {count}").format(count=last), width="content")


def units_seen() -> Seen:
    """Units that have been on in this session."""
    seen: Seen = current_session().memory.setdefault(Part.SEEN, Seen())
    return seen


def chosen_now() -> tuple[Session, units.Chosen]:
    session = current_session()
    return session, current(session.model)


def on_page() -> None:
    current_session().address.set(Part.PAGE, str(st.session_state[Part.PAGE_FIELD]))


def remove_button(place: DeltaGenerator, model: TextModel, chosen: units.Chosen) -> None:
    """A button that takes the chosen expert of a network of ours from the router, or gives it back."""
    if not (chosen.expert.isdecimal() and model.network.ours):
        return
    removed = RemovedExpert("encoder" if chosen.stack == "encoder" else "decoder", chosen.layer, int(chosen.expert))
    gone = removed in current_session().what_if.changes
    label = _("Restore expert {number}") if gone else _("Remove expert {number}")
    place.button(
        label.format(number=int(chosen.expert) + 1),
        key=Part.REMOVE,
        help=_("The router cannot choose it: its tokens go to the others."),
        on_click=on_remove,
        args=(removed,),
    )


def on_remove(removed: RemovedExpert) -> None:
    """The expert is taken out of the forward pass, or put into it again; it stays the one that is looked at."""
    session = current_session()
    take_expert(session, removed.expert)
    others = [each for each in session.what_if.changes if each != removed]
    session.change(others if len(others) < len(session.what_if.changes) else [*others, removed])


@live
def on_layer(clicked: dict[str, Any]) -> None:
    """A click on a layer at a token."""
    current_session().select(layer=int(clicked["row"]), query=int(clicked["column"]))


def on_other_layer(clicked: dict[str, Any]) -> None:
    """A click on a layer at a token, where the layers need other controls."""
    current_session().select(layer=int(clicked["row"]), query=int(clicked["column"]))


def on_load(clicked: dict[str, Any]) -> None:
    """A click on an expert of a layer."""
    session = current_session()
    session.select(layer=int(clicked["row"]))
    take_expert(session, int(clicked["column"]))


def on_routed(clicked: dict[str, Any]) -> None:
    """A click on an expert at a token."""
    session = current_session()
    session.select(query=int(clicked["row"]))
    take_expert(session, int(clicked["column"]))


def on_loaded(clicked: dict[str, Any]) -> None:
    """A click on the load of an expert."""
    take_expert(current_session(), int(clicked["index"]))


def take_expert(session: Session, number: int) -> None:
    """Show the units of this expert."""
    session.address.set_choices({Part.EXPERT: str(number)})


@live
def on_cell(clicked: dict[str, Any]) -> None:
    """A click on a unit at a token."""
    session, chosen = chosen_now()
    session.address.set(Part.UNIT, str(units.columns_of(session.inputs, chosen)[int(clicked["column"])]))
    session.select(query=int(clicked["row"]))


def on_rank(clicked: dict[str, Any]) -> None:
    """A click among all units opens the page that has it, and chooses it."""
    index, (session, chosen) = int(clicked["index"]), chosen_now()
    session.address.set(Part.UNIT, str(units.ordered(session.inputs, chosen)[index]))
    session.address.set(Part.PAGE, str(index // units.PAGE + 1))


@live
def on_token(clicked: dict[str, Any]) -> None:
    """A click on a bar of the unit chooses its token."""
    current_session().select(query=int(clicked["index"]))


@live
def on_top(clicked: dict[str, Any]) -> None:
    """A click on a bar of the token chooses its unit."""
    index, (session, chosen) = int(clicked["index"]), chosen_now()
    session.address.set(Part.UNIT, str(units.top_units(session.inputs, chosen)[index]))
