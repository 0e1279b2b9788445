"""Lessons: what can be given here, and how long each takes; an opened one stands beside every page (strip.py)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import streamlit as st

from model.inference.text_model import TextModel
from viz.i18n.catalogue import _, language, ngettext
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal
from viz.pages.lessons import joining, steps, worksheet
from viz.pages.lessons.shelf import lessons
from viz.pages.lessons.step_text import minutes_words
from viz.state.session import Key, current_session
from viz.ui.parts import Views, no_views

if TYPE_CHECKING:
    from model.lessons.lesson import Lesson

STYLE = Path(__file__).parent / "page.css"
SHORT = 20  # minutes, up to which a lesson is one of the short ones


def page(model: TextModel) -> Views:
    """The list of lessons, whole ones and short ones; a file that is none is a sentence with its line."""
    st.html(STYLE)
    here, faults = lessons()
    columns = st.container(key="lesson_lists", horizontal=True, gap="large")
    whole = [each for each in here if each.minutes > SHORT]
    with columns.container(gap=None):
        lines(_("Whole lessons"), whole)
        joining.beginning(current_session())
    with columns.container(gap=None):
        lines(_("Short lessons"), [each for each in here if each not in whole])
    for fault in faults:
        st.warning(as_sentence(translate_error(fault)))
    return no_views


def lines(title: str, some: Sequence[Lesson]) -> None:
    """Lessons of the list below their title; nothing where there are none."""
    if some:
        st.caption(f"**{literal(title)}**")
    for lesson in some:
        line(lesson)


def line(lesson: Lesson) -> None:
    """A lesson of the list: opened by its title or its button, and printed as a worksheet."""
    row = st.container(key=f"lesson_{lesson.name}", horizontal=True, vertical_alignment="center")
    with row.container(gap=None):
        opened = partial(steps.open_step, lesson, 0)
        st.button(literal(lesson.title), key=f"open_{lesson.name}", type="tertiary", on_click=opened)
        count = ngettext("{count} step", "{count} steps", len(lesson.steps)).format(count=len(lesson.steps))
        st.caption(literal(" · ".join((minutes_words(lesson), count, lesson.model, lesson.level))))
    sheet = urlencode({steps.Part.LESSON: lesson.name, worksheet.ADDRESS: "1", Key.LANGUAGE: language()})
    row.link_button(_("Worksheet"), f"lessons?{sheet}", type="tertiary")
    row.button(_("Begin"), key=f"begin_{lesson.name}", on_click=opened)
