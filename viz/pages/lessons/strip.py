"""A lesson beside the page: the step's text, its question, hints, back and next; the page itself is the figure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from viz.components.registry import component, trigger_value
from viz.i18n.catalogue import _
from viz.i18n.format import literal, one_row
from viz.i18n.messages import in_language, labelled
from viz.pages.lessons import before, own_text, trained_state
from viz.pages.lessons.in_sight import figures_of
from viz.pages.lessons.page_choices import HIDE
from viz.pages.lessons.progress import score_words
from viz.pages.lessons.question import FINDABLE, QuestionView, show_question
from viz.pages.lessons.shelf import lesson_after, lesson_named
from viz.pages.lessons.step_text import markdown, minutes_words, paragraphs_data
from viz.pages.lessons.steps import Part, close, number_of, open_step, state_of
from viz.state.session import Session
from viz.state.what_if import note
from viz.ui.link import link_words, on_code, wanted_code

if TYPE_CHECKING:
    from model.lessons.lesson import Lesson

STYLE = Path(__file__).parent / "strip.css"
# What is hidden, by the names that a lesson has for it.
HIDDEN = {
    "sidebar": '[data-testid="stSidebar"], [data-testid="stHeader"], [data-testid="stExpandSidebarButton"]',
    "model": '[data-testid="stSidebar"] .stSelectbox',
    "training": ".st-key-training_box",
    "menu": ".st-key-page_file",
    "header": ".st-key-input_bar",
    "texts": ".st-key-texts",
    "choices": '[class*="st-key-choices_"], [class*="st-key-rest_"]',
    "more": '[class*="st-key-more_"], [class*="st-key-rest_"]',
    "explanations": '.stMain [class*="explanation"]',
}
_lesson = component("pages/lessons/lesson")


def panel(session: Session, place: DeltaGenerator) -> None:
    """The lesson that is open, if one is. place: beside the page, above it in a narrow window."""
    name = session.address.get(Part.LESSON)
    if name is None:
        return
    if (lesson := lesson_named(name)) is None:
        place.warning(_("The address asks for a lesson that is not here."))
        return
    number = number_of(lesson, session.address.get(Part.STEP))
    step = lesson.steps[number]
    with place, st.container(key=Part.PANEL):
        st.html(STYLE)
        head = st.container(key="lesson_head", horizontal=True, vertical_alignment="center")
        head.caption(literal(f"{lesson.title} · {one_row(place_words(lesson, number))}"))
        head.button(_("End lesson"), key="lesson_end", on_click=partial(close, lesson))
        text(lesson, number)
        own_text.line(session, lesson, state_of(lesson, number))
        waiting = trained_state.awaited(session) is not None
        question = QuestionView(is_open=step.question is not None)
        if step.question is not None and session.traced_input is not None and not waiting:
            with st.container(key="lesson_question"):
                question = show_question(session, lesson, number, step.question)
        last = number == len(lesson.steps) - 1
        following = lesson_after(lesson) if last else None
        if waiting:
            st.caption(_("The model is being trained for this step: the bar at the foot shows how far it is."))
        if last and step.question is not None and (words := score_words(lesson)):
            st.caption(words)  # above the buttons: on a phone what is below them is out of sight
        if last and not question.is_open:
            st.markdown(end_words(following))
        row = st.container(key="lesson_steps", horizontal=True, vertical_alignment="center")
        row.button(_("Back"), key="lesson_back", disabled=not number, on_click=partial(open_step, lesson, number - 1))
        if question.hint is not None:
            label = _("Show me") if question.shows_answer else _("Hint")
            row.button(label, key="lesson_hint", on_click=question.hint)
        elif question.again is not None:
            row.button(_("Try again"), key="lesson_again", on_click=question.again)
        if following is not None:
            ahead = partial(open_step, following, 0)
            row.button(_("Next lesson"), key="lesson_following", type="primary", on_click=ahead)
        elif not last:
            ahead = partial(open_step, lesson, number + 1)
            row.button(_("Next step"), key="lesson_next", type="primary", on_click=ahead)
        if words := before.sentence(session):
            st.caption(words)
        acts = {"go": partial(on_go, lesson), "code": partial(on_code, Part.ACTS), "place": on_place}
        changes = {f"on_{name}_change": act for name, act in acts.items()}
        _lesson(data=step_data(lesson, number, question, asides(session, lesson, number)), key=Part.ACTS, **changes)
    before.look_after(session)


def text(lesson: Lesson, number: int) -> None:
    """Title and text of a step; before the first one what the lesson takes in class and alone, where that differs;
    before the last one, where it asks nothing, the score.
    """
    step = lesson.steps[number]
    st.markdown(f"**{literal(step.title)}**")
    if number == 0 and lesson.alone is not None:
        st.caption(literal(minutes_words(lesson)))
    if number == len(lesson.steps) - 1 and step.question is None and (words := score_words(lesson)):
        st.caption(words)
    st.markdown(markdown(step.paragraphs))


def hide(session: Session) -> None:
    """Hide the controls that the lesson's step, or the address, names."""
    names = (session.address.get(HIDE) or "").split(",")
    selectors = [HIDDEN[name] for name in names if name in HIDDEN]
    if selectors and session.address.get(Part.LESSON):
        st.html(
            f"<style>:root:not([data-presenting]) :is({', '.join(selectors)}) {{ display: none !important; }}</style>"
        )


def end_words(following: Lesson | None) -> str:
    """Last words of a lesson, with the name of the one that comes next, if one does."""
    if following is None:
        return _("This is the last step, of the last lesson of the list.")
    return _("This is the last step. When you have done what it asks, the next lesson is **{title}**.").format(
        title=literal(following.title)
    )


def place_words(lesson: Lesson, number: int) -> str:
    return _("step {number} of {count}").format(number=number + 1, count=len(lesson.steps))


def asides(session: Session, lesson: Lesson, number: int) -> list[str]:
    """Sentences on what is not as in the lesson's text: another text, and a model that is changed."""
    if session.traced_input is None:
        return []
    own = own_text.note(session, lesson, state_of(lesson, number))
    changes = note(session.what_if, session.trace, session.model.config)
    return [*filter(None, [own]), *([in_language(labelled(_("The model is changed"), changes))] if changes else [])]


def step_data(lesson: Lesson, number: int, question: QuestionView, asides: Sequence[str] = ()) -> dict[str, Any]:
    """A step for the browser, see lesson.js. question: of the text that is there. asides: see there."""
    step = lesson.steps[number]
    lights = step.lights if question.place is None else [*step.lights, question.place]
    return {
        "lesson": lesson.name,
        "step": number,
        "count": len(lesson.steps),
        "title": step.title,
        "place": place_words(lesson, number),
        "question": question.words,
        "options": question.options,
        "asides": list(asides),
        "remarks": question.remarks,
        "find": step.question.kind if question.words and step.question and step.question.kind in FINDABLE else "",
        "paragraphs": paragraphs_data(step.paragraphs),
        "figures": figures_of(step, state_of(lesson, number)),
        "lights": [{"kind": each.kind, "what": each.what} for each in lights],
        "notes": any(each.notes or each.minutes for each in lesson.steps),
        "code": wanted_code(),
        "words": {
            "header": _("Header"),
            "more": _("More"),
            "present": _("Present"),
            "notes": _("Notes"),
            "link": link_words(_("Link to this step")),
            "worksheet": _("Worksheet"),
            "fold": _("Fold the text"),
            "unfold": _("Show the text"),
        },
    }


def on_go(lesson: Lesson) -> None:
    """Another step, asked for by a key or from the teacher's other window."""
    number = int(trigger_value(Part.ACTS, "go"))
    if 0 <= number < len(lesson.steps):
        open_step(lesson, number)


def on_place() -> None:
    """A place of a figure was clicked that a question may ask for, or a film was left at a step."""
    place = trigger_value(Part.ACTS, "place")
    st.session_state[Part.PLACE] = {str(name): max(0, int(value)) for name, value in place.items()}
