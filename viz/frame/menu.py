"""Menu of the page: its words, and the files that it saves."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import streamlit as st

from viz.components.registry import component, trigger_value
from viz.frame import python_code, tour
from viz.i18n import catalogue
from viz.i18n.catalogue import _
from viz.pages.lessons import joining
from viz.pages.lessons import steps as lesson_steps
from viz.pages.lessons.shelf import lesson_named
from viz.render.view import FigureView
from viz.state import checkpoints, training
from viz.state.checkpoints import find, open_place
from viz.state.class_sessions import seat_of
from viz.state.saved_page import Choices
from viz.state.session import Key, Session, current_session
from viz.ui.link import link_words, on_code, wanted_code

_menu = component("frame/menu")


def show_menu(session: Session) -> None:
    """The menu, in the language in use."""
    acts = {"prepare": prepare_file, "make": make_file, "class": lambda: joining.open_here(session)}
    acts["code"] = partial(on_code, Key.FILE)
    menu = {"words": menu_words(session), "link": link_words(_("Link and QR code")), "code": wanted_code()}
    name = st.session_state.get(Key.MODEL, "")
    menu |= {"model": name, "trained": name == training.ENTRY}
    _menu(data=menu, key=Key.FILE, **{f"on_{name}_change": act for name, act in acts.items()})


def menu_words(session: Session) -> dict[str, Any]:
    """Words of the menu, and of the file that it saves."""
    return {
        "menu": _("Menu"),
        "theme": _("Theme"),
        "System": _("as the system"),
        "Light": _("light"),
        "Dark": _("dark"),
        "present": _("Present"),
        "presenting": _(
            "One figure in large type, also by a double click on it: arrows lead on, L is a pointer, B blanks, Esc ends"
        ),
        "last": _("This is the last figure of the page"),
        "first": _("This is the first figure of the page"),
        "lastStep": _("This is the last step of the lesson"),
        "firstStep": _("This is the first step of the lesson"),
        "before": _("The figure before"),
        "next": _("The next figure"),
        "end": _("End presenting"),
        "class": "" if seat_of(session) else _("Begin a class session"),
        "classes": _("Others follow what you show, by a code or a link, and answer the questions of a lesson"),
        "print": _("Print"),
        "save": _("Save this page"),
        "lesson": _("Save this lesson") if lesson_steps.Part.LESSON in st.query_params else "",
        "lesson_explanation": _(
            "One HTML file with all its steps and figures, whose questions answer without a network"
        ),
        **tour.words(),
        "unsaved": _("That could not be saved: try again"),
        "notebook": _("Save as notebook"),
        "notebook_explanation": _("A Jupyter notebook that gives the same figures and numbers in Python"),
        "saving": _("Saving …"),
        "explanation": _("One HTML file that opens without a network"),
        "saved": _("Saved from Vitrine"),
        "language": catalogue.language(),
        "use": _("Point at a figure, or tap it, for its values; to change something, open Vitrine."),
        "unanswered": _("The server did not answer: what is closed on the page is left out."),
        "left_pictures": _("Pictures that do not say their values here, to stay below 5 MB: {count}."),
        "left_frames": _("To stay below 5 MB, BertViz is left out."),
        "left_choice": _("To stay below 5 MB, no other head can be chosen here."),
        "still": _("A picture: Vitrine itself says its values."),
        "coarse": _("To stay below 5 MB, the pictures are coarser than on the page."),
        "click": _("press one to see it large"),
        "point": _("Point at a block, or tap it, to see its shapes."),
        "lists": list_words(),
    }


def list_words() -> dict[str, str]:
    """Words in the place of Streamlit's and Plotly's own, which are English: of lists, and names of buttons."""
    if catalogue.language() == "en":
        return {}
    return {
        "No results": _("No such entry"),
        "No options to select": _("nothing to choose"),
        "Choose an option": _("choose one"),
        "Choose options": _("choose some"),
        "Open": _("open the list"),
        "Help": _("help"),
        "Collapse sidebar": _("fold the sidebar"),
        "Expand sidebar": _("unfold the sidebar"),
        "Zoom": _("zoom into a part"),
        "Pan": _("move the view"),
        "Zoom in": _("zoom in"),
        "Zoom out": _("zoom out"),
        "Autoscale": _("show all of it"),
        "Reset axes": _("as at first"),
        "Fullscreen": _("whole window"),
        "Skip to main content": _("Past the menu, to the page"),
    }


def prepare_file() -> None:
    """Begin to save the page: the run that follows draws what is closed too, and hands over what clicks show."""
    session = current_session()
    session.saving, session.choices = int(trigger_value(Key.FILE, "prepare")), Choices()


def make_file() -> None:
    """Begin to write a file of the page, which the run that follows hands over."""
    wish = trigger_value(Key.FILE, "make")
    current_session().making = int(wish["number"]), str(wish["kind"])


def file_of(session: Session, kind: str, code: python_code.PageCode) -> str:
    """The file that was asked for: a notebook of the page, or the lesson that is open; empty where there is none."""
    if kind == "notebook":
        views = [each for each in session.views.values() if isinstance(each, FigureView)]
        return json.dumps(python_code.notebook(code, views), ensure_ascii=False)
    lesson = lesson_named(session.address.get(lesson_steps.Part.LESSON) or "")
    if lesson is None:
        return ""
    from viz.frame.lesson_file import lesson_file

    here = checkpoints.all_places(session)
    content = repr((lesson, [(place.name, place.changed) for place in here]))
    return lesson_file(content, catalogue.language(), lesson, lambda name: open_place(find(name, here)))
