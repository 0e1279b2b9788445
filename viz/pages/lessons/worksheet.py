"""Worksheet of a lesson: a page to print with figures, questions and lines, and its key, computed at this moment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import streamlit as st

from model.lessons.light import FIGURE
from viz.components.registry import component
from viz.i18n.catalogue import _, language
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, page_name
from viz.i18n.messages import in_language, labelled
from viz.pages.lessons.question import alike, option_name
from viz.pages.lessons.shelf import lesson_named
from viz.pages.lessons.step_text import paragraphs_data
from viz.pages.lessons.steps import Part, state_of
from viz.state import shown_model
from viz.state.session import Key
from viz.state.what_if import change_name

if TYPE_CHECKING:
    from model.lessons.lesson import Lesson, Paragraph, Step
    from model.lessons.questions import Answer, Question
    from model.lessons.state import State, Subject

ADDRESS = "worksheet"  # in the address: it is this window
FIGURES = 3
CHOICES = 4  # options that are printed to tick one; of more, a line is left to write on
STYLES = [Path(__file__).parent / name for name in ("window.css", "worksheet_page.css")]

_worksheet = component("pages/lessons/worksheet")


def window() -> bool:
    """Draw the worksheet, where the address asks for it; whether it does."""
    if ADDRESS not in st.query_params:
        return False
    for style in STYLES:
        st.html(style)
    lesson = lesson_named(st.query_params.get(Part.LESSON, ""))
    if lesson is None:
        st.warning(_("The address names no lesson that is here."))
        return True
    place = st.empty()
    with place, st.spinner(_("The answers are being computed …")):
        questions = [each for each in (question_of(lesson, number) for number in range(len(lesson.steps))) if each]
    _worksheet(data=worksheet_data(lesson, questions), key="lesson_worksheet")
    return True


def worksheet_data(lesson: Lesson, questions: list[dict[str, Any]]) -> dict[str, Any]:
    """Worksheet for the browser."""
    return {
        "language": language(),
        "title": lesson.title,
        "level": lesson.level,
        "figures": [
            {
                "title": step.title,
                "what": " · ".join(filter(None, (what_words(step, state), state.parameters.get("source")))),
                "address": address(lesson, state),
                "name": figure_name(step),
            }
            for step, state in figures(lesson)
        ],
        "questions": questions,
        "words": {
            "name": _("Name"),
            "key": _("Answers"),
            "computed": _("Computed by {model} at {time}."),
            "print": _("Print"),
            "drawing": _("The figures are being drawn …"),
            "missing": _("This figure could not be drawn."),
            "model": lesson.model,
        },
    }


def figures(lesson: Lesson) -> list[tuple[Step, State]]:
    """At most three steps whose figures are printed, and their states: those come first whose question is answered by
    looking, then those that ask something else.
    """
    states = [(step, state_of(lesson, number)) for number, step in enumerate(lesson.steps)]
    with_figure = [(step, state) for step, state in states if (step.state or asks_head(step)) and is_printed(state)]
    trained = [(step, state) for step, state in with_figure if state.trained]
    possible = [each for each in with_figure if each not in trained[1:]]
    different = {figure_of(*each): each for each in sorted(possible, key=rank, reverse=True)}  # the first of each stays
    chosen = sorted(different.values(), key=rank)[:FIGURES]
    return [each for each in possible if each in chosen]


def asks_head(step: Step) -> bool:
    """True if a step asks for one of all heads, which its figure then has."""
    return step.question is not None and step.question.kind == "head"


def is_printed(state: State) -> bool:
    """Whether a state has a figure for a sheet: a film is none, and too large are the map of the whole model and the
    tree of a search, which would also say how that ends.
    """
    return state.page not in ("lessons", "map") and state.parameters.get("view") not in ("film", "search")


def rank(figure: tuple[Step, State]) -> int:
    """Rank of a step among those whose figures are printed."""
    step, _state = figure
    if step.question is None:
        return 2
    return int(step.question.kind in ("change", "number"))


def figure_of(step: Step, state: State) -> tuple[str, ...]:
    """What a step's figure depends on: the page, its choices and texts."""
    choices = [f"{name}={value}" for name, value in state.parameters.items() if name not in ("query", "expert")]
    return state.page, *choices, figure_name(step)


def figure_name(step: Step) -> str:
    """Beginning of the key of a step's figure: the one that it names, all heads where one is asked for; "": the page's
    large one.
    """
    named = next((each.what for each in step.lights if each.kind == FIGURE), "")
    return named or ("heads" if asks_head(step) else "")


def what_words(step: Step, state: State) -> str:
    """What the figure of a step shows: its page and, of attention, the kind, and the head, or that all are there."""
    if state.page != "attention":
        return page_name(state.page)
    if asks_head(step):
        return " · ".join(filter(None, [kind_words(state.parameters.get("attention", "")), _("all heads")]))
    layer, head = (state.number(name) or 0 for name in ("layer", "head"))
    of = _("head {head} of layer {layer}").format(head=head + 1, layer=layer + 1)
    return " · ".join(filter(None, [kind_words(state.parameters.get("attention", "")), of]))


def kind_words(kind: str) -> str:
    """A kind of attention; "": the model's only one."""
    return {
        "encoder": _("self-attention of the encoder"),
        "decoder": _("self-attention of the decoder"),
        "cross": _("cross-attention"),
    }.get(kind, "")


def address(lesson: Lesson, state: State) -> str:
    """Address of a state for a window that shows its figure, relative to that of the application."""
    parameters: dict[str, str] = {Key.LANGUAGE: language(), **state.parameters}
    if not state.trained:
        parameters = {Key.MODEL: lesson.model, **parameters}
    page = "" if state.page == "map" else state.page
    return f"{page}?{urlencode(parameters)}"


def question_of(lesson: Lesson, number: int) -> dict[str, Any] | None:
    """Question of a step with what to tick, and its key; None where the step asks nothing."""
    from model.lessons.wording import wording

    question, state = lesson.steps[number].question, state_of(lesson, number)
    if question is None:
        return None
    record: dict[str, Any] = {
        "step": lesson.steps[number].title,
        "options": [],
        "changes": "",
        "paragraphs": [],
        "text": state.parameters.get("source", ""),
    }
    try:
        subject = subject_of(lesson, state)
        sentence, answer = wording(question, subject), question.answer(subject)
    except ValueError as error:
        return {**record, "question": "", "key": as_sentence(translate_error(error))}
    if state.changes:
        longest = subject.model.config.max_length
        changes = [change_name(each, longest, subject.trace) for each in state.changes]
        record["changes"] = in_language(labelled(_("The model is changed"), " · ".join(changes)))
    if question.kind == "number":
        record["paragraphs"] = paragraphs_data([each for each in lesson.steps[number].paragraphs if has_number(each)])
    options = [option_name(each) for each in answer.options] if len(answer.options) <= CHOICES else []
    words = in_language(sentence.replacing("▁", "·"))
    return {**record, "question": words, "options": options, "key": key_words(question, answer)}


def has_number(paragraph: Paragraph) -> bool:
    """True if a paragraph gives a number, which whoever has the paper alone needs."""
    return any(sign.isdigit() for span in paragraph.spans for sign in span.content)


def subject_of(lesson: Lesson, state: State) -> Subject:
    """Model and texts of a step, as they are here and now.

    Raises:
        ValueError: the model cannot be opened, or the state does not fit it.
    """
    from model.lessons.state import Subject
    from model.lessons.trained import trained_subject

    if state.trained:
        return trained_subject(state)
    return Subject.of(shown_model.open_named(state.parameters.get(Key.MODEL, lesson.model)), state)


def key_words(question: Question, answer: Answer) -> str:
    """Key of a question, with the numbers behind it."""
    if not answer.options:
        value = f"{answer.measures[0]:,.0f}" if question.counts else alike(answer.measures)[0]
        return _("{value} (right within {percent} %)").format(value=value, percent=round(100 * question.tolerance))
    if answer.right is None:
        return _("The model does not decide it: no answer is wrong.")
    name = option_name(answer.options[answer.right])
    if any(answer.texts):
        return in_language(labelled(name, " → ".join(dict.fromkeys(answer.texts))))
    numbers = alike(answer.measures)
    if question.kind == "change":
        return in_language(labelled(name, f"{numbers[0]} → {numbers[1]}"))
    return in_language(labelled(name, numbers[answer.right]))
