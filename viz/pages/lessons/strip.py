"""A lesson beside the page: the step's text, its question, hints, back and next; the page itself is the figure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from model.message import Message
from model.training.demonstration import DEMONSTRATIONS
from viz.components.registry import component
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, in_turn, literal, sides, significant, token_code, token_sign
from viz.i18n.messages import in_language
from viz.pages.lessons import before, own_text, trained_state
from viz.pages.lessons.class_bars import bars
from viz.pages.lessons.in_sight import figures_of
from viz.pages.lessons.page_choices import HIDE, PLACED, TRAINED, clear_choices
from viz.pages.lessons.shelf import lesson_after, lesson_named
from viz.render.grouping import first_of
from viz.state import shown_model, texts, training
from viz.state.class_sessions import CLASS_SESSIONS, Answers
from viz.state.position_override import PositionSetting
from viz.state.sampling_sliders import slider_values
from viz.state.session import DEFAULT_SELECTION, Key, Parameter, Session, current_session
from viz.state.token_groups import merged
from viz.ui.qr import link_words, on_code, wanted_code

if TYPE_CHECKING:
    from model.lessons.lesson import Lesson, Paragraph
    from model.lessons.light import Light
    from model.lessons.questions import Answer, Question
    from model.lessons.state import State, Subject

FINDABLE = ("cell", "step")  # kinds of question that a click in a figure answers; heads are chosen on the page
HINTS = 3  # a nudge, a suggestion, the answer
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
# Widths of vectors, as the paper calls them.
FORMULAS = {
    "d_k": "$d_{k}$",
    "√d_k": r"$\sqrt{d_{k}}$",
    "d_v": "$d_{v}$",
    "d_model": r"$d_{\mathrm{model}}$",
    "√d_model": r"$\sqrt{d_{\mathrm{model}}}$",
    "d_ff": r"$d_{\mathrm{ff}}$",
}
WIDTH = re.compile(rf"((?<![A-Za-z0-9_])(?:{'|'.join(sorted(FORMULAS, reverse=True))})(?![A-Za-z0-9_]))")
SIGNS = {"strong": "**", "emphasis": "*", "": "", "link": ""}


_lesson = component("pages/lessons/lesson")


class Part(StrEnum):
    """Names in the session state; the first two are parameters of the address bar."""

    LESSON = "lesson"
    STEP = "step"
    PAGE = "lesson_page"
    PROGRESS = "lesson_progress"
    PANEL = "lesson_panel"
    ACTS = "lesson_acts"
    PLACE = "lesson_place"


@dataclass
class Progress:
    """Progress in one lesson. hints: how many are shown, by step. first: whether the first guess was right, by step."""

    lesson: str
    hints: dict[int, int] = field(default_factory=dict)
    first: dict[int, bool] = field(default_factory=dict)


def progress(lesson: Lesson) -> Progress:
    """Progress in this lesson; that in another is forgotten."""
    known: Progress | None = st.session_state.get(Part.PROGRESS)
    if known is None or known.lesson != lesson.name:
        known = st.session_state[Part.PROGRESS] = Progress(lesson.name)
    return known


# A step's state becomes the session's.


def open_step(lesson: Lesson, number: int) -> None:
    """Show a step, and its state on its page. In a callback, or before widgets are drawn."""
    session = current_session()
    before.remember(session)
    st.session_state.pop(Part.PLACE, None)
    if session.address.get(Part.LESSON) == lesson.name:
        own_text.keep(session, lesson, state_of(lesson, number_of(lesson, session.address.get(Part.STEP))))
    else:
        own_text.forget()
    session.address.set(Part.LESSON, lesson.name)
    session.address.set(Part.STEP, str(number + 1))
    state = state_of(lesson, number)
    clear_choices(session)  # what the visitor, or another step, has chosen is no choice of this one
    apply_state(session, lesson, state)
    own_text.show(lesson, state)
    st.session_state[Part.PAGE] = state.page
    session.rerun_requested = True


def state_of(lesson: Lesson, number: int) -> State:
    """State of a step: its own, or that of the last step before it that has one."""
    return [step.state for step in lesson.steps[: number + 1] if step.state is not None][-1]


def apply_state(session: Session, lesson: Lesson, state: State) -> None:
    """Model, texts, selection, changes and choices of a state; texts and changes that it leaves out are as at first."""
    given = state.parameters
    if state.trained:
        trained_state.train_to(session, *state.trained)
        source = given.get(Key.SOURCE, DEMONSTRATIONS[state.trained[0]].text)
        texts.write(Key.SOURCE, source)
        texts.write(Key.TARGET, given.get(Key.TARGET, ""))
    else:
        show_texts(session, given.get(Key.MODEL, lesson.model), given)
    session.select(**DEFAULT_SELECTION | {each.value: int(given[each]) for each in Parameter if each in given})
    session.query_side = ""  # nobody has chosen a token: a page that asks for a side has the state's
    if state.changes:
        session.change(state.changes)
    else:
        session.restore()
    for setting in PositionSetting:
        session.address.set(setting, given.get(setting))
    session.override = None
    session.address.set(HIDE, given.get(HIDE))
    st.session_state.update(slider_values(given))
    session.address.set_choices({name: value for name, value in given.items() if name not in PLACED})


def show_texts(session: Session, name: str, given: Mapping[str, str]) -> None:
    """The model of this name, with these texts; one that is left out is as at first."""
    for each in TRAINED:
        session.address.set(each, None)
    if name != st.session_state.get(Key.MODEL):
        shown_model.let_go()
        shown_model.show(name)
    with session.texts.lock:
        session.texts.by_model.pop(name, None)
    for key in (Key.SOURCE, Key.TARGET):
        texts.write(key, given.get(key, ""))
        if key not in given:
            session.texts.typed.pop(key, None)


def begin(session: Session) -> None:
    """Open the step that the address of a new window asks for; what else it says of model and texts counts."""
    name = st.query_params.get(Part.LESSON)
    if session.runs:
        return
    if not name or (lesson := lesson_named(name)) is None:
        trained_state.begin(session)
        return
    before.remember(session)
    number = number_of(lesson, st.query_params.get(Part.STEP))
    if set(st.query_params) <= {Part.LESSON, Part.STEP, Key.LANGUAGE}:
        open_step(lesson, number)
    else:
        session.address.set(Part.LESSON, lesson.name)
        session.address.set(Part.STEP, str(number + 1))
        session.texts.by_hand.update({Key.SOURCE, Key.TARGET} & set(st.query_params))
        trained_state.begin(session)


def number_of(lesson: Lesson, text: str | None) -> int:
    """Step of a lesson that an address has, from 0; the first where it has none."""
    number = int(text) if text and text.isascii() and text.isdigit() and len(text) < 4 else 1
    return max(0, min(number, len(lesson.steps)) - 1)


def follow(page: str) -> None:
    """Go to the page of the step that was opened. In a run: only that can be left for another page."""
    wanted = st.session_state.pop(Part.PAGE, None)
    if wanted is not None and wanted != page:
        parameters = {name: value for name, value in st.query_params.to_dict().items() if name != Key.MODEL}
        st.switch_page(f"viz/pages/{wanted}/page.py", query_params=parameters)


def close(lesson: Lesson) -> None:
    """End the lesson: what it had put away comes back; the page stays."""
    session = current_session()
    for name in (Part.LESSON, Part.STEP, HIDE):
        session.address.set(name, None)
    before.give_back(session, lesson.model)


def hide(session: Session) -> None:
    """Hide the controls that the lesson's step, or the address, names."""
    names = (session.address.get(HIDE) or "").split(",")
    selectors = [HIDDEN[name] for name in names if name in HIDDEN]
    if selectors and session.address.get(Part.LESSON):
        st.html(
            f"<style>:root:not([data-presenting]) :is({', '.join(selectors)}) {{ display: none !important; }}</style>"
        )


# The panel.


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
        head.caption(literal(f"{lesson.title} · {place_words(lesson, number)}"))
        head.button(_("End lesson"), key="lesson_end", type="tertiary", on_click=partial(close, lesson))
        st.markdown(f"**{literal(step.title)}**")
        st.markdown(markdown(step.paragraphs))
        own_text.line(session, lesson, state_of(lesson, number))
        waiting = trained_state.awaited(session) is not None
        sentence, place_of_answer = "", None
        if step.question is not None and session.traced_input is not None and not waiting:
            with st.container(key="lesson_question"):
                sentence, place_of_answer = show_question(session, lesson, number, step.question)
        last = number == len(lesson.steps) - 1
        following = lesson_after(lesson) if last else None
        if last:
            st.markdown(end_words(following))
        row = st.container(key="lesson_steps", horizontal=True, vertical_alignment="center")
        row.button(_("Back"), key="lesson_back", disabled=not number, on_click=partial(open_step, lesson, number - 1))
        if following is not None:
            ahead = partial(open_step, following, 0)
            row.button(_("Next lesson"), key="lesson_following", type="primary", on_click=ahead)
        elif not last:
            ahead = partial(open_step, lesson, number + 1)
            row.button(_("Next step"), key="lesson_next", type="primary", on_click=ahead)
        if last and (first := progress(lesson).first):
            words = _("{right} of {all} right at the first guess, without a hint").format(
                right=sum(first.values()), all=len(first)
            )
            st.caption(words)
        if words := before.sentence(session):
            st.caption(words)
        acts = {"go": partial(on_go, lesson), "code": partial(on_code, Part.ACTS), "place": on_place}
        changes = {f"on_{name}_change": act for name, act in acts.items()}
        _lesson(data=step_data(lesson, number, sentence, place_of_answer), key=Part.ACTS, **changes)
    before.look_after(session)


def end_words(following: Lesson | None) -> str:
    """Last words of a lesson, with the name of the one that comes next, if one does."""
    if following is None:
        return _("The lesson is over, and it was the last one of the list.")
    return _("The lesson is over. The next one is **{title}**.").format(title=literal(following.title))


def place_words(lesson: Lesson, number: int) -> str:
    return _("step {number} of {count}").format(number=number + 1, count=len(lesson.steps))


def step_data(lesson: Lesson, number: int, question: str, place: Light | None = None) -> dict[str, Any]:
    """A step for the browser, see lesson.js. question: as it is asked of this text. place: of its answer."""
    step = lesson.steps[number]
    lights = step.lights if place is None else [*step.lights, place]
    return {
        "lesson": lesson.name,
        "step": number,
        "count": len(lesson.steps),
        "title": step.title,
        "place": place_words(lesson, number),
        "question": question,
        "find": step.question.kind if question and step.question and step.question.kind in FINDABLE else "",
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


def paragraphs_data(paragraphs: Sequence[Paragraph]) -> list[dict[str, Any]]:
    """Paragraphs as values: text and style of each span."""
    return [
        {"number": each.number, "spans": [[span.content, str(span.style)] for span in each.spans]}
        for each in paragraphs
    ]


def on_go(lesson: Lesson) -> None:
    """Another step, asked for by a key or from the teacher's other window."""
    number = int(st.session_state[Part.ACTS]["go"])
    if 0 <= number < len(lesson.steps):
        open_step(lesson, number)


def on_place() -> None:
    """A place of a figure was clicked that a question may ask for, or a film was left at a step."""
    place = st.session_state[Part.ACTS]["place"]
    st.session_state[Part.PLACE] = {str(name): max(0, int(value)) for name, value in place.items()}


def markdown(paragraphs: Sequence[Paragraph]) -> str:
    """Text of a step as Markdown that shows it as it is, with its emphasis, code and links alone."""
    lines = []
    for paragraph in paragraphs:
        text = "".join(_span(span.content, span.style, span.address) for span in paragraph.spans)
        mark = f"{paragraph.number}." if paragraph.number else "-"
        lines.append(f"\n{text}\n" if paragraph.number is None else f"{mark} {text}\n")
    return "".join(lines)


def _span(text: str, style: str, address: str) -> str:
    if style == "code":
        return token_code(text)
    inner = text.strip(" ")
    if not inner:
        return " " if text else ""
    before, after = " " * (text[0] == " "), " " * (text[-1] == " ")
    words = f"{SIGNS[style]}{prose(inner)}{SIGNS[style]}"
    if address:
        words = f"[{words}]({_target(address)})"
    return f"{before}{words}{after}"


def prose(text: str) -> str:
    """Text as Markdown that shows it as it is, with widths such as √d_k as formulas."""
    first, *others = WIDTH.split(text)  # what stands between widths, and these, in turn
    words = literal(first) if first else ""
    for width, rest in zip(others[::2], others[1::2], strict=True):
        space = " " if rest.startswith(" ") else ""
        words += FORMULAS[width] + space + (literal(rest) if rest else "")
    return words


def _target(address: str) -> str:
    """Address of a link, without signs that end it: of a lesson of its folder, of a page, of another site."""
    if address.endswith(".md") and "/" not in address:
        return f"lessons?{Part.LESSON}={quote(address.partition('.')[0])}"
    return quote(address.removeprefix("/"), safe=":/?&=%#~+,;@-._")


# Its question.


def show_question(session: Session, lesson: Lesson, number: int, question: Question) -> tuple[str, Light | None]:
    """The question of the text that is there, answered by the model that is shown; then hints. The question in words,
    "" where it cannot be asked, and the place of its answer once that is shown.
    """
    from model.lessons.state import Subject

    now = session.current
    live = training.training(session) if session.training.step is not None else None
    subject = Subject(now.model, now.trace, now.source, now.target, live.current if live else None)

    def words_and_answer() -> tuple[Message, Answer]:
        return question.wording(subject), question.answer(subject)

    try:
        made_of = now.trace, question, session.training.step
        sentence, answer = session.cached("lesson_question", made_of, words_and_answer)
    except ValueError as error:  # another model, or a text that is too short for it
        st.info(as_sentence(translate_error(error)))
        return "", None
    wanted = state_of(lesson, number).parameters.get(Key.MODEL, lesson.model)
    if live is None and now.model.name != wanted:
        other = _("The lesson was written for {model}; {name} answers here.")
        st.caption(other.format(model=literal(wanted), name=literal(now.model.name)))
    words = in_language(sentence.replacing("▁", "·"))
    st.markdown(f"**{prose(words)}**")
    # What a change does is asked of the step's own state: the reader may make it before the guess, and after it.
    of = now.model.name, session.traced, () if question.kind == "change" else session.what_if.changes
    ask_class(session, (lesson.name, number, of), lesson.title, sentence, answer)
    key = f"guess_{lesson.name}_{number}_{hash(of)}"
    guess = ask(question, answer, subject, key)
    for view in bars(session):
        view()
    if guess is not None:
        CLASS_SESSIONS.answer(session, (lesson.name, number, of), guess)
    known = progress(lesson)
    hints = known.hints.get(number, 0)
    verdict = None if guess is None else answer.judge(guess)
    if guess is not None or hints == HINTS:
        if verdict is not None:
            known.first.setdefault(number, verdict and not hints)
        st.markdown(reaction(question, answer, verdict, guess))
    for hint in question.hints[:hints]:
        st.caption(prose(hint))
    if hints < HINTS and not verdict:
        label = _("Show me") if hints == HINTS - 1 else _("Hint")
        st.button(label, key="lesson_hint", type="tertiary", on_click=partial(known.hints.update, {number: hints + 1}))
    return words, light_of(question, answer, subject) if hints == HINTS else None


def light_of(question: Question, answer: Answer, subject: Subject) -> Light | None:
    """Place of an answer in the figures of the page; none of a cell while another head is the large one."""
    from model.lessons.questions import light

    place = light(question, answer, subject)
    if place is None or place.kind != "cell":
        return place
    session = current_session()
    kind, layer, head, _query = question.place(subject)
    chosen = session.fit_selection(*subject.maps(kind), 1)
    current = session.address.get(Key.KIND) or subject.attentions[-1]
    return place if (current, chosen.layer, chosen.head) == (kind, layer, head) else None


def ask_class(session: Session, key: tuple[str, int, object], title: str, sentence: Message, answer: Answer) -> None:
    """Put the question before the class, where this window teaches one."""
    words = in_language(sentence.replacing("▁", "·"))
    options = tuple(option_name(each) for each in answer.options)
    CLASS_SESSIONS.put_question(session, key, Answers(title, key[1] + 1, words, options, answer.right))


def ask(question: Question, answer: Answer, subject: Subject, key: str) -> int | float | None:
    """The reader's guess, by its number or as a number; None: there is none yet."""
    if question.kind == "step":
        return _found_step(key)
    if not answer.options:
        value = st.number_input(_("Your guess"), value=None, min_value=0.0, key=key, width=160)
        return None if value is None else float(value)
    if question.kind == "head":
        return _chosen_head(question, answer, subject, key)
    if question.kind == "cell":
        _offer_cell(question, answer, subject, key)
    return st.pills(
        _("Your guess"),
        range(len(answer.options)),
        format_func=lambda place: literal(option_name(answer.options[place])),
        key=key,
        label_visibility="collapsed",
    )


def option_name(option: str) -> str:
    """An option in the language in use, or a token as it is shown everywhere."""
    return in_language(option) if isinstance(option, Message) else token_sign(option)


def _chosen_head(question: Question, answer: Answer, subject: Subject, key: str) -> int | None:
    """Head that is chosen on the page, once the reader says that it is the one."""
    layers, heads = subject.maps(question.attention or subject.attentions[-1])
    chosen = current_session().fit_selection(layers, heads, 1)
    place = chosen.layer * heads + chosen.head
    label = _("It is {head}").format(head=in_language(answer.options[place]))
    st.button(literal(label), key="lesson_pick", on_click=partial(st.session_state.__setitem__, key, place))
    value: int | None = st.session_state.get(key)
    return value


def _found_step(key: str) -> int | None:
    """Step that is written, or pressed in a curve, or at which the film stands, once the reader says that it is it."""
    row = st.container(horizontal=True, vertical_alignment="bottom")
    value: int | None = row.number_input(_("Your guess"), value=None, min_value=0, step=1, key=key, width=160)
    step = st.session_state.get(Part.PLACE, {}).get("step")
    if step is None:
        st.caption(_("Write it, press the curve there, or lead the film to it."))
    else:
        label = _("It is step {step}").format(step=f"{step:,}")
        row.button(label, key="lesson_pick", on_click=partial(st.session_state.__setitem__, key, step))
    return value


def _offer_cell(question: Question, answer: Answer, subject: Subject, key: str) -> None:
    """Button for the cell that was clicked in the large map, where that is of the question's head."""
    from model.lessons.questions import keys, numbered, queries

    place, session = st.session_state.get(Part.PLACE, {}), current_session()
    kind, layer, head, _query = question.place(subject)
    chosen = session.fit_selection(*subject.maps(kind), 1)
    if not {"row", "column"} <= place.keys() or (chosen.layer, chosen.head) != (layer, head):
        st.caption(_("Press the cell in the large map, or choose it here."))
        return
    names = numbered(queries(subject, kind)), numbered(keys(subject, kind))
    groups = [merged(session).get(side) for side in sides(subject.trace, kind)]
    row, column = (first_of(each, place[name]) for each, name in zip(groups, ("row", "column"), strict=True))
    if not (row < len(names[0]) and column < len(names[1])):
        return
    cell = f"{names[0][row]} → {names[1][column]}"
    number = answer.options.index(cell) if cell in answer.options else None
    label = _("It is {head}").format(head=option_name(cell))
    pick = partial(st.session_state.__setitem__, key, number)
    st.button(literal(label), key="lesson_pick", on_click=pick, disabled=number is None)
    if number is None:
        st.caption(_("Its weight is not among the {count} largest.").format(count=len(answer.options)))


def judged(question: Question, answer: Answer, verdict: bool | None, guess: float | None) -> str:
    """Whether a guess is right; "" where nothing is judged. Of a head it is said which: another one may be chosen on
    the page by now.
    """
    if verdict is None:
        return ""
    if question.kind != "head" or guess is None:
        return _("Right.") if verdict else _("Not so.")
    words = _("Right: {head}.") if verdict else _("Not so: {head}.")
    return words.format(head=literal(option_name(answer.options[int(guess)])))


def reaction(question: Question, answer: Answer, verdict: bool | None, guess: float | None = None) -> str:
    """What is said to a guess: whether it is right, then the numbers of the model, and why nothing is scored."""
    numbers = _numbers(question, answer, judged(question, answer, verdict, guess))
    return in_turn(numbers, "" if answer.right is not None else undecided(question))


def undecided(question: Question) -> str:
    """Why no guess is scored: the model does not decide."""
    if question.kind == "change":
        return _("The two differ by less than 5 %, too little for “up”, “down” or “the same”: no guess is scored.")
    return _("The best two differ by less than 5 %: the model does not decide it, and no guess is scored.")


def _numbers(question: Question, answer: Answer, words: str) -> str:
    if question.kind == "step":
        return in_turn(words, _("It is step {step}.").format(step=f"{answer.measures[0]:,.0f}"))
    if not answer.options:
        value = f"{answer.measures[0]:,.0f}" if question.counts else significant(answer.measures[0])
        return in_turn(words, _("It is {value}.").format(value=value))
    if question.of == "translation":
        before, after = map(token_code, answer.texts)
        if answer.texts[0] == answer.texts[1]:
            return in_turn(words, _("With the change as without it the model writes {text}").format(text=before))
        both = _("Without the change the model writes {before}, with it {after}")
        return in_turn(words, both.format(before=before, after=after))
    if question.kind == "change":
        first, second = alike(answer.measures)
        return in_turn(words, _("It was {before} and becomes {after}.").format(before=first, after=second))
    order = sorted(range(len(answer.options)), key=lambda place: answer.measures[place], reverse=question.most)[:3]
    numbers = alike([answer.measures[place] for place in order])
    best = (f"{_option_code(answer.options[place])} {number}" for place, number in zip(order, numbers, strict=True))
    return in_turn(words, " · ".join(best))


def _option_code(option: str) -> str:
    """An option in a sentence, where a token, of one sign perhaps, stands apart from the rest."""
    return literal(option_name(option)) if isinstance(option, Message) else token_code(option)


def alike(values: Sequence[float]) -> list[str]:
    """Numbers to be compared: with the same unit and as many decimals, so that the largest has three digits."""
    largest = max(map(abs, values))
    if not 1e-6 <= largest < 1e6:
        return [significant(value) for value in values]
    decimals = max(0, 2 - math.floor(math.log10(largest)))
    return [f"{value:.{decimals}f}".replace("-", "−") for value in values]
