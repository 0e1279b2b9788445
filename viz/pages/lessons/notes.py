"""Second window of a lesson: the teacher's notes, which follow the window that shows the lesson, and lead it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from viz.components.registry import component
from viz.i18n.catalogue import _, language
from viz.pages.lessons.shelf import lesson_named
from viz.pages.lessons.step_text import paragraphs_data
from viz.pages.lessons.steps import Part, number_of

if TYPE_CHECKING:
    from model.lessons.lesson import Lesson

ADDRESS = "notes"  # in the address: it is this window
STYLE = Path(__file__).parent / "window.css"

_notes = component("pages/lessons/notes")


def window() -> bool:
    """Draw the window of notes, where the address asks for it; whether it does."""
    if ADDRESS not in st.query_params:
        return False
    st.html(STYLE)
    lesson = lesson_named(st.query_params.get(Part.LESSON, ""))
    if lesson is None:
        st.warning(_("The address names no lesson that is here."))
        return True
    _notes(data=notes_data(lesson, number_of(lesson, st.query_params.get(Part.STEP))), key="lesson_notes")
    return True


def notes_data(lesson: Lesson, number: int) -> dict[str, Any]:
    """Notes of all steps for the browser. number: of the step that is shown first, from 0."""
    steps = [
        {"title": step.title, "minutes": step.minutes, "notes": paragraphs_data(step.notes)} for step in lesson.steps
    ]
    return {
        "lesson": lesson.name,
        "language": language(),
        "title": lesson.title,
        "minutes": lesson.minutes,
        "step": number,
        "steps": steps,
        "words": {
            "place": _("step {number} of {count}"),
            "minutes": _("{minutes} min"),
            "gone": _("{gone} min gone, {planned} planned to the end of this step, {minutes} in all"),
            "none": _("There are no notes on this step."),
            "next": _("Next: {title}"),
            "last": _("This is the last step of the lesson"),
            "ahead": _("Next step"),
            "back": _("Back"),
            "again": _("Start the clock again"),
            "alone": _("No window of this browser shows the lesson: open it, and this one follows."),
        },
    }
