"""Attention: every head of one kind, one or several combined large, one query step by step; importance; BertViz."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from model.analysis.attention_maps import Maps
from model.inference.text_model import TextModel
from viz.components.view import View, live
from viz.figures.heatmap import Heatmap, Lines
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error, unless_absent
from viz.i18n.format import as_sentence
from viz.i18n.messages import in_language
from viz.pages.attention import bertviz, components, importance  # noqa: F401  # components: the renderers of its figures
from viz.pages.attention.bertviz_scripts import VIEWS
from viz.pages.attention.controls import Choice, show_below, show_controls
from viz.pages.attention.figure import (
    file_name,
    head_figure,
    known_metrics,
    large,
    metrics_table,
    sink_column,
    weights_table,
)
from viz.pages.attention.head_by_head import (
    begin_job,
    chosen_image,
    combination,
    grid_as_it_fills,
    known,
    known_thumbnails,
    scale_of,
)
from viz.pages.attention.head_grid import Heads, Thumbnails, all_thumbnails, heads_grid
from viz.pages.attention.importance import Containers
from viz.pages.attention.steps import query_steps, steps_name, steps_table
from viz.pages.attention.text import bertviz_name, explain, missing, refusal, trace_name
from viz.pages.attention.vectors import vector_panels
from viz.pages.attention.view import HeadImage, HeadMaps, HeadSettings
from viz.render.view import FigureView, to_first, view
from viz.state.session import Selection, Session, attention_kinds, choose, current_session
from viz.state.token_groups import merged, of_trace
from viz.state.training import is_task
from viz.ui.long_text import is_very_long, watch_job
from viz.ui.parts import Drawing, Placed, Rest, Views, data_table, expander

if TYPE_CHECKING:
    from pandas import DataFrame
    from streamlit.delta_generator import DeltaGenerator

    from model.capture.trace import AttentionKind


class Part(StrEnum):
    """Keys of this page's components."""

    HEADS = "heads"
    HEAD = "head_large"
    LINES = "head_lines"
    STAGES = "stages"
    VECTORS = "query_vectors"
    EXPLANATION = "explanation"
    DATA = "data"
    METRICS = "metrics"
    BERTVIZ = "bertviz_open"


def page(model: TextModel) -> Views:
    """Places and controls first; then all that the session's trace of this model holds is packed; then mounted."""
    wish = show_controls(model)
    grid, figures = st.columns(2, gap="medium")
    with grid:
        heads = st.container(key="heads_all")  # on a narrow window the chosen one comes right after them, see frame.css
        below = show_below(model.kind)
        steps = st.container()
    with figures:
        figure = st.container(key="heads_chosen")
        beside = st.container()
        explain(Part.EXPLANATION, model.network, wish, below)
        places = importance_places(steps, beside) if below == "importance" else None
    under_heads, under_figure = st.columns(2, gap="medium")
    with under_heads:
        numbers = expander(Part.METRICS, _("Data: every head"))
    with under_figure:
        data = expander(Part.DATA, _("Data"))
    others = expander(Part.BERTVIZ, "BertViz")
    heads_of = partial(maps_now, wish)

    def views(model: TextModel) -> Drawing:
        session = current_session()
        head_maps = heads_of(session)
        maps = head_maps.maps
        chosen = session.fit_selection(maps.layers, maps.heads, maps.queries)
        session.selection.side = head_maps.rows
        long = is_very_long(session)
        job_values, problem = known_heads(session, head_maps) if long else ({}, "")
        thumbnails = known_thumbnails(head_maps, job_values) if long else all_thumbnails(head_maps)
        listed = head_maps.shown_heads(thumbnails.values)
        problem = problem or refusal(head_maps, listed)
        drawn, map_of = None, None
        if not long:
            yield [(heads, grid_of(session, head_maps, thumbnails))]  # painted while the rest is computed
        if not problem:
            drawn, problem = large_image(session, head_maps, chosen, listed, job_values if long else None)
        parts: list[Placed] = []
        if drawn is not None:
            scale = scale_of(head_maps, chosen, drawn, thumbnails) if long else thumbnails
            map_of = large_view(head_maps, head_figure(head_maps, drawn, scale, chosen, listed))
            parts.append((figure, map_of))
        if long:
            yield parts  # one head at once, and after it the others, one by one
            parts = []
        of_query = partial(query_closely, head_maps, chosen, steps, beside)
        closely = of_query() if places is None else importance_closely(places, model, wish.kind, chosen)
        parts += closely.parts
        if long:
            begin_job(session, head_maps, chosen, listed, job_values, drawn)
            parts.append((heads, grid_of(session, head_maps, thumbnails)))
        yield parts

        def rest() -> None:
            closely.rest()
            say(closely.lacking, steps)
            say(problem or missing(head_maps, chosen), figure)
            if long:
                watch_job(session, grid_as_it_fills(session, partial(heads_of, session), partial(grid_of, session)))
            elif session.saving and places is None:
                stepwise = closely.staged is not None
                offer_heads(head_maps, thumbnails, chosen, listed, drawn is not None, stepwise)
            weights: Callable[[], DataFrame] | None = None
            if map_of is not None and drawn is not None:
                sink = sink_column(head_maps, chosen, listed, (1, 1))
                # Of a long text a line for each block of cells, as it is drawn: there are millions.
                weights = map_of.table if long else partial(weights_table, head_maps, drawn, sink)
            more = closely.tables(head_maps, chosen)
            data_table(Part.DATA, weights, file_name(head_maps, chosen), place=data, more=more)
            of_heads = partial(metrics_table, head_maps) if not long else partial(known_metrics, head_maps, thumbnails)
            data_table(Part.METRICS, of_heads, f"heads-{wish.kind}", place=numbers)
            if others.open:
                with others:
                    show_bertviz(head_maps, chosen)

        return rest

    return views


def importance_places(steps: DeltaGenerator, beside: DeltaGenerator) -> Containers:
    """Places of the importance of heads, under the heads and under the chosen one."""
    table = expander(importance.Part.DATA, _("Data: importance"))
    above, maps = steps.container(), steps.container()
    chosen_one, alike, pair = (beside.container() for _part in range(3))
    return Containers(above, maps, chosen_one, alike, pair, table)


def maps_now(wish: HeadSettings, session: Session) -> HeadMaps:
    """Maps of the session's trace as the controls want them."""
    task = is_task(session, session.model)
    return HeadMaps(session.trace, wish, session.comparison, session.differing, merged(session), task)


def grid_of(session: Session, head_maps: HeadMaps, thumbnails: Thumbnails) -> View:
    chosen = session.fit_selection(head_maps.maps.layers, head_maps.maps.heads, head_maps.maps.queries)
    filmed = (
        session.training.step is not None and not session.what_if.changes
    )  # else the film shows another forward pass
    filmed = filmed and not head_maps.runs.joined
    listed, place = head_maps.shown_heads(thumbnails.values), (chosen.layer, chosen.head)
    return view(Part.HEADS, heads_grid(head_maps, thumbnails, listed, place, filmed), head=on_head, best=on_best)


def known_heads(session: Session, head_maps: HeadMaps) -> tuple[dict[Any, Any], str]:
    """Values that are computed of a long text so far, or a sentence where not even one map fits into memory."""
    try:
        return known(session, head_maps), ""
    except ValueError as error:
        return {}, as_sentence(translate_error(str(error)))


def large_image(
    session: Session, head_maps: HeadMaps, chosen: Selection, listed: Heads, job_values: dict[Any, Any] | None
) -> tuple[HeadImage | None, str]:
    """The chosen head or the combination of these, or a sentence while that is computed.

    job_values: what a long text has so far; None: the text is not long.
    """
    if job_values is None:
        return large(head_maps, chosen, listed), ""
    if head_maps.wish.combination != "head":
        return combination(head_maps, listed, job_values)
    return chosen_image(session, head_maps, chosen), ""


def large_view(head_maps: HeadMaps, figure: Heatmap) -> FigureView:
    """The large figure; a click on a row chooses its query."""
    key, on_row = (Part.LINES, on_line) if isinstance(figure, Lines) else (Part.HEAD, on_cell)
    return view(key, figure, row=to_first(on_row, head_maps.runs.rows))


def steps_view(head_maps: HeadMaps, chosen: Selection) -> FigureView:
    """The chosen query step by step; a click on a query chooses that."""
    return view(Part.STAGES, query_steps(head_maps, chosen), query=to_first(on_query, head_maps.runs.rows))


def vectors_view(head_maps: HeadMaps, chosen: Selection) -> FigureView:
    """The vectors of the chosen query."""
    return view(Part.VECTORS, vector_panels(head_maps, chosen))


@dataclass(frozen=True)
class Closely:
    """Views beneath the heads, in their places.

    lacking: a sentence where the model does not show it. rest: what only the script draws. staged, vectors: the steps
    of a query.
    """

    parts: Sequence[Placed]
    lacking: str
    rest: Rest = lambda: None
    staged: View | None = None
    vectors: FigureView | None = None

    def tables(self, head_maps: HeadMaps, chosen: Selection) -> dict[str, Any]:
        """Tables of the steps, by their names."""
        by_name: dict[str, Any] = {}
        if self.staged is not None:
            by_name[in_language(steps_name(chosen))] = partial(steps_table, head_maps, chosen)
        if self.vectors is not None:
            by_name[self.vectors.caption.name] = self.vectors.table
        return by_name


def query_closely(head_maps: HeadMaps, chosen: Selection, place: DeltaGenerator, beside: DeltaGenerator) -> Closely:
    """The chosen query step by step, and beside it, under the large figure, its vectors."""
    staged, lacking = unless_absent(partial(steps_view, head_maps, chosen))
    if staged is None:
        return Closely([], lacking)
    vectors, _lacking = unless_absent(partial(vectors_view, head_maps, chosen))
    parts: list[Placed] = [(place, staged)]
    return Closely(parts if vectors is None else [*parts, (beside, vectors)], lacking, staged=staged, vectors=vectors)


def importance_closely(places: Containers, model: TextModel, kind: AttentionKind, chosen: Selection) -> Closely:
    """Importance of the heads."""
    weighing = importance.show(places, model, kind, chosen)
    weighed, lacking = unless_absent(partial(next, weighing))
    after = None if lacking else rest_of(weighing)
    return Closely(weighed or (), lacking, after or (lambda: None))


def offer_heads(
    head_maps: HeadMaps, thumbnails: Thumbnails, chosen: Selection, listed: Heads, large_one: bool, stepwise: bool
) -> None:
    """Views that a click on each of these heads shows in a page file. large_one: there is a large figure."""
    choices = current_session().choices
    for layer, head in listed:
        one, place = replace(chosen, layer=layer, head=head), {"layer": layer, "head": head}
        views: list[View] = []
        if large_one:
            image = large(head_maps, one, listed)
            views.append(large_view(head_maps, head_figure(head_maps, image, thumbnails, one, listed)))
        if stepwise:
            views.append(steps_view(head_maps, one))
            vectors, _lacking = unless_absent(partial(vectors_view, head_maps, one))
            views += [] if vectors is None else [vectors]
        if not all(choices.add(Part.HEADS, "head", place, view.key, view.data) for view in views):
            return


def rest_of(drawing: Drawing) -> Rest | None:
    """Parts that only the script draws, of a drawing whose views are all there."""
    try:
        next(drawing)
    except StopIteration as end:
        rest: Rest | None = end.value
        return rest
    raise AssertionError("one group of views")


def say(sentence: str, place: DeltaGenerator | None = None) -> None:
    if sentence:
        (st if place is None else place).info(in_language(sentence))


def show_bertviz(head_maps: HeadMaps, chosen: Selection) -> None:
    """BertViz's views, made when the user opens them; they draw no differences, but either trace."""
    maps, runs = head_maps.maps, merged(current_session())
    row = st.container(horizontal=True, vertical_alignment="center")
    view = choose("BertViz", VIEWS, VIEWS[0], Choice.BERTVIZ, bertviz_name, row)
    if head_maps.comparison is not None:
        traces = ("current", "pinned")
        which = choose(_("Trace"), traces, traces[0], Choice.BERTVIZ_TRACE, trace_name, row)
        row.caption(_("BertViz draws one trace at a time, and no differences."), width="content")
        if which == "pinned" and not head_maps.comparison.pinned.attention_paths(maps.kind):
            return say(_("The pinned model has no attention of this kind: BertViz cannot draw it."))
        if which == "pinned":
            maps = Maps(head_maps.comparison.pinned, maps.kind)
            runs = of_trace(current_session(), head_maps.comparison.pinned) if runs else {}
    longest = max(map(len, bertviz.drawn(maps, view, runs).labels))
    if longest > bertviz.MOST:
        text = _("BertViz draws a line for every cell: it is shown up to {most} tokens, this text has {count}.")
        return say(text.format(most=bertviz.MOST, count=longest))
    layer, head = min(chosen.layer, maps.layers - 1), min(chosen.head, maps.heads - 1)
    try:
        page = bertviz.document(maps, view, layer, head, st.context.theme.type == "dark", runs)
    except ValueError as error:
        return say(translate_error(error))
    st.iframe(
        bertviz.address(page),
        height=bertviz.height(maps, view, runs),
        alt=f"BertViz: {in_language(bertviz_name(view))}",
    )


@live
def on_head(clicked: dict[str, Any]) -> None:
    current_session().select(layer=int(clicked["layer"]), head=int(clicked["head"]))


def on_best(clicked: dict[str, Any]) -> None:
    if (kind := clicked["kind"]) in attention_kinds(current_session().model.network):
        importance.open_head((kind, int(clicked["layer"]), int(clicked["head"])))


@live
def on_query(clicked: int) -> None:
    current_session().select(query=int(clicked))


@live
def on_cell(clicked: int) -> None:
    current_session().select(query=int(clicked))


@live
def on_line(clicked: int) -> None:
    current_session().select(query=int(clicked))
