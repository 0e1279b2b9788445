"""Masks: what may be looked at, what changes when it is another, and experiments that show why."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import Any, cast

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis.masking import self_attention
from model.capture.interventions import Cells
from model.capture.trace import ATTENTION_PATHS, AttentionKind
from model.inference.text_model import TextModel
from model.message import Message
from model.runtime.errors import require
from viz.components.view import View, live
from viz.i18n.catalogue import _
from viz.i18n.format import attention_name, no_predictions, sides, significant, with_label
from viz.i18n.messages import in_language, joined, sentences
from viz.pages.masks.batch import EXAMPLES, batch_panels, batch_sentence
from viz.pages.masks.effects import Reference, effect, predictions_chart, tops_chart, where_panels
from viz.pages.masks.experiments import (
    fill_experiment,
    future_chart,
    opened_keys,
    order_panels,
    untested_sentence,
)
from viz.pages.masks.figures import alarms, cells_table, flow_panels, mask_panels, of_head
from viz.pages.masks.rules import Rules, cells_at, fit, with_cells
from viz.pages.masks.text import experiment_name, explain, rule_name, scope_name
from viz.render.view import view
from viz.state.sentences import others
from viz.state.session import (
    Key,
    Parameter,
    Selection,
    Session,
    address_count,
    attention_kinds,
    choice,
    choose,
    current_session,
)
from viz.state.texts import first_source, typed
from viz.state.token_groups import GroupedAxes, merged
from viz.ui.choice_row import ChoiceRow, choice_row
from viz.ui.parts import Drawing, Views, data_table, under_figures


class Part(StrEnum):
    """Keys of this page's components and parameters of the address bar."""

    KIND = "masked"  # a page of masks begins with one that hides something
    MASK = "mask"
    FLOW = "mask_flow"
    WHERE = "mask_where"
    PREDICTIONS = "mask_predictions"
    TOPS = "mask_tops"
    EXPERIMENT = "mask_experiment"
    ORDER = "mask_order"
    BATCH = "mask_batch"
    SCOPE = "scope"
    RULES = "mask_rules"
    WINDOW = "mask_window"
    PLACE = "mask_place"
    FUTURE = "future"
    EXPLANATION = "mask_explanation"
    DATA = "mask_data"


SCOPES, RULES = ("all", "layer", "head"), ("causal", "padding")
NO_LABEL: dict[str, Any] = {"label_visibility": "collapsed"}
EXPERIMENTS = ("order", "numbers", "future", "batch")


def page(model: TextModel) -> Views:
    """Places and controls first; then all that the session's trace of this model holds is packed; then mounted.

    Raises:
        MissingQuantityError: the model shows its weights, and not what the mask is put on.
    """
    kinds = attention_kinds(model.network)
    with choice_row("masks") as row:
        if len(kinds) > 1:
            choose(_("Attention"), kinds, first_kind(kinds), Part.KIND, attention_name, row.place)
        kind = chosen_kind(kinds)
        require(model.network, f"{ATTENTION_PATHS[kind].format(0)}.scores")
        show_rules(row, model, kind)
        hint = row.place.container(key="click_hint", width="content")  # which a saved page does not have
        hint.caption(_("Press a cell to hide or show it, a token for its row or column."), width="content")
        row.choose(_("A press changes"), SCOPES, SCOPES[0], Part.SCOPE, scope_name)
    left, right = st.columns([7, 9], gap="medium")
    mask, alarms_here, flow = left.container(), left.container(), right.container()
    # Below the mask, which was pressed. Without a change there are no effects, and no empty place for them.
    effects = [*left.columns([4, 3], gap="small"), right.container()] if current_session().what_if.changes else []
    experiment = choose(_("Experiment"), EXPERIMENTS, EXPERIMENTS[0], Part.EXPERIMENT, experiment_name, st.container())
    sentence_place = st.container()
    below, table = st.columns([5, 4], gap="medium") if experiment == "order" else (st.container(), st.container())
    explained = partial(explain, Part.EXPLANATION, model.network, kind, experiment, bool(effects))
    table_of_cells = under_figures(explained, Part.DATA)

    def views(model: TextModel) -> Drawing:
        session = current_session()
        trace, before = session.trace, session.what_if.plain
        assert before is not None
        chosen = fit(session, trace, kind)
        inputs, difference = session.inputs, session.differing
        reference = Reference.of(inputs, before, difference) if effects and model.predicts else None
        moved_most = effect(inputs, reference) if reference else ""
        parts: list[tuple[DeltaGenerator, View]] = [
            (mask, view(Part.MASK, mask_panels(inputs, kind, chosen, difference, moved_most), cell=on_cell)),
            (flow, view(Part.FLOW, flow_panels(inputs, before, kind, chosen, difference))),
        ]
        if effects:
            moved, tops, where = effects
            heads = where_panels(inputs, before, kinds, kind, chosen, difference)
            parts.append((where, view(Part.WHERE, heads, cell=on_head)))
        if reference:
            place = place_of(Part.PLACE, reference.place(trace), len(trace["output.logits"]))
            parts += [
                (moved, view(Part.PREDICTIONS, predictions_chart(inputs, reference, place), place=on_place)),
                (tops, view(Part.TOPS, tops_chart(inputs, reference, place))),
            ]
        figure, sentence, measured = run_experiment(experiment, model, session, kind, chosen)
        if figure is not None:
            parts.append((below, figure))
        yield parts

        def rest() -> None:
            if effects and not model.predicts:
                moved.caption(no_predictions())
            for alarm in alarms(trace, kind, chosen):
                alarms_here.warning(f":small[{alarm}]")
            sentence_place.markdown(in_language(sentence))
            if measured is not None and experiment == "order":
                table.table(measured, hide_index=True, border="horizontal")
            elif measured is not None:
                numbers = measured.select_dtypes("float").columns
                table.dataframe(measured.style.format(significant, subset=numbers), hide_index=True)
            cells = partial(cells_table, inputs, before, kind, chosen)
            # The name of an experiment's figure may be the experiment's own.
            named = with_label(_("Experiment"), experiment_name(experiment))
            more = {} if measured is None else {named: lambda: measured}
            data_table(Part.DATA, cells, f"mask-{kind}", place=table_of_cells, parts=parts, more=more)

        return rest

    return views


def first_kind(kinds: list[AttentionKind]) -> AttentionKind:
    return "decoder" if "decoder" in kinds else kinds[0]


def chosen_kind(kinds: list[AttentionKind]) -> AttentionKind:
    return cast(AttentionKind, choice(kinds, first_kind(kinds), Part.KIND))


def show_rules(row: ChoiceRow, model: TextModel, kind: AttentionKind) -> None:
    """The rules of this kind's masks, each to be switched; what they show is the session's. The window is behind
    "More".
    """
    config, session = model.config, current_session()
    own = Rules.of(config, kind, session.selection.layer)
    now = own.after(session.what_if.changes)
    cross = kind == "cross"  # source and target have no common positions to be near or later in
    names = RULES[1:] if cross else RULES
    keys = f"{Part.RULES}_{kind}", f"{Part.WINDOW}_{kind}"
    st.session_state[keys[0]] = [name for name in names if getattr(now, name)]
    act = partial(on_rules, own, *keys)
    row.place.pills(
        _("Rules"), names, selection_mode="multi", format_func=rule_name, key=keys[0], on_change=act, **NO_LABEL
    )
    if cross:
        return
    row.changed.append(now.window != own.window)
    if (place := row.rest) is not None:
        longest = config.max_length  # a wider window hides nothing more
        st.session_state[keys[1]] = min(now.window or 0, longest)
        beside = place.container(horizontal=True, vertical_alignment="center", width="content", gap="small")
        beside.caption(_("window (0: none)"), width="content")
        beside.number_input(_("window (0: none)"), 0, longest, key=keys[1], width=110, on_change=act, **NO_LABEL)
        if kind != "encoder" or not config.n_decoder_layers:
            each = [config.window_of(layer) for layer in range(config.depth(kind))]
            if len(set(each)) > 1:
                widths = ", ".join("–" if width is None else str(width) for width in each)
                place.caption(_("The layers differ in their window: {widths}").format(widths=widths))


def on_rules(own: Rules, rules: str, window: str) -> None:
    session, chosen = current_session(), st.session_state[rules]
    width = st.session_state.get(window, 0) or None
    if window not in st.session_state:  # its field is not drawn
        width = own.after(session.what_if.changes).window
    wanted = replace(own, causal="causal" in chosen, padding="padding" in chosen, window=width)
    session.change(wanted.changes(session.what_if.changes, own))


def on_cell(clicked: dict[str, Any]) -> None:
    """A click on a cell of the mask, or on the label of a row or column; of runs, on all their cells. The row's query
    becomes the chosen one.
    """
    session = current_session()
    kind = chosen_kind(attention_kinds(session.model.network))
    chosen, scope = fit(session, session.trace, kind), choice(SCOPES, SCOPES[0], Part.SCOPE)
    visible = of_head(session.trace.visible(session.trace.attention_paths(kind)[chosen.layer]), chosen.head)
    runs = GroupedAxes(session.trace, sides(session.trace, kind), merged(session))
    row, column = int(clicked["row"]), int(clicked["column"])
    pairs = [(query, key) for query in runs.queries_of(row) for key in runs.keys_of(column)]
    layer, head = None if scope == "all" else chosen.layer, chosen.head if scope == "head" else None
    visible_next = not any(bool(cells_at(visible, *pair).any()) for pair in pairs)
    changes = session.what_if.changes
    for query, key in pairs:
        cells = Cells(kind, visible_next, None if query < 0 else query, None if key < 0 else key, layer, head)
        changes = tuple(with_cells(changes, cells))
    if pairs[0][0] >= 0:
        session.select(query=pairs[0][0])
    session.change(changes)


def on_head(clicked: dict[str, Any]) -> None:
    """A click on a head of any attention chooses it."""
    session = current_session()
    kinds = attention_kinds(session.model.network)
    if int(clicked["row"]) >= 0 and int(clicked["column"]) >= 0:
        kind = kinds[int(clicked["panel"])]
        session.address.set_choices({Part.KIND: kind})
        session.select(layer=int(clicked["row"]), head=int(clicked["column"]))


@live
def on_place(clicked: dict[str, Any]) -> None:
    current_session().address.set(Part.PLACE, str(int(clicked["index"])))


@live
def on_future(clicked: dict[str, Any]) -> None:
    current_session().address.set(Part.FUTURE, str(int(clicked["index"])))


def place_of(name: str, default: int, length: int) -> int:
    """A position in the address bar, inside a text of this length."""
    wish = address_count(name)
    return min(default if wish is None else wish, length - 1)


def changed_token(session: Session, length: int) -> int:
    """Token of the written text that is changed at first: the chosen one, else one in the middle; never the first,
    before which nothing stands.
    """
    written = "target" if session.trace.target_tokens else "source"
    if session.selection.side == written and session.address.get(Parameter.QUERY) is not None:
        return min(max(1, session.selection.query), length - 1)
    return max(1, length // 2)


def run_experiment(
    name: str, model: TextModel, session: Session, kind: AttentionKind, chosen: Selection
) -> tuple[View | None, str, pd.DataFrame | None]:
    """View, sentence and numbers of an experiment."""
    inputs, trace, changes = session.inputs, session.trace, session.what_if.changes
    if name == "numbers":
        return None, *fill_experiment(trace, kind, chosen, session.comparison)
    if name == "order":
        orders, sentence, numbers = order_panels(inputs, kind, chosen, session.differing)
        return view(Part.ORDER, orders), sentence, numbers
    if not model.predicts:  # the others compare logits
        return None, no_predictions(), None
    if name == "batch":
        text = typed(Key.SOURCE, first_source(model))
        beside = others(session, EXAMPLES - 1)
        panels, numbers, lacking = batch_panels(inputs, text, beside, changes, kind, chosen)
        return view(Part.BATCH, panels), joined(" ", batch_sentence(model, len(beside)), lacking), numbers
    length = len(trace.target_tokens or trace.source_tokens)
    if length < 2:
        return None, _("The text has one token: there is no future to change."), None
    opened = opened_keys(trace, self_attention(model.network)) if changes else []
    place = place_of(Part.FUTURE, opened[0] if opened else changed_token(session, length), length)
    chart, sentence = future_chart(inputs, changes, place)
    of_others = (
        Message("The causal mask is that of self-attention: cross-attention has none, for the whole source is known.")
        if kind == "cross"
        else ""
    )
    words = sentences(sentence, of_others, untested_sentence(opened, place))
    return view(Part.FUTURE, chart, place=on_future), words, None
