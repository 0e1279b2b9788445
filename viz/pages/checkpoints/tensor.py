"""One tensor large: its values, how they are spread, the directions it uses, what its rows are near to."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.analysis.weights import spectra
from model.analysis.weights import statistics as weights
from model.checkpoints.tensors import TensorInfo
from model.message import Message
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import bytes_text, duration, literal, shape_text, token_code, type_text, with_label
from viz.i18n.messages import in_language
from viz.pages.checkpoints import tensor_figures
from viz.pages.checkpoints.measuring import TensorStatistics, measured
from viz.pages.checkpoints.subjects import REGION, Subject, model_of
from viz.pages.checkpoints.tensor_figures import Blocks, Region, Weight, short, summary, whole
from viz.render.view import view as figure_view
from viz.state.session import Session, choose, current_session
from viz.ui.parts import explanation

# A key belongs to one component: the browser keeps what it has drawn under it.
MAP, POSITIONS = "w_map", "w_positions"  # heatmaps
FEATURES, HISTOGRAM, SPECTRUM, LEFT, RIGHT, NEAR = (
    f"w_{name}" for name in ("features", "histogram", "spectrum", "left", "right", "near")
)  # charts
LOG, BLOCK, DETAIL, ROW = "w_log", "w_block", "w_detail", "w_row"
COUNTS = {"linear": Message("counts"), "log": Message("log counts")}
BLOCKS = {"mean": Message("means"), "largest": Message("largest |x|")}
DETAILS = {
    "spectrum": Message("Singular values"),
    "vectors": Message("Singular vectors"),
    "neighbours": Message("Nearest tokens"),
    "positions": Message("Similarity of positions"),
}
CLOSER = 48  # rows and columns that a click looks at


def show(subject: Subject, all_statistics: TensorStatistics, info: TensorInfo) -> None:
    """The chosen tensor; its numbers are computed once. Of a single number all is said in the heading."""
    heading = title(info, f"{shape_text(info.shape)} · {type_text(info)} · {bytes_text(info.bytes)}")
    weight = weight_of(subject, all_statistics, info)
    if isinstance(weight, str):
        st.caption(literal(weight))
        return
    heading.caption(in_language(summary(weight)), width="content")
    if not info.shape:
        return
    left, right = st.columns([11, 9], gap="medium")
    matrix = tensor_figures.is_matrix(weight)
    with left:
        if matrix:
            draw_matrix(weight, partial(tensor_figures.blocks_of, weight))
        else:
            figure_view(FEATURES, tensor_figures.feature_chart([weight]))()
    with right:
        spread([weight])
        if matrix:
            details(subject, weight)


def title(info: TensorInfo, sizes: str) -> DeltaGenerator:
    """The tensor's name and its sizes; the row that they stand in."""
    row = st.container(horizontal=True, vertical_alignment="bottom")
    row.markdown(f"**{token_code(short(info.name))}**", width="content")
    row.caption(literal(sizes), width="content")
    return row


def beside(*parts: Callable[[], None]) -> None:
    """Boxes to open below a view: the explanation, and the data beside it."""
    for place, part in zip(st.columns(len(parts)), parts, strict=True):
        with place:
            part()


def weight_of(subject: Subject, all_statistics: TensorStatistics, info: TensorInfo) -> Weight | str:
    """The tensor with its statistics, or why there is nothing to show, in a sentence."""
    statistics = all_statistics.of(info)
    if statistics is None and info.place in all_statistics.errors:
        return translate_error(all_statistics.errors[info.place])
    if statistics is None and not weights.readable(info):
        return _(
            "Type {dtype}: it is listed but not measured, as nothing here reads its values as real numbers."
        ).format(dtype=info.dtype)
    if statistics is None:
        try:
            statistics = all_statistics.remember(("statistics", info.place), lambda: weights.statistics(info.load()))
        except (ValueError, RuntimeError) as error:
            return translate_error(error)
    if not statistics.sampled:
        return _("This tensor has no finite value: {nan} NaN, {infinite} infinite.").format(
            nan=f"{statistics.nan:,}", infinite=f"{statistics.infinite:,}"
        )
    return Weight(subject.name, info, statistics, all_statistics.remember, all_statistics.remembers)


def spread(tensors: list[Weight]) -> None:
    """The histogram, of one tensor or of two."""
    row = st.container(key="choices_counts")
    log = choose(_("Counts"), list(COUNTS), "linear", LOG, COUNTS.__getitem__, row) == "log"
    figure_view(HISTOGRAM, tensor_figures.histogram(tensors, log))()


def draw_matrix(weight: Weight, blocks: Callable[[Region, bool], Blocks], difference: bool = False) -> None:
    """The values of a rectangle that is typed as numbers; a click on a block looks closer."""
    full = whole(weight.info.shape)
    row = st.container(key="choices_block", horizontal=True, vertical_alignment="bottom")
    rows, columns = (
        range_field(row, key, end) for key, (_begin, end) in zip(REGION, (full.rows, full.columns), strict=True)
    )
    largest = choose(_("Block"), list(BLOCKS), "mean", BLOCK, BLOCKS.__getitem__, row) == "largest"
    region = Region(rows, columns)
    if region != full:
        row.button(_("whole"), on_click=forget_region, key="w_whole")
    drawn = blocks(region, largest)
    figure = tensor_figures.value_map(weight, drawn, region, largest, difference)
    figure_view(MAP, figure, cell=partial(on_cell, region, drawn[1], full))()


def range_field(place: DeltaGenerator, key: str, end: int) -> tuple[int, int]:
    """Numbers "12-40" of rows or columns; empty means all. What cannot be is said, and all are shown."""
    label = {REGION[0]: _("rows {first}-{last}"), REGION[1]: _("columns {first}-{last}")}[key]
    place.text_input(
        label.format(first="0", last=end - 1),
        key=key,
        placeholder=label.format(first="0", last=end - 1),
        width=150,
        max_chars=40,
        bind="query-params",
        persist_state="session",
        label_visibility="collapsed",
    )
    try:
        return parse_range(str(st.session_state[key] or ""), end)
    except ValueError as error:
        place.caption(f":red[{error}]")
        return 0, end


def parse_range(text: str, end: int) -> tuple[int, int]:
    """Range from the first to before the last.

    Raises:
        ValueError: a sentence that says what can be.
    """
    if not text.strip():
        return 0, end
    match = re.fullmatch(r"\s*(\d{1,12})\s*(?:[-–:]\s*(\d{1,12}))?\s*", text)
    if not match:
        raise ValueError(_("Write two numbers, such as 0-63."))
    first = int(match[1])
    last = int(match[2]) if match[2] else first
    if not first <= last < end:
        raise ValueError(_("Not within 0 to {last}.").format(last=end - 1))
    return first, last + 1


def details(subject: Subject, weight: Weight) -> None:
    """Singular values, their vectors, and what rows are near to where the table is one of tokens or positions."""
    views = ["spectrum"]
    rows, columns = (end for _begin, end in vars(whole(weight.info.shape)).values())
    if max(rows, columns) <= tensor_figures.SMALL:
        views.append("vectors")
    if tensor_figures.is_positions(weight):
        views.insert(0, "positions")
    elif tensor_figures.is_embedding(weight):
        views.insert(0, "neighbours")
    row = st.container(key="choices_details", horizontal=True)
    view = choose(_("Detail"), views, views[0], DETAIL, DETAILS.__getitem__, row) if len(views) > 1 else views[0]
    if view == "positions":
        figure_view(POSITIONS, tensor_figures.position_map(weight))()
    elif view == "neighbours":
        neighbours(subject, weight, row)
    elif reason := tensor_figures.why_none(weight):
        st.caption(reason)
    elif view == "vectors":
        for key, chart in zip((LEFT, RIGHT), tensor_figures.vector_charts(weight), strict=True):
            figure_view(key, chart)()
    else:
        spectrum([weight])


def spectrum(weights: list[Weight]) -> None:
    """Their singular values; those that take long only when they are asked for."""
    takes = sum(tensor_figures.seconds(weight) for weight in weights)
    if takes >= tensor_figures.PATIENCE and not all(tensor_figures.known(weight) for weight in weights):
        label = _("Compute the singular values, about {time}").format(time=duration(takes))
        if not st.button(label, key=f"w_compute_{weights[-1].file}"):
            return
    with st.spinner(_("Computing the singular values …")):
        chart = tensor_figures.spectrum_chart(weights)
    figure_view(SPECTRUM, chart)()


def neighbours(subject: Subject, weight: Weight, place: DeltaGenerator) -> None:
    """Rows near to that of a token that is typed."""
    tokenizer = tensor_figures.tokenizer_of(weight.info, model_of(subject))
    label = _("Token, or # and a row's number") if tokenizer else _("Row")
    key, rows = f"{ROW}_{subject.name}_{weight.info.name}", weight.info.shape[0]
    first = tensor_figures.first_row(text_on(weight.info, current_session()), rows, tokenizer)
    look: dict[str, Any] = {"width": 190, "label_visibility": "collapsed", "placeholder": label}
    place.text_input(label, first, key=key, live="250ms", max_chars=40, **look)
    try:
        row = tensor_figures.row_of(str(st.session_state[key] or ""), rows, tokenizer)
    except ValueError as error:
        st.caption(literal(translate_error(error)))
        return
    figure_view(NEAR, tensor_figures.neighbour_chart(weight, row, tokenizer))()


def text_on(info: TensorInfo, session: Session) -> str:
    """The shown text on the side that a table of tokens is of: an encoder's the source, any other's the target."""
    source, target = session.traced
    return source if info.name.startswith("encoder") else target or session.written or source


def explain() -> None:
    explanation(
        "weights_explanation",
        _(
            "A weight matrix stretches some directions and forgets others. Its singular values say how strongly, and "
            "the ranks how many directions it really uses."
        ),
        [
            r"W = \sum_i \sigma_i\, u_i v_i^\top, \qquad \|W\|_2 = \sigma_1",
            r"\operatorname{erank}(W) = \exp\Big(-\sum_i p_i \ln p_i\Big),\quad p_i = \frac{\sigma_i}{\sum_j \sigma_j}"
            r"\qquad \operatorname{srank}(W) = \frac{\sum_i \sigma_i^2}{\sigma_1^2}",
        ],
        _(
            "All numbers are read from the file. The singular values say how much a matrix stretches each of its "
            "directions. The effective rank (Roy and Vetterli, *The effective rank: a measure of effective "
            "dimensionality*, EUSIPCO 2007) counts how many directions it uses: all of them where the values are "
            "equal, one where a single one stands out. The stable rank (Rudelson and Vershynin, 2007) counts energy, "
            "σ², against the largest. A map of more values than the screen has pixels shows the mean of each block, "
            "or its largest size: a mean of many values is near 0 even where they are large. This is the code that "
            "has just run:"
        ),
        spectra.singular_values,
        spectra.effective_rank,
        spectra.stable_rank,
    )


def forget_region() -> None:
    for key in REGION:
        st.session_state[key] = ""


def on_cell(region: Region, size: tuple[int, int], full: Region, cell: dict[str, Any]) -> None:
    """A click on a block looks at the rows and columns around it; where a cell is a value there is nothing closer."""
    if size == (1, 1):
        return
    places = (region.rows[0] + cell["row"] * size[0], region.columns[0] + cell["column"] * size[1])
    for key, place, end in zip(REGION, places, (full.rows[1], full.columns[1]), strict=True):
        first = max(0, min(int(place) - CLOSER // 2, end - CLOSER))
        st.session_state[key] = f"{first}-{min(end, first + CLOSER) - 1}"


# One tensor of two checkpoints: their values over each other, and the difference as a map.


def show_pair(before: Subject, after: Subject, info: TensorInfo, equal: bool) -> None:
    """The tensor of this name in both. equal: value for value."""
    title(info, shape_text(info.shape))
    if equal:
        st.info(_("In {before} and {after} this tensor is equal, value for value.").format(
            before=literal(before.name), after=literal(after.name)
        ))  # fmt: skip
        return
    weights = []
    for letter, subject in zip("AB", (before, after), strict=True):
        statistics = measured(subject)
        weight = weight_of(subject, statistics, next(each for each in statistics.table if each.name == info.name))
        if isinstance(weight, str):
            st.caption(literal(with_label(subject.name, weight)))
            return
        weights.append(weight.called(with_label(letter, weight.file)))
    lines = (with_label(letter, in_language(summary(each))) for letter, each in zip("AB", weights, strict=True))
    st.caption("  \n".join(lines))
    left, right = st.columns([11, 9], gap="medium")
    matrix = tensor_figures.is_matrix(weights[1])
    with left:
        if matrix:
            draw_matrix(weights[1], partial(tensor_figures.difference_blocks, weights), difference=True)
        else:
            figure_view(FEATURES, tensor_figures.feature_chart(weights))()
    with right:
        spread(weights)
        if matrix and not any(tensor_figures.why_none(weight) for weight in weights):
            spectrum(weights)
