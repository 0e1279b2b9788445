"""Data to learn from: a built-in task, sentences made by rule, or a table or text of the user's own."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import TYPE_CHECKING

from streamlit.delta_generator import DeltaGenerator

from model.data.readers import TASK_PAIRS
from model.data.sources import Data, data_of_run, has_data_of, phrase_data, task_data, usual_percent
from model.data.tasks import TASKS
from model.message import Message
from model.network.config import Kind
from viz.i18n.catalogue import _, ngettext
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal, token_code
from viz.pages.training import own_data
from viz.state import training
from viz.state.session import choose, current_session, follow_language

if TYPE_CHECKING:
    from model.inference.text_model import TextModel

OF_RUN = "run"  # what the model that goes on has learnt from
SOURCES = {
    OF_RUN: Message("Its run's own"),
    "task": Message("Built-in task"),
    "phrases": Message("Sentences made by rule"),
    "own": Message("Your own file or text"),
}
SHARES = (1, 2, 5, 10, 20)  # percent for validation
SHOWN = 4  # pairs


class Part(StrEnum):
    """Names in the session state; the first is in the address bar too."""

    SOURCE = "training_data"
    TASK = "data_task"
    COUNT = "data_count"
    SHARE = "data_share"
    TASK_PAIRS = "data_task_pairs"
    RUN_DATA = "data_of_run"


def show(place: DeltaGenerator, kind: Kind, task: str, model: TextModel | None = None) -> Data | None:
    """The controls; gives what is chosen, or nothing where there is none yet, which they say. task: the usual one.
    model: that goes on.
    """
    here = model is not None and has_data_of(model.training)
    options = [source for source in SOURCES if here or source != OF_RUN]
    usual = OF_RUN if here else "task" if model is None else "phrases"
    source = choose(_("Training data"), options, usual, Part.SOURCE, SOURCES.__getitem__, place)
    if source == OF_RUN and model is not None:
        return _of_run(place, model)
    if source == "task":
        return _task(place, task)
    if source == "phrases":
        phrases = phrase_data(kind)
        example = (
            phrases.pairs[0].source + " → " + phrases.pairs[0].target if phrases.pairs else phrases.text.split("\n")[0]
        )
        count = len(phrases.pairs) or phrases.text.count("\n") + 1
        place.caption(
            _("{count} sentences put together by rule, such as: {example}").format(
                count=f"{count:,}", example=literal(example)
            )
        )
        return dataclasses.replace(phrases, validation_percent=share(place))
    return own_data.show(place, kind, lambda: share(place))


def _of_run(place: DeltaGenerator, model: TextModel) -> Data | None:
    """Data of the model's run, split as there."""
    made_of = (model.kind, str(model.training["data"]))
    run_data = current_session().cached(Part.RUN_DATA, made_of, lambda: data_of_run(model.kind, model.training))
    if run_data is not None:
        count = len(run_data.pairs) or run_data.text.count("\n") + 1
        sentence = ngettext(
            "{data}, {count} example, split as in its run: {percent}\xa0%\xa0for validation, which it has not "
            "trained on.",
            "{data}, {count} examples, split as in its run: {percent}\xa0%\xa0for validation, which it has not "
            "trained on.",
            count,
        )
        running = model.kind == "decoder-only" and not run_data.pairs
        percent = usual_percent(run_data, running)
        text = sentence.format(data=literal(training.data_name(run_data.name)), count=f"{count:,}", percent=percent)
        place.caption(text[:1].upper() + text[1:])
    return run_data


def foreign_sentence(model: TextModel, data: Data) -> str:
    """Sentence: validation on these data is not comparable with that of the run; "" where it is, or had none."""
    known = str(model.training.get("data") or "")
    if not model.training:
        return _("What this model has learnt from is unknown: it may have trained on what is kept for validation here.")
    own = current_session().cached(Part.RUN_DATA, (model.kind, known), lambda: data_of_run(model.kind, model.training))
    running = model.kind == "decoder-only" and not data.pairs
    if own is None or own.name != data.name:
        return _(
            "Its run learnt from {data}: the validation here is not comparable with that of the run, which may have "
            "trained on a part of it."
        ).format(data=literal(training.data_name(known)) if known else _("unknown data"))
    if usual_percent(own, running) != usual_percent(data, running):
        return _(
            "Its run kept {percent}\xa0%\xa0for validation: of the {here}\xa0% that are kept here it has trained on a "
            "part, so that the validation is not comparable."
        ).format(percent=usual_percent(own, running), here=usual_percent(data, running))
    return ""


def _task(place: DeltaGenerator, usual: str) -> Data | None:
    names = list(TASKS)
    follow_language(Part.TASK)
    name = place.selectbox(
        _("Task"),
        names,
        index=names.index(usual if usual in names else "reverse"),
        format_func=task_words,
        key=Part.TASK,
        persist_state="session",
    )
    left, right = place.columns(2, gap="small")
    count = left.number_input(_("Pairs"), 10, 1_000_000, TASK_PAIRS, step=1000, key=Part.COUNT, persist_state="session")
    held = share(right)
    try:
        pairs_data = current_session().cached(Part.TASK_PAIRS, (name, count), lambda: task_data(name, count))
    except ValueError as error:
        place.error(as_sentence(translate_error(error)))
        return None
    lines = [f"{pair.source} → {pair.target}" for pair in pairs_data.pairs[:SHOWN]]
    place.caption(_("Such as: {examples}").format(examples=" · ".join(token_code(line) for line in lines)))
    return dataclasses.replace(pairs_data, validation_percent=held)


def share(place: DeltaGenerator) -> int:
    """The percentage that is kept for validation; 2 % more are kept for a test."""
    number: int = place.selectbox(
        _("Kept for validation"),
        SHARES,
        index=SHARES.index(5),
        format_func=lambda percent: f"{percent} %",
        key=Part.SHARE,
        persist_state="session",
        help=_(
            "By a hash of the source, so that the same source is always on the same side, and 2 % more for a test; "
            "of a running text, its end"
        ),
    )
    return number


def task_words(name: str) -> str:
    """The name of a task and what it asks for."""
    task = TASKS[name]
    return f"{name} · {_(task.description)}"
