"""Lessons: what can be given here, and how long each takes; an opened one stands beside every page (strip.py)."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlencode

import streamlit as st

from model.inference.text_model import TextModel
from viz.i18n.catalogue import _, language
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, literal
from viz.pages.lessons import joining, strip, worksheet
from viz.pages.lessons.shelf import lessons
from viz.state.session import Key, current_session
from viz.ui.parts import Views, no_views


def page(model: TextModel) -> Views:
    """The list of lessons; a file that is none is a sentence with its line."""
    joining.beginning(current_session())
    here, faults = lessons()
    for lesson in here:
        with st.container(key=f"lesson_{lesson.name}", gap=None):
            st.button(literal(lesson.title), key=f"open_{lesson.name}", on_click=partial(strip.open_step, lesson, 0))
            about = _("{minutes} min · {level} · {steps} steps · {model}")
            words = {"minutes": lesson.minutes, "level": lesson.level, "steps": len(lesson.steps)}
            line = st.container(horizontal=True, vertical_alignment="center")
            line.caption(literal(about.format(**words, model=lesson.model)), width="content")
            sheet = urlencode({strip.Part.LESSON: lesson.name, worksheet.ADDRESS: "1", Key.LANGUAGE: language()})
            line.link_button(_("Worksheet"), f"lessons?{sheet}", type="tertiary")
    for fault in faults:
        st.warning(as_sentence(translate_error(fault)))
    return no_views
