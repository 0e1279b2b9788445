"""Predictions: each token's probability, what sampling does to it, the logit lens and what adds to the logits, the
decoding film, the beam tree.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis.logit_attribution import Part as LogitPart
from model.inference.beam_search import SearchTree
from model.inference.decoding import Generation
from model.inference.text_model import TextModel
from model.message import InputError
from model.network.config import TWO_STACKS
from viz.components.view import live
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, no_predictions
from viz.pages.predictions import attribution, beam_tree, decoding_film, logit_lens, positions, sampling
from viz.pages.predictions import text as explaining
from viz.render.view import view
from viz.state.session import Key, Session, choose, current_session
from viz.state.texts import CONTINUED, first_source, typed, write_source
from viz.state.texts import write as write_text
from viz.ui.choice_row import ChoiceRow, choice_row
from viz.ui.parts import Drawing, Placed, Views, data_table, expander, no_views, under_figures
from viz.ui.prediction import Subject

VIEWS = ("positions", "sampling", "layers", "film", "search")
OF_WRITERS = ("film", "search")
BEAMS = ("2", "4", "8")


class Part(StrEnum):
    """Keys of this page's components and widgets; those of choices are in the address."""

    VIEW = "view"
    LOSSES = "losses"
    TOP = "top_tokens"
    RANKING = "ranking"
    CURVE = "rank_curve"
    SATURATION = "saturation"
    SHADE = "shade"
    LENS = "logit_lens"
    PROBABILITY = "layer_probability"
    RANK = "layer_rank"
    ENTROPY = "layer_entropy"
    ATTRIBUTED = "attributed"
    RAISED = "attribution_raised"
    LOWERED = "attribution_lowered"
    POSITION = "attribution_position"
    LAYER = "attribution_layer"
    FILM = "film"
    BEAM = "beam"
    TREE = "beam_tree"
    FOUND = "beam_found"
    GREEDY = "greedy_text"
    EXPLANATION = "predictions_explanation"
    DATA = "predictions_data"


def page(model: TextModel) -> Views:
    """Places and controls first; then all that the session's trace of this model holds is packed; then mounted."""
    with choice_row("predictions") as row:
        name = choose(_("View"), views_of(model), VIEWS[0], Part.VIEW, explaining.view_name, row.place)
        if not model.predicts:
            st.info(no_predictions())
            return no_views
        drawing: dict[str, Callable[[TextModel, ChoiceRow], Views]] = {
            "positions": show_positions,
            "sampling": show_sampling,
            "layers": show_layers,
            "film": show_film,
            "search": show_search,
        }
        return drawing[name](model, row)


def views_of(model: TextModel) -> list[str]:
    """The views of this kind of model: two are of a model that writes from left to right."""
    return [each for each in VIEWS if model.kind != "encoder-only" or each not in OF_WRITERS]


def subject_here() -> Subject:
    """The predictions of what the session shows; a click on the text that is written chooses another position."""
    session = current_session()
    session.selection.side = "target" if session.trace.target_tokens else "source"
    return Subject(session.inputs, session.differing)


def show_pin_note(place: DeltaGenerator, subject: Subject) -> None:
    if subject.comparison is not None and subject.pinned is None:
        place.caption(_("The pinned trace predicts other tokens (another vocabulary): there is nothing to compare."))


def show_positions(model: TextModel, row: ChoiceRow) -> Views:
    left, right = st.columns([11, 9], gap="medium")
    places = left.container(), left.container(), right.container()
    with right:
        explaining.positions(Part.EXPLANATION, model)
        data = expander(Part.DATA, _("Data"))

    def views(model: TextModel) -> Drawing:
        subject = subject_here()
        parts = [
            (places[0], view(Part.LOSSES, positions.losses_chart(subject), place=on_place)),
            (places[1], view(Part.TOP, positions.top_map(subject), row=on_row)),
            (places[2], view(Part.RANKING, positions.position_ranking(subject), choice=on_choice)),
        ]
        yield parts

        def rest() -> None:
            now = current_session()
            if model.kind in TWO_STACKS and now.generation is not None and not now.origin:
                places[0].caption(explaining.how_written(bool(now.what_if.changes)))
            show_pin_note(places[2], subject)
            data_table(Part.DATA, lambda: positions.table(subject), "predictions", place=data, parts=parts)

        return rest

    return views


def show_sampling(model: TextModel, row: ChoiceRow) -> Views:
    left, right = st.columns([9, 11], gap="medium")
    with left:
        chosen = sampling.sampling_sliders(len(model.target_tokenizer))
        places = st.container(), st.container()
    right_place = right.container()
    with right:
        explaining.sampling(Part.EXPLANATION)
        data = expander(Part.DATA, _("Data"))

    def views(model: TextModel) -> Drawing:
        subject = subject_here()
        drawn = sampling.draw(subject, chosen)
        ranking = sampling.drawn_ranking(subject, chosen, drawn)
        parts = [
            (places[0], view(Part.SATURATION, sampling.saturation_chart(subject, chosen.temperature))),
            (places[1], view(Part.CURVE, sampling.rank_chart(subject, drawn))),
            (right_place, view(Part.RANKING, ranking, choice=on_choice)),
        ]
        yield parts

        def rest() -> None:
            show_pin_note(right_place, subject)
            data_table(Part.DATA, lambda: sampling.table(subject, drawn), "sampling", place=data, parts=parts)

        return rest

    return views


def show_layers(model: TextModel, row: ChoiceRow) -> Views:
    left, right = st.columns([11, 9], gap="medium")
    shade = row.choose(_("Colour"), logit_lens.SHADES, logit_lens.SHADES[0], Part.SHADE, logit_lens.shade_name)
    place, note = left.container(), left.container()
    charts = [right.container() for _chart in range(3)]
    controls = st.container(horizontal=True, vertical_alignment="bottom")
    names = attribution.OF
    of = choose(_("Parts"), names, names[0], Part.ATTRIBUTED, attribution.of_name, controls.container(width="content"))
    maps = st.columns(2, gap="medium")
    data = under_figures(partial(explaining.layers, Part.EXPLANATION, model), Part.DATA)

    def views(model: TextModel) -> Drawing:
        subject = subject_here()
        readings, shares = logit_lens.read(subject), attribution.found_of(current_session(), subject, of)
        parts: list[Placed] = [
            (place, view(Part.LENS, logit_lens.lens_map(subject, readings, shade), row=on_row)),
            (charts[0], view(Part.PROBABILITY, logit_lens.probability_chart(subject, readings))),
            (charts[1], view(Part.RANK, logit_lens.rank_chart(subject, readings))),
            (charts[2], view(Part.ENTROPY, logit_lens.entropy_chart(subject, readings))),
        ]
        if shares.own is not None:
            answer = on_block if of == "blocks" else on_head
            parts += [
                (maps[0], view(Part.RAISED, attribution.tokens_map(subject, shares, of, lowered=False), row=answer)),
                (maps[1], view(Part.LOWERED, attribution.tokens_map(subject, shares, of, lowered=True), row=answer)),
            ]
        yield parts

        def rest() -> None:
            note.caption(logit_lens.explained(subject))
            show_pin_note(note, subject)
            if subject.pinned is not None and readings.pinned is None:
                note.caption(_("The pinned model has other layers: the lens cannot be compared layer by layer."))
            pick_place(controls, subject, of)
            if shares.own is None:
                maps[0].info(shares.sentence)
            elif subject.differing and shares.pinned is None:
                controls.caption(_("The pinned trace has no such parts at this token: values are shown."))
            data_table(Part.DATA, lambda: logit_lens.table(subject, readings), "logit-lens", place=data, parts=parts)

        return rest

    return views


def pick_place(place: DeltaGenerator, subject: Subject, of: str) -> None:
    """Lists of the positions and, for heads, of the layers, with the chosen ones."""
    st.session_state[Part.POSITION] = subject.chosen
    names = [f"{number + 1} · {subject.question(number)}" for number in range(len(subject.tokens))]
    place.selectbox(
        _("Position"),
        range(len(names)),
        format_func=names.__getitem__,
        key=Part.POSITION,
        on_change=on_position,
        width=220,
    )
    if of == "heads":
        st.session_state[Part.LAYER] = attribution.layer_of(subject)
        layers = range(attribution.layers_of(subject))
        place.selectbox(
            _("Layer"), layers, format_func=lambda layer: str(layer + 1), key=Part.LAYER, on_change=on_layer, width=100
        )


def show_film(model: TextModel, row: ChoiceRow) -> Views:
    place = st.container()
    explaining.film(Part.EXPLANATION)
    data = expander(Part.DATA, _("Data"))

    def views(model: TextModel) -> Drawing:
        subject = subject_here()
        parts = [(place, view(Part.FILM, decoding_film.film_figure(subject), choice=on_choice))]
        yield parts

        def rest() -> None:
            show_pin_note(place, subject)
            data_table(Part.DATA, None, "decoding-film", place=data, parts=parts)

        return rest

    return views


def show_search(model: TextModel, row: ChoiceRow) -> Views:
    above, place = st.container(), st.container()
    beam = int(choose(_("Beam"), BEAMS, "4", Part.BEAM, lambda width: _("beam {width}").format(width=width), row.place))
    explaining.search(Part.EXPLANATION)
    data = expander(Part.DATA, _("Data"))

    def views(model: TextModel) -> Drawing:
        session = current_session()
        try:
            tree = searched(model, beam)
        except InputError as error:
            reason = as_sentence(translate_error(error))
            yield []

            def why() -> None:
                above.info(reason)

            return why
        parts = [(place, view(Part.TREE, beam_tree.tree_figure(session.inputs, tree), node=on_node))]
        yield parts

        def rest() -> None:
            above.text(beam_tree.compared(model, tree, beam, written_greedily(model)))
            if session.pin is not None:
                place.caption(_("A pin keeps a trace and no search: this tree is that of the current text alone."))
            if len(tree.finished) > beam:
                place.caption(beam_tree.ended_words(len(tree.finished), beam))
            data_table(Part.DATA, None, "beam-search", place=data, parts=parts)

        return rest

    return views


def searched(model: TextModel, beam: int) -> SearchTree:
    """The beam search of the current text, run again only when text, model, beam or changes to it are others."""
    session = current_session()
    text, what_if, known = typed(Key.SOURCE, first_source(model)), session.what_if, session.memory.get(Part.FOUND)
    if known is None or known[0] is not model or known[1:4] != (text, beam, what_if.changes):
        tree = what_if.generate(model, text, beam=beam, length=length_of(model)).tree
        assert tree is not None
        known = session.memory[Part.FOUND] = (model, text, beam, what_if.changes, tree)
    search_tree: SearchTree = known[4]
    return search_tree


def written_greedily(model: TextModel) -> Generation:
    """Greedy decoding of the current text, which the search is compared with."""
    session = current_session()
    text, what_if = typed(Key.SOURCE, first_source(model)), session.what_if
    made_of = model, text, what_if.changes
    return session.cached(Part.GREEDY, made_of, lambda: what_if.generate(model, text, length=length_of(model)))


def length_of(model: TextModel) -> int | None:
    """Most tokens to write: a model that continues a text does not end by itself."""
    return CONTINUED if model.kind == "decoder-only" else None


@live
def on_place(clicked: dict[str, Any]) -> None:
    """A click on a loss chooses the position that predicts the token there."""
    session = current_session()
    shift = 0 if session.model.kind == "encoder-only" else 1
    session.select(query=max(0, int(clicked["index"]) - shift))


@live
def on_row(clicked: int) -> None:
    current_session().select(query=int(clicked))


@live
def on_block(clicked: int) -> None:
    """A click on a block of the table chooses its layer."""
    session = current_session()
    if (layer := clicked_part(session, clicked).layer) is not None:
        session.select(layer=layer)


@live
def on_head(clicked: int) -> None:
    session = current_session()
    if (head := clicked_part(session, clicked).head) is not None:
        session.select(head=head)


def clicked_part(session: Session, row: int) -> LogitPart:
    own, _absent = session.memory["attribution"][1]
    parts: list[LogitPart] = own.parts
    return parts[min(int(row), len(parts) - 1)]


def on_position() -> None:
    current_session().select(query=int(st.session_state[Part.POSITION]))


def on_layer() -> None:
    current_session().select(layer=int(st.session_state[Part.LAYER]))


@live
def on_choice(clicked: dict[str, Any]) -> None:
    """A click on a token that was not chosen: the text goes on from it."""
    session = current_session()
    model, texts = session.model, (typed(Key.SOURCE, first_source(session.model)), typed(Key.TARGET, ""))
    place, token = int(clicked["position"]), int(clicked["token"])
    with session.what_if.in_effect(model):
        write(model, beam_tree.after_position(model, *texts, session.generation, session.source, place, token))


@live
def on_node(clicked: int) -> None:
    """A click on a candidate of the search: the text goes on from it."""
    model, text, _beam, _changes, tree = current_session().memory[Part.FOUND]
    node = int(clicked)
    if node < len(tree.nodes):  # a click on a tree that another text has replaced means nothing
        with current_session().what_if.in_effect(model):
            write(model, beam_tree.after_search(model, text, beam_tree.tokens_to(tree, node)))


def write(model: TextModel, text: str) -> None:
    """Put what was chosen where it can be typed on: into the target, or the text of a model without one."""
    if model.kind in TWO_STACKS:
        write_text(Key.TARGET, text)
    else:
        write_source(text)
