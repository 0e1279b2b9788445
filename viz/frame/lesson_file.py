"""Lesson as one file: its steps with their figures, their questions and explanations, without a server or a network."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import latex2mathml.converter
import streamlit as st
from markdown_it import MarkdownIt

from model.lessons.state import Subject
from model.lessons.trained import trained_subject
from model.lessons.wording import wording
from viz.frame.page_figures import PageFigures, page_figures, saved_words
from viz.frame.trained_figures import saved_film, trained_figures
from viz.i18n.catalogue import _, speaking
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, formula_in_language, in_turn
from viz.i18n.messages import in_language
from viz.pages.lessons.question import option_name, reaction
from viz.pages.lessons.step_text import markdown
from viz.pages.lessons.steps import state_of
from viz.render.document import Document, DrawnView
from viz.render.view import FigureView

if TYPE_CHECKING:
    from model.inference.text_model import TextModel
    from model.lessons.lesson import Lesson
    from model.lessons.questions import Question
    from model.lessons.state import State
    from viz.figures.figure import About

MODULE = "frame/lesson_file.js"
STYLE = Path(__file__).parent / "lesson_file.css"
FIGURES = 3  # of a step: the nearest to the eyes
MOST = 3_200_000  # bytes of what clicks show; a file has room for 5 MB
MARKDOWN = MarkdownIt("commonmark", {"html": False})
Open = Callable[[str], "TextModel"]


@st.cache_data(max_entries=4, show_spinner=False)
def lesson_file(key: str, language: str, _lesson: Lesson, _open: Open) -> str:  # noqa: ARG001 - of the key in the cache
    """File of a lesson, as HTML. key: of its content and its models; _open: gives the model of a name."""
    with ThreadPoolExecutor(1, "file") as pool:  # a thread without a page, in which nothing is drawn for this visitor
        return pool.submit(lesson_document, _lesson, language, _open).result().html()


def lesson_document(lesson: Lesson, language: str, open_model: Open) -> Document:
    """Document of a lesson in the language of its reader."""
    with speaking(language):
        groups: dict[str, Group] = {}
        film: dict[str, Any] | None = None
        longest = 0
        body, places, questions = [f"<header><b>{html.escape(lesson.title)}</b></header>"], [], []
        for number, step in enumerate(lesson.steps):
            state = state_of(lesson, number)
            known = state.address in groups
            if not known:
                groups[state.address] = Group.of(state, lesson, language, open_model, f"{len(groups)}.")
            place, group = list(groups).index(state.address), groups[state.address]
            run = group.subject.run if group.subject else None
            if run is not None and len(run.film) > longest:  # an earlier step forgets what came behind it
                film, longest = saved_film(run), len(run.film)
            body.append(step_html(step.title, markdown(step.paragraphs), "" if known else group.element(place)))
            questions.append(None if step.question is None else group.question(step.question))
            places.append(place)
        body.append(nav())
        room = MOST - len(json.dumps(film))
        choices, left = fitting([choice for group in groups.values() for choice in group.choices], room)
        if left:
            sentence = _("To stay below 5 MB, not every head can be chosen here.")
            body.append(f"<footer>{html.escape(sentence)}</footer>")
        steps = [group.step for group in groups.values()]
        more = {MODULE: {"groups": places, "steps": steps, "questions": questions, "words": lesson_words()}}
        views = [view for group in groups.values() for view in group.views]
        style = STYLE.read_text("utf-8")
        return Document(lesson.title, "".join(body), views, language, choices, more, film, style, saved_words())


def lesson_words() -> dict[str, str]:
    return {
        "step": _("step {number} of {count}"),
        "hint": _("Hint"),
        "show": _("Show me"),
        "guess": _("Your guess"),
        "answer": _("Answer"),
        "result": _("{right} of {all} right at the first guess, without a hint"),
    }


@dataclass(frozen=True)
class Group:
    """Figures of a state, with what clicks on them show. lacking: a sentence where there are none. step: of the
    training that its model is in; None: it is in none.
    """

    views: list[DrawnView]
    choices: list[tuple[str, str, bytes]]
    abouts: list[tuple[str, About]]
    subject: Subject | None = None
    lacking: str = ""
    step: int | None = None

    @classmethod
    def of(cls, state: State, lesson: Lesson, language: str, open_model: Open, before: str) -> Group:
        """Group of a state, its keys behind `before`."""
        try:
            if state.trained:
                return cls.of_training(state, language, before)
            model = open_model(state.parameters.get("model", lesson.model))
            page = page_figures(model, state, language, choices=True)
        except ValueError as error:
            return cls([], [], [], lacking=as_sentence(translate_error(error)))
        if not page.views:
            return cls([], [], [], lacking=_("This page has nothing that a file can show: Vitrine shows it."))
        return cls.of_page(page, before)

    @classmethod
    def of_training(cls, state: State, language: str, before: str) -> Group:
        """Group of a state whose model is trained for it, here and now, from the seed that it always has."""
        subject = trained_subject(state)
        page = trained_figures(state, subject, language)
        return replace(cls.of_page(page, before), subject=subject, step=state.trained and state.trained[1])

    @classmethod
    def of_page(cls, page: PageFigures, before: str) -> Group:
        views = list(page.views.values())[:FIGURES]
        keys = {str(view.key) for view in views}
        clicks = [each for each in page.choices.views if each[1] in keys]
        choices = [(f"{before}{click}", f"{before}{key}", data) for click, key, data in clicks]
        figures = [view for view in views if isinstance(view, FigureView)]
        abouts = [(view.caption.name, view.caption.about) for view in figures if view.caption.about is not None]
        now = page.input
        subject = Subject(now.model, now.trace, now.source, now.target)
        return cls([DrawnView.of(view, before) for view in views], choices, abouts, subject)

    def element(self, number: int) -> str:
        """Its figures, explanations that can be opened, and what it lacks."""
        figures = "".join(view.place() for view in self.views)
        abouts = "".join(about_html(name, about) for name, about in self.abouts)
        return f'<div class="group" data-group="{number}">{figures}{abouts}{text_html(self.lacking)}</div>'

    def question(self, question: Question) -> dict[str, Any] | None:
        """Question, its answer by the model, and what is said to each guess; None where no model answers."""
        if self.subject is None:
            return None
        try:
            sentence, answer = wording(question, self.subject), question.answer(self.subject)
        except ValueError:
            return None
        options = [plain(option_name(option)) for option in answer.options]
        return {
            "sentence": in_language(sentence.replacing("▁", "·")),
            "options": options,
            "right": answer.right,
            "value": None if options else answer.measures[0],
            "tolerance": answer.tolerance,
            "said": {name: plain(reaction(question, answer, verdict)) for name, verdict in VERDICTS.items()},
            "said_to": [plain(reaction(question, answer, answer.judge(each), each)) for each in range(len(options))],
            "hints": [in_language(hint) for hint in question.hints],
        }


VERDICTS = {"right": True, "wrong": False, "shown": None}


def step_html(title: str, text: str, figures: str) -> str:
    """Section of a step. Figures that several have stand in the first of them, from where the script moves them."""
    words = f'<h2>{html.escape(title)}</h2>{text_html(text)}<div class="question"></div>'
    return f'<section><div class="text">{words}</div><div class="place">{figures}</div></section>'


def nav() -> str:
    back, ahead = html.escape(_("Back")), html.escape(_("Next step"))
    return f'<nav><button type="button">{back}</button><span></span><button type="button">{ahead}</button></nav>'


def about_html(name: str, about: About) -> str:
    """Explanation of a figure, which can be opened."""
    words = html.escape(in_turn(in_language(about.sentence), in_language(about.meaning)))
    parts = [part for formula in about.formulas for part in re.split(r",?\s*\\q?quad\s*", formula)]
    title = html.escape(f"{_('What am I looking at?')} · {in_language(name)}")
    return f"<details><summary>{title}</summary><p>{words}</p>{''.join(map(formula_html, parts))}</details>"


def formula_html(latex: str) -> str:
    """A formula as MathML, which browsers draw themselves."""
    mathml: str = latex2mathml.converter.convert(formula_in_language(latex), display="block")
    return mathml


def text_html(text: str) -> str:
    """HTML of Markdown in which strangers' text is literal; links within Vitrine lead nowhere from a file."""
    return "".join(_rendered(text))


def _rendered(text: str) -> Iterator[str]:
    rendered: str = MARKDOWN.render(text)
    for part in re.split(r"(<a [^>]*>)", rendered):
        if not part.startswith("<a "):
            yield part
        elif re.match(r'<a href="https?://', part):
            yield part.replace("<a ", '<a target="_blank" rel="noopener" ', 1)
        else:
            yield "<a>"


def plain(text: str) -> str:
    """Markdown as text alone."""
    return html.unescape(re.sub("<[^>]*>", "", MARKDOWN.renderInline(text)))


def fitting(choices: list[tuple[str, str, bytes]], room: int) -> tuple[list[tuple[str, str, bytes]], bool]:
    """As many choices as there is room for, in bytes, from the first; whether some are left out."""
    for number, (click, key, data) in enumerate(choices):
        room -= 4 * len(data) // 3 + len(click) + len(key) + 40
        if room < 0:
            return choices[:number], True
    return choices, False
