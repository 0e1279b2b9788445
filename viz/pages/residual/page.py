"""Norms and residual: what every norm does, the residual stream, where both stand, dropout, and gradients."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis.dropout import sites
from model.analysis.norms import QUANTITIES, stack_norms
from model.analysis.residual import blocks, stacks
from model.inference.text_model import TextModel
from viz.components.view import live
from viz.i18n.catalogue import _
from viz.i18n.errors import reason_words
from viz.i18n.format import as_sentence, attention_name
from viz.i18n.messages import in_language
from viz.pages.residual import batch_norm, dropout, gradients, norm_forms, norms, placement, stream
from viz.pages.residual.text import RESIDUAL_VIEWS, residual_view
from viz.render.view import view
from viz.state.sentences import others
from viz.state.session import Session, choice, choose, current_session
from viz.ui.choice_row import ChoiceRow, choice_row
from viz.ui.parts import Drawing, Views, data_table, expander, no_views, under_figures


class Part(StrEnum):
    """Keys of this page's controls, which are parameters of the address bar, and of its components."""

    STACK = "stack"
    VIEW = "residual_view"
    NORM = "norm"
    OF_NORM = "statistic"
    OF_STREAM = "stream"
    OF_BATCH = "moment"
    SITE = "site"
    OF_GRADIENTS, OF_WEIGHTS = "gradient", "gradient_of"
    ASK = "gradients_ask"
    MASKS, RATE = "masks", "residual_rate"
    NORMS = "residual_norms"
    MAP, SECOND, THIRD = "residual_map", "residual_second", "residual_third"
    COSINES, WIRES, ENTRIES = "residual_cosines", "residual_wires", "residual_entries"  # a key has one component
    HEADS = "residual_heads"
    BEFORE, STANDARDISED, AFTER = "residual_before", "residual_standardised", "residual_after"
    EXPLANATION, DATA = "residual_explanation", "residual_data"


STEPS = (Part.BEFORE, Part.STANDARDISED, Part.AFTER)


def page(model: TextModel) -> Views:
    """Places and controls first; then all that the session's trace of this model holds is packed; then mounted."""
    if why := model.network.missing.get("stream"):
        st.info(reason_words(why))
        return no_views
    with choice_row("residual") as row:
        stack, *others = names = stacks(model.config)
        if others:
            stack = choose(_("Stack"), names, names[-1], Part.STACK, attention_name, row.place)
        view = choose(_("View"), RESIDUAL_VIEWS, RESIDUAL_VIEWS[0], Part.VIEW, residual_view, row.place)
        if model.config.norm == "none" and view in ("norms", "forms", "batch"):
            st.info(_("This model has no norms: its config says “none”, and its residual stream is never normalised."))
            return no_views
        shows = (show_norms, show_stream, show_forms, show_batch, show_placement, show_dropout, show_gradients)
        return shows[RESIDUAL_VIEWS.index(view)](model, stack, row)


def show_norms(model: TextModel, stack: str, choices: ChoiceRow) -> Views:
    left, right = st.columns([11, 9], gap="medium")
    quantity = choices.choose(_("Quantity"), QUANTITIES, "std", Part.OF_NORM, norms.quantity_name)
    channels, weights = st.columns([11, 9], gap="medium")
    norms.explain(Part.EXPLANATION, model.network)
    data = expander(Part.DATA, _("Data"))

    def views(model: TextModel) -> Drawing:
        session = current_session()
        paths, row, token = norms.chosen_norm(session, stack, session.address.get(Part.NORM))
        inputs = session.inputs
        parts = [
            (left, view(Part.MAP, norms.norm_map(inputs, stack, paths, quantity, (row, token)), cell=on_norm)),
            *(
                (right, view(key, step))
                for key, step in zip(STEPS, norms.norm_steps(inputs, paths[row], token), strict=True)
            ),
            (channels, view(Part.SECOND, norms.norm_channels(inputs, paths[row], token))),
            (weights, view(Part.THIRD, norms.norm_weights(inputs, paths[row]))),
        ]
        yield parts

        def rest() -> None:
            data_table(Part.DATA, lambda: norms.norms_table(inputs), "norms", place=data, parts=parts)

        return rest

    return views


def show_stream(model: TextModel, stack: str, choices: ChoiceRow) -> Views:
    left, right = st.columns([11, 9], gap="medium")
    quantity = choices.choose(_("Quantity"), names := stream.QUANTITIES, names[0], Part.OF_STREAM, stream.quantity_name)
    with left:
        figure, note = st.container(), st.container()
    data = under_figures(partial(stream.explain, Part.EXPLANATION, model.config), Part.DATA)

    def views(model: TextModel) -> Drawing:
        session, steps = current_session(), blocks(model.config, stack)
        inputs, token = session.inputs, norms.chosen_token(session, stack)
        chosen = (stream.first_of(steps, session.selection.layer) + (quantity == "length"), token)
        parts = [
            (figure, view(Part.MAP, stream.stream_map(inputs, stack, steps, quantity, chosen), cell=on_step)),
            (right, view(Part.SECOND, stream.stream_chart(inputs, stack, steps, quantity, token))),
            (right, view(Part.COSINES, stream.cosine_map(inputs, stack, steps))),
        ]
        sentence = in_language(stream.sum_sentence(inputs, steps))
        yield parts

        def rest() -> None:
            (note.caption if model.config.residual else note.info)(sentence)
            table = partial(stream.stream_table, inputs, stack, steps)
            data_table(Part.DATA, table, f"stream-{stack}", place=data, parts=parts)

        return rest

    return views


def show_forms(model: TextModel, stack: str, choices: ChoiceRow) -> Views:
    picker, table = st.columns([3, 8], gap="medium")
    left, right = st.columns(2, gap="medium")
    norm_forms.explain(Part.EXPLANATION)
    data = expander(Part.DATA, _("Data"))

    def views(model: TextModel) -> Drawing:
        session, epsilon = current_session(), model.config.norm_epsilon
        paths, row, token = norms.chosen_norm(session, stack, session.address.get(Part.NORM))
        inputs = session.inputs
        parts = [
            (left, view(Part.SECOND, norm_forms.form_differences(inputs, paths[row], token, epsilon))),
            (right, view(Part.THIRD, norm_forms.form_widths(inputs, paths[row], epsilon))),
        ]
        frame = norm_forms.form_table(inputs, paths[row], token, epsilon)
        yield parts

        def rest() -> None:
            pick_norm(picker, paths, row)
            listed = table.container(key="norm_forms")
            listed.dataframe(frame.style.format(norm_forms.digits(frame)), hide_index=True)
            data_table(Part.DATA, lambda: frame, "norm-forms", place=data, parts=parts)

        return rest

    return views


def show_batch(model: TextModel, stack: str, choices: ChoiceRow) -> Views:
    picker = st.container(width=260)
    moment = choices.choose(_("Quantity"), batch_norm.MOMENTS, "std", Part.OF_BATCH, batch_norm.moment_name)
    note = st.container()
    left, right = st.columns(2, gap="medium")
    batch_norm.explain(Part.EXPLANATION)
    data = st.container()

    def views(model: TextModel) -> Drawing:
        session = current_session()
        paths, chosen, _token = norms.chosen_norm(session, stack, session.address.get(Part.NORM))
        path, inputs, beside = paths[chosen], session.inputs, others(session, batch_norm.MOST_OTHERS)
        batch = batch_norm.text_batch(inputs, beside)
        measured = batch_norm.statistics(inputs.trace, batch, path) if batch else None
        parts = []
        if batch and measured:
            statistics = batch_norm.layer_map(inputs, batch, measured, path, moment, bool(beside))
            parts = [
                (left, view(Part.MAP, statistics)),
                (right, view(Part.SECOND, batch_norm.batch_chart(inputs, measured, moment))),
            ]
        yield parts

        def rest() -> None:
            pick_norm(picker, paths, chosen)
            if not batch or measured is None:
                note.info(_("A batch is made of the text and its parts: type at least two tokens on each side."))
                return
            note.markdown(batch_norm.sentence(batch, measured, path))
            if session.pin:
                note.caption(_("The batch is made of the current text alone: there is none of the pinned one."))
            with data:
                data_table(Part.DATA, lambda: batch_norm.batch_table(measured), "batch-norm", parts=parts)

        return rest

    return views


def show_placement(model: TextModel, stack: str, choices: ChoiceRow) -> Views:
    left, right = st.columns([11, 9], gap="medium")
    with right:
        curves = st.container()
        placement.explain(Part.EXPLANATION, model.config)
        data = expander(Part.DATA, _("Data"))
        if not (normed := model.config.norm != "none"):
            curves.info(_("This model has no norms: there is none that could stand elsewhere."))

    def views(model: TextModel) -> Drawing:
        inputs, steps = current_session().inputs, blocks(model.config, stack)
        parts = [(left, view(Part.WIRES, placement.wires(inputs)))]
        if normed:
            parts.append((curves, view(Part.SECOND, placement.placement_chart(inputs, steps))))
        yield parts

        def rest() -> None:
            table = partial(placement.placement_table, inputs, steps) if normed else None
            data_table(Part.DATA, table, "placement", place=data, parts=parts)

        return rest

    return views


def show_dropout(model: TextModel, stack: str, choices: ChoiceRow) -> Views:
    rates = sites(model.config)
    name_of = partial(dropout.site_name, rates=rates)
    row = st.container(key="choices_dropout", horizontal=True, vertical_alignment="center")
    site = choose(_("Place"), list(rates), "block", Part.SITE, name_of, row)
    beside = row.container(horizontal=True, vertical_alignment="center", width="content", gap="small")
    usual, key = rates[site] or dropout.EXAMPLE_RATE, f"{Part.RATE}_{model.name}_{site}"
    beside.caption(_("Rate p"), width="content")
    rate = beside.number_input(_("Rate p"), 0.01, 0.99, usual, 0.05, key=key, label_visibility="collapsed", width=130)
    masks = int(choose(_("Masks"), dropout.MASKS, "1000", Part.MASKS, dropout.masks_name, row))
    left, right = st.columns(2, gap="medium")
    dropout.explain(Part.EXPLANATION)
    data = expander(Part.DATA, _("Data"))

    def views(model: TextModel) -> Drawing:
        session = current_session()
        layer = min(session.selection.layer, blocks(model.config, stack)[-1].layer)
        name, token = dropout.vector_name(model.config, stack, site, layer), norms.chosen_token(session, stack)
        inputs = session.inputs
        measured = dropout.measured(inputs, name, token, rate, masks)
        before = dropout.pinned_measured(inputs, name, token, rate, masks)
        parts = [
            (left, view(Part.ENTRIES, dropout.dropout_chart(inputs, name, token, measured, before, rate))),
            (right, view(Part.SECOND, dropout.error_chart(inputs, name, measured[1], before, rate))),
        ]
        yield parts

        def rest() -> None:
            if rates[site] == 0:
                right.info(_("This model was trained without dropout at this place; the rate is an example."))
            right.dataframe(frame := dropout.summary(measured, before, rate), hide_index=True)
            data_table(Part.DATA, lambda: frame, "dropout", place=data, parts=parts)

        return rest

    return views


def show_gradients(model: TextModel, stack: str, choices: ChoiceRow) -> Views:
    if sentence := gradients.refusal(model):
        st.info(sentence)
        return no_views
    left, right = st.columns([11, 9], gap="medium")
    of_stream, name_of = gradients.STREAM_QUANTITIES, gradients.stream_quantity_name
    shade = choices.choose(_("Quantity"), of_stream, of_stream[0], Part.OF_GRADIENTS, name_of)
    of_weights = gradients.QUANTITIES
    quantity = choices.choose(_("Weights"), of_weights, of_weights[0], Part.OF_WEIGHTS, gradients.quantity_name)
    with left:
        figure, note = st.container(), st.container()
    data = under_figures(partial(gradients.explain, Part.EXPLANATION), Part.DATA)

    def views(model: TextModel) -> Drawing:
        session = current_session()
        sizes, token = gradients.gradients_of(session), norms.chosen_token(session, stack)
        if isinstance(sizes, gradients.NoGradients):
            yield []
            return partial(offer, note, sizes)
        inputs = session.inputs
        row = stream.first_of(blocks(model.config, stack), session.selection.layer) + 1
        parts = [
            (figure, view(Part.MAP, gradients.stream_map(inputs, stack, sizes, shade, (row, token)), cell=on_gradient)),
            (right, view(Part.SECOND, gradients.block_chart(inputs, stack, sizes, quantity))),
            (
                right,
                view(
                    Part.HEADS, gradients.head_panels(inputs, stack, sizes, quantity, session.differing), cell=on_head
                ),
            ),
        ]
        sentence = gradients.loss_sentence(sizes)
        yield parts

        def rest() -> None:
            note.caption(sentence)
            table = partial(gradients.table, model.config, sizes)
            data_table(Part.DATA, table, f"gradients-{stack}", place=data, parts=parts)

        return rest

    return views


def offer(place: DeltaGenerator, lack: gradients.NoGradients) -> None:
    """The reason why there are no gradients, or a button that asks for what takes long."""
    if lack.sentence:
        place.info(as_sentence(lack.sentence))
    else:
        label = gradients.offer_words(lack.subject)
        place.button(label, key=Part.ASK, on_click=lambda: gradients.ask(current_session()))


def pick_norm(place: DeltaGenerator, paths: list[str], row: int) -> None:
    """A list of the stack's norms, with the chosen one."""
    st.session_state[Part.NORMS] = paths[row]

    config = current_session().model.config

    def name_of(path: str) -> str:
        return in_language(norms.norm_place(config, path))

    place.selectbox(_("Norm"), paths, format_func=name_of, key=Part.NORMS, on_change=on_norm_list, width=260)


@live
def on_norm(clicked: dict[str, Any]) -> None:
    """A click on a norm at a token."""
    session = current_session()
    session.select(query=int(clicked["column"]))
    choose_norm(session, stack_norms(session.trace, current_stack(session))[int(clicked["row"])])


def on_norm_list() -> None:
    choose_norm(current_session(), st.session_state[Part.NORMS])


def choose_norm(session: Session, path: str) -> None:
    session.address.set(Part.NORM, path)
    if (layer := norms.layer_of(path)) is not None:
        session.select(layer=layer)


@live
def on_step(clicked: dict[str, Any]) -> None:
    """A click on a step of the stream at a token chooses the token and the step's layer."""
    session = current_session()
    steps = blocks(session.model.config, current_stack(session))
    row = int(clicked["row"]) - (choice(stream.QUANTITIES, "length", Part.OF_STREAM) == "length")
    session.select(layer=steps[max(0, row)].layer, query=int(clicked["column"]))


@live
def on_gradient(clicked: dict[str, Any]) -> None:
    """A click on a state of the stream at a token chooses the token and the state's layer."""
    session = current_session()
    steps = blocks(session.model.config, current_stack(session))
    session.select(layer=steps[max(0, int(clicked["row"]) - 1)].layer, query=int(clicked["column"]))


@live
def on_head(clicked: dict[str, Any]) -> None:
    if int(clicked["row"]) >= 0 and int(clicked["column"]) >= 0:
        current_session().select(layer=int(clicked["row"]), head=int(clicked["column"]))


def current_stack(session: Session) -> str:
    return choice(names := stacks(session.model.config), names[-1], Part.STACK)
