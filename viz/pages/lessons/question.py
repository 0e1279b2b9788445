"""Question of a step: how it is asked and hinted at, and what is said to a guess."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from model.message import Message
from viz.i18n.catalogue import _
from viz.i18n.errors import translate_error
from viz.i18n.format import as_sentence, in_turn, literal, one_row, sides, significant, token_code, token_sign
from viz.i18n.messages import in_language, labelled
from viz.pages.lessons.class_bars import bars
from viz.pages.lessons.progress import HINTS, progress
from viz.pages.lessons.step_text import prose
from viz.pages.lessons.steps import Part, state_of
from viz.render.grouping import first_of
from viz.state import training
from viz.state.class_sessions import CLASS_SESSIONS, Answers, seat_of
from viz.state.session import Key, Session, current_session
from viz.state.token_groups import merged

if TYPE_CHECKING:
    from model.lessons.lesson import Lesson
    from model.lessons.light import Light
    from model.lessons.questions import Answer, Question
    from model.lessons.state import Subject

FINDABLE = ("cell", "step")  # kinds of question that a click in a figure answers; heads are chosen on the page
MOST_EXPERTS = 8  # whose probabilities are said
MOST_HEADS = 100  # of which one is chosen in a list


@dataclass(frozen=True)
class QuestionView:
    """Question as it stands in the panel. words: as it is asked; "" where it cannot be. place: of its answer, once that
    is shown. remarks: number of remarks on it, hints and what is said to a guess. is_open: nothing was answered yet.
    hint: act of the button for the next one; None: nothing is left to find. shows_answer: that is the last one.
    again: act of the button that opens the question again; None: there is still something to find. options: of which
    one is pressed, as they are written.
    """

    words: str = ""
    place: Light | None = None
    remarks: int = 0
    is_open: bool = False
    hint: Callable[[], None] | None = None
    shows_answer: bool = False
    again: Callable[[], None] | None = None
    options: tuple[str, ...] = ()


def show_question(session: Session, lesson: Lesson, number: int, question: Question) -> QuestionView:
    """The question of the text that is there, answered by the model that is shown; then what is said to a guess, and
    hints.
    """
    from model.lessons.state import Subject
    from model.lessons.wording import wording

    now = session.current
    live = training.training(session) if session.training.step is not None else None
    subject = Subject(now.model, now.trace, now.source, now.target, live.current if live else None)

    def words_and_answer() -> tuple[Message, Answer]:
        return wording(question, subject), question.answer(subject)

    try:
        made_of = now.trace, question, session.training.step
        sentence, answer = session.cached("lesson_question", made_of, words_and_answer)
    except ValueError as error:  # another model, or a text that is too short for it
        st.info(as_sentence(translate_error(error)))
        return QuestionView()
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
    known = progress(lesson)
    if key in known.guesses:
        st.session_state.setdefault(key, known.guesses[key])
    guess = ask(question, answer, subject, key)
    for view in bars(session):
        view()
    if guess is None:
        known.guesses.pop(key, None)
    else:
        known.guesses[key] = guess
        CLASS_SESSIONS.answer(session, (lesson.name, number, of), guess)
    hints = known.hints.get(number, 0)
    verdict = None if guess is None else answer.judge(guess)
    is_open = guess is None and hints < HINTS
    with st.container(key="lesson_remarks"):
        if not is_open:
            known.note(number, verdict, answer.right is not None)
            st.markdown(reaction(question, answer, verdict, guess))
        for hint in question.hints[:hints]:
            st.caption(prose(hint))
    offered = is_open or (verdict is False and hints < HINTS)
    act = partial(known.hints.update, {number: hints + 1}) if offered else None
    place = light_of(question, answer, subject) if hints == HINTS else None
    again = None if offered else partial(known.forget_guess, number, key)
    options = () if question.kind == "head" else tuple(map(option_name, answer.options))
    return QuestionView(words, place, hints + (not is_open), is_open, act, hints == HINTS - 1, again, options)


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
        least = {"min_value": 0, "step": 1} if question.counts else {"min_value": 0.0}
        value = st.number_input(_("Your guess"), value=None, key=key, width="stretch", **least)
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
    if _follows() and layers * heads <= MOST_HEADS:  # whoever chooses one on the page looks around by himself
        names = [f"{number // heads + 1}.{number % heads + 1}" for number in range(layers * heads)]
        return st.pills(
            _("Your guess"),
            range(len(names)),
            format_func=lambda place: literal(names[place]),
            key=key,
            label_visibility="collapsed",
        )
    label = _("It is {head}").format(head=in_language(answer.options[place]))
    st.button(literal(label), key="lesson_pick", on_click=partial(st.session_state.__setitem__, key, place))
    value: int | None = st.session_state.get(key)
    return value


def _follows() -> bool:
    """True in a window that follows a teacher."""
    seat = seat_of(current_session())
    return seat is not None and seat.follows and not seat.teaches


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
    numbers = _numbers(question, answer, judged(question, answer, verdict, guess), guess)
    return in_turn(numbers, "" if answer.right is not None else undecided(question))


def undecided(question: Question) -> str:
    """Why no guess is scored: the model does not decide."""
    if question.kind == "change":
        return _("The two differ by less than 5 %, too little for “up”, “down” or “the same”: no guess is scored.")
    return _("The best two differ by less than 5 %: the model does not decide it, and no guess is scored.")


def most_first(question: Question, answer: Answer, guess: float | None) -> list[int]:
    """Options whose numbers are said, the best first: all experts, of others three; the guess is always among them."""
    order = sorted(range(len(answer.options)), key=lambda place: answer.measures[place], reverse=question.most)
    best = order[: MOST_EXPERTS if question.kind == "expert" else 3]
    return best if guess is None or int(guess) in best else [*best, int(guess)]


def _numbers(question: Question, answer: Answer, words: str, guess: float | None) -> str:
    if question.kind == "step":
        return in_turn(words, _("It is step {step}.").format(step=f"{answer.measures[0]:,.0f}"))
    if not answer.options:
        value = f"{answer.measures[0]:,.0f}" if question.counts else significant(answer.measures[0])
        return in_turn(words, _("It is {value}.").format(value=value))
    if question.kind == "search" or question.of == "translation":
        return in_turn(words, _texts(question, *answer.texts))
    if question.kind == "change":
        first, second = alike(answer.measures)
        return in_turn(words, _("It was {before} and becomes {after}.").format(before=first, after=second))
    order = most_first(question, answer, guess)
    numbers = alike([answer.measures[place] for place in order])
    best = (_with_number(answer.options[place], number) for place, number in zip(order, numbers, strict=True))
    return in_turn(words, " · ".join(best))


def _with_number(option: str, number: str) -> str:
    """An option with its number in the same row; a token, of one sign perhaps, stands apart from the rest."""
    if isinstance(option, Message):
        return literal(one_row(in_language(labelled(option, number))))
    return f"{token_code(option)}\N{WORD JOINER}\N{NO-BREAK SPACE}{number}"


def _texts(question: Question, first: str, second: str) -> str:
    """The two texts that the model writes, or that they are one."""
    if question.kind == "search":
        one, two = _("Both write {text}"), _("Greedy decoding writes {first}, the search {second}")
    else:
        one = _("With the change as without it the model writes {text}")
        two = _("Without the change the model writes {first}, with it {second}")
    if first == second:
        return one.format(text=token_code(first))
    return two.format(first=token_code(first), second=token_code(second))


def alike(values: Sequence[float]) -> list[str]:
    """Numbers to be compared: with the same unit and as many decimals, so that the largest has three digits."""
    largest = max(map(abs, values))
    if not 1e-6 <= largest < 1e6:
        return [significant(value) for value in values]
    decimals = max(0, 2 - math.floor(math.log10(largest)))
    return [f"{value:.{decimals}f}".replace("-", "−") for value in values]
