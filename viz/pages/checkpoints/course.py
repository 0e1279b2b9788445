"""A training that goes on elsewhere, followed from its folder: its losses, and a head at each of its checkpoints."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.capture.trace import ATTENTION_PATHS
from model.message import Message
from model.runtime.errors import CheckpointError
from model.training.training_log import Course, course_of
from viz.components.view import View
from viz.figures.axis import Axis, Scale
from viz.figures.chart import Chart, Series
from viz.figures.colours import ATTENTION, LOSS, SERIES
from viz.figures.figure import About, Caption
from viz.figures.panels import Panel, Panels
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, attention_name, literal, percent, sides, significant, tokens
from viz.i18n.messages import clauses, in_language, joined, labelled
from viz.jobs import TableJob, TableTask
from viz.pages.checkpoints.heads import KIND, open_head
from viz.pages.checkpoints.measuring import BY_PATH
from viz.pages.checkpoints.subjects import Subject, closed_words, hints_of, model_of
from viz.render.panels import grouped_panel
from viz.render.view import view
from viz.state import texts, token_groups
from viz.state.session import Session, attention_kinds, choose
from viz.ui.job_view import LiveRegion, follow, job_words, watch
from viz.ui.parts import data_table
from viz.ui.plots import array

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from model.analysis.pieces import Pieces
    from model.capture.trace import AttentionKind
    from model.inference.text_model import TextModel
    from model.training.training_log import Curve

LOSSES, FILM = "course_losses", "course_film"
MOST = 24  # checkpoints with a picture: of more the first, the last and some between
NOTE = 36  # letters above a picture
LONGEST = 48  # tokens of a side in a picture
COLOURS = (LOSS, *SERIES)  # of one training, of others
LOOK_AGAIN = 2.0  # seconds after which a folder is read again


def follow_folders(session: Session, paths: Sequence[Path]) -> None:
    """The script runs again when a file comes or changes in the folders that these checkpoints lie in, or the text
    does.
    """
    places = [*sorted({path.parent for path in paths}), *paths]
    known = time.monotonic(), folder_stamp(places)

    def state() -> Hashable:
        nonlocal known
        if time.monotonic() - known[0] > LOOK_AGAIN:
            known = time.monotonic(), folder_stamp(places)
        return known[1], tuple(session.texts.typed.items())

    watch(LiveRegion(state, state()))


def folder_stamp(folders: Sequence[Path]) -> Hashable:
    """Changes when a file in one of these folders comes, goes or is written."""
    files = []
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                files.append(frozenset((entry.name, entry.stat().st_mtime_ns) for entry in entries))
        except OSError:  # a file, or gone
            files.append(frozenset())
    return tuple(files)


def show(session: Session, chosen: Sequence[tuple[Subject, Course | None]]) -> None:
    """Records of these checkpoints on their trainings, in the order of steps; and what they compute.

    chosen: with the course of each, where its files tell it.
    """
    longest = longest_courses([(subject, course) for subject, course in chosen if course])
    steps = [(subject, course.step if course else None) for subject, course in chosen]
    if longest:
        view(LOSSES, losses_chart(longest, [(subject.name, step) for subject, step in steps]))()
    else:
        st.info(
            _(
                "No file beside these checkpoints says how their losses went: training.json, .resume and Hugging "
                "Face's trainer_state.json do."
            )
        )
    film = show_film(session, [(subject, step) for subject, step in steps if subject.path.is_dir()])
    more = {_("What they write"): film} if film else None
    data_table("course_data", lambda: course_table(longest), "course", more=more)


def longest_courses(candidates: Sequence[tuple[Subject, Course]]) -> list[tuple[str, Course]]:
    """Each course once, under the name of the checkpoint that knows most of it: an earlier one has its beginning."""
    longest: list[tuple[str, Course]] = []
    for subject, course in sorted(candidates, key=lambda pair: (-(pair[1].latest or 0), -(pair[1].step or 0))):
        same = any(is_beginning(course.validation, other.validation) and is_beginning(course.training, other.training)
                   for _name, other in longest)  # fmt: skip
        if course.says_something and not same:
            longest.append((subject.name, course))
    return longest


def is_beginning(curve: Curve, of: Curve) -> bool:
    return curve == of[: len(curve)]


def losses_chart(courses: Sequence[tuple[str, Course]], chosen: Sequence[tuple[str, int | None]]) -> Chart:
    """Losses over the steps: a colour for each training, dashed what it trains on; a mark at each checkpoint."""
    series, ends = [], []
    for number, (name, course) in enumerate(courses):
        colour = COLOURS[number % len(COLOURS)]
        for curve, dash, what in (
            (course.validation, False, Message("validation")),
            (course.training, True, trained_words(course)),
        ):
            if not curve:
                continue
            label = joined(" · ", name[:40] if len(courses) > 1 else "", what)
            xs, ys = np.array(curve, np.float64).T
            series.append(Series(label, xs, ys, colour, mark="dots" if len(curve) == 1 else "line", dash=dash))
            ends.append(joined(" ", label, f"{significant(float(ys[0]))} → {significant(float(ys[-1]))}"))
    sentence = clauses(*(progress_words(name if len(courses) > 1 else "", course) for name, course in courses))
    marks = [{"x": step, "text": name[-24:]} for name, step in chosen if step is not None]
    stamp, title = " ".join(f"{name} {course.latest}" for name, course in courses), Message("Losses")
    shows = Message("The losses as the files beside the checkpoints tell them, over the steps of their training.")
    alt = labelled(title, joined("; ", *ends))
    about = About(
        shows,
        [r"L = -\tfrac1n \sum_t \ln p(y_t)"],
        [course_of],
        meaning=Message(
            "Where the two part, the model learns its training data by heart, and nothing more of the rest."
        ),
    )
    heading = Caption(title, "course-losses", stamp, sentence=sentence, alt=alt, about=about)
    drawn = marks if len(courses) == 1 and len(marks) <= 6 else ()
    steps, losses = Axis(Message("step")), Axis(Message("nats per token"))
    return Chart(heading, series, steps, losses, tall=220, marks=drawn)


def trained_words(course: Course) -> str:
    """Sentence on what its own loss has in it that the validation's has not."""
    if not course.smoothing:
        return Message("training")
    return Message("training, with smoothing {smoothing}", smoothing=f"{course.smoothing:g}")


def progress_words(name: str, course: Course) -> str:
    """Progress of a training."""
    if course.latest is None:
        words = Message("step unknown")
    elif course.total:
        words = Message("step {step} of {total}", step=f"{course.latest:,}", total=f"{course.total:,}")
    else:
        words = Message("step {step}", step=f"{course.latest:,}")
    return labelled(name, words) if name else words


def course_table(courses: Sequence[tuple[str, Course]]) -> pd.DataFrame:
    """A line for each loss."""
    lines = [
        (name, step, what, loss)
        for name, course in courses
        for what, curve in ((_("training"), course.training), (_("validation"), course.validation))
        for step, loss in curve
    ]
    return pd.DataFrame(lines, columns=[_("checkpoint"), _("step"), _("losses"), _("nats per token")])


# The film of its checkpoints: one layer's heads on the text in the field, each checkpoint opened for as long as it
# computes.


@dataclass(frozen=True)
class Frame:
    """Computation of a checkpoint on the text: weights of a layer and which its mask lets be seen (head, query, key),
    and what it writes or guesses. runs: of its queries and keys, where some are pieces of one. cut: the text is longer.
    """

    weights: NDArray[np.float32]
    visible: NDArray[np.bool_]
    queries: Sequence[str]
    keys: Sequence[str]
    runs: tuple[Pieces | None, Pieces | None]
    writes: str
    cut: bool


@dataclass(frozen=True)
class CourseRequest:
    """Request of a film: its texts, and the layer of which attention."""

    source: str
    target: str
    kind: AttentionKind
    layer: int


class FilmJob(TableJob):
    """Frames of checkpoints, by their paths."""

    patience = 20.0

    def __init__(self, subjects: Sequence[Subject], hints_of_each: Sequence[str], request: CourseRequest) -> None:
        super().__init__(
            [
                TableTask(str(subject.path), 1, partial(frame_of, subject.path, hints, request))
                for subject, hints in zip(subjects, hints_of_each, strict=True)
            ]
        )


def frame_of(path: Path, hints: str, request: CourseRequest) -> Frame:
    """Frame of a checkpoint, which is let go of afterwards.

    Raises:
        ValueError: it cannot be opened, or has no such layer.
    """
    from model.checkpoints.load import open_checkpoint
    from model.checkpoints.load_hints import LoadHints
    from model.inference.models import Translator
    from model.runtime.device import choose_device, choose_dtype

    model = open_checkpoint(path, choose_device(), choose_dtype(), **asdict(LoadHints.read(hints)))
    texts = [request.source, request.target or None] if isinstance(model, Translator) else [request.source]
    trace = model.trace(*texts)
    paths = trace.attention_paths(request.kind)
    if request.layer >= len(paths):
        reason = Message(
            "the last layer of this attention in {file} is {count}: choose another layer",
            file=path.name,
            count=len(paths),
        )
        raise CheckpointError("{reason}", reason=reason)
    weights = array(trace[f"{paths[request.layer]}.weights"])
    visible = np.broadcast_to(trace.visible(paths[request.layer]).cpu().numpy(), weights.shape)
    of_kind = sides(trace, request.kind)
    rows, columns = (tokens(trace, side) for side in of_kind)
    groups = token_groups.of_tokens(model, trace.source_tokens, trace.target_tokens)
    runs = {side: each.of_first(min(LONGEST, len(each.tokens))) for side, each in groups.items()}
    return Frame(
        weights[:, :LONGEST, :LONGEST].copy(),
        visible[:, :LONGEST, :LONGEST].copy(),
        rows[:LONGEST],
        columns[:LONGEST],
        (runs.get(of_kind[0]), runs.get(of_kind[1])),
        written(model, request.source, trace),
        max(len(rows), len(columns)) > LONGEST,
    )


def written(model: TextModel, source: str, trace: Any) -> str:
    """The translation of the text, else its most probable next tokens or those of its masks, with probabilities."""
    from model.inference.models import Translator

    if isinstance(model, Translator):
        return model.generate(source).text
    guesses = model.guesses(trace, keep=3) if model.predicts else []
    last_guesses = guesses[-1:] if model.kind == "decoder-only" else guesses
    return " · ".join(
        ", ".join(f"{each.label} {percent(np.exp(each.log_probability), 0)}" for each in guess.choices)
        for guess in last_guesses
    )


def show_film(session: Session, chosen: Sequence[tuple[Subject, int | None]]) -> Callable[[], pd.DataFrame] | None:
    """The pictures, and the table of what the checkpoints write."""
    last = model_of(chosen[-1][0]) if chosen else None
    kinds = attention_kinds(last.network) if last else []
    if last is None or not kinds:
        st.info(_("The last of these checkpoints does not open as a model with attention: there is no film of it."))
        if chosen and last is None:
            st.caption(literal(closed_words([chosen[-1][0]])))
        return None
    row = st.container(key="choices_course", horizontal=True, vertical_alignment="center")
    kind = cast("AttentionKind", choose(_("Attention"), kinds, kinds[-1], KIND, attention_name, row))
    layer = picked(session, "layer", layer_count(last, kind), _("layer {number}"), row)
    head = picked(
        session,
        "head",
        last.config.shape_of("encoder" if kind == "encoder" else "decoder").heads,
        _("head {number}"),
        row,
    )
    source, target = texts.texts(last)
    request = CourseRequest(source, target or session.written, kind, layer)
    thinned = [chosen[place] for place in evenly(len(chosen), MOST)]
    try:
        hints = tuple(hints_of(subject) for subject, _step in thinned)
    except ValueError as error:  # an adapter whose base is not here
        st.info(as_sentence(translate_error(error)))
        return None
    subjects = tuple(subject for subject, _step in thinned)
    film = film_of(tuple(subject.changed for subject in subjects), subjects, hints, request)
    names = [subject.name if step is None else Message("step {step}", step=f"{step:,}") for subject, step in thinned]
    merge = token_groups.wanted(session)

    def computed() -> list[tuple[str, str, Frame]]:
        """Name, step and frame of each checkpoint that is computed already."""
        named = zip(subjects, names, strict=True)
        return [(subject.name, step, frame) for subject, step in named if (frame := film.values.get(str(subject.path)))]

    def panels() -> View:
        frames, progress = computed(), "" if film.ended else job_words(film)
        open_at = partial(open_checkpoint_at, [name for name, _step, _frame in frames], kind, layer, head)
        return view(FILM, film_panels(frames, head, merge, progress), cell=open_at)

    follow([film], panels)
    columns = [_("checkpoint"), _("step"), _("what it writes")]
    return lambda: pd.DataFrame(
        [(name, in_language(step), frame.writes) for name, step, frame in computed()], columns=columns
    )


def layer_count(model: TextModel, kind: AttentionKind) -> int:
    """Layers that have this attention."""
    paths = {path for path, _module in model.network.named_modules()}
    return next(layer for layer in count() if ATTENTION_PATHS[kind].format(layer) not in paths)


def picked(session: Session, part: str, most: int, words: str, row: DeltaGenerator) -> int:
    """The chosen layer or head, which is that of the page Attention too."""
    key = f"course_{part}"

    def choose_it() -> None:
        session.select(**{part: st.session_state[key]})

    st.session_state[key] = min(getattr(session.selection, part), most - 1)
    places = list(range(most))
    name = partial(numbered, words)
    row.selectbox(
        words, places, key=key, format_func=name, on_change=choose_it, width=116, label_visibility="collapsed"
    )
    return int(st.session_state[key])


def numbered(words: str, place: int) -> str:
    return words.format(number=place + 1)


def evenly(number: int, most: int) -> list[int]:
    """At most so many places, the first and the last among them."""
    return (
        list(range(number)) if number <= most else [round(place * (number - 1) / (most - 1)) for place in range(most)]
    )


def film_panels(frames: Sequence[tuple[str, str, Frame]], head: int, merge: bool, progress: str) -> Panels:
    """The head's weights at each of these checkpoints, in the order of steps. merge: pieces are one."""
    panels = []
    for _name, step, frame in frames:
        weights, visible = frame.weights[head], frame.visible[head]
        rows, columns = Axis(Message("query"), frame.queries), Axis(Message("key"), frame.keys)
        scale = Scale(0, 1, Message("weight"), colour=ATTENTION)
        note = frame.writes if len(frame.writes) <= NOTE else frame.writes[: NOTE - 1] + "…"
        panel = Panel(step, rows, columns, visible, weights, note=note, scale=scale, choose=True, summed=True)
        panels.append(grouped_panel(panel, *frame.runs) if merge else panel)
    sentence = joined(
        " · ",
        Message("attention weights, 0 to 1; press one to open the checkpoint at this head"),
        Message("the first {count} tokens", count=LONGEST) if any(frame.cut for *_names, frame in frames) else "",
        progress,
    )
    shows = Message("One head's map on the present text, as each checkpoint computes it.")
    about = About(
        shows,
        [r"W^{(s)} = \mathrm{softmax}(S^{(s)} + M)"],
        meaning=Message("One sees how what the head does comes about: from nearly even weights to its pattern."),
    )
    name, stamp = Message("The head at each checkpoint"), f"{len(panels)} {head} {merge}"
    heading = Caption(name, f"course-head-{head + 1}", stamp, sentence=sentence, about=about)
    return Panels(heading, panels, slot=150, cell=24)


def open_checkpoint_at(names: Sequence[str], kind: str, layer: int, head: int, cell: dict[str, Any]) -> None:
    """The page Attention with the checkpoint of the panel that was clicked."""
    open_head(names[int(cell["panel"])], kind, layer, head)


@st.cache_resource(max_entries=2, show_spinner=False, hash_funcs=BY_PATH)
def film_of(
    changed: tuple[int, ...],  # noqa: ARG001 - of the key in the cache
    subjects: tuple[Subject, ...],
    hints: tuple[str, ...],
    request: CourseRequest,
) -> FilmJob:
    return FilmJob(subjects, hints, request)
