"""Check of a folder of lessons without a browser: every state opens, every question has an answer, every link leads
somewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from model.checkpoints.load import open_checkpoint
from model.inference.text_model import TextModel
from model.lessons.choices import require_choices
from model.lessons.lesson import ENDING, Lesson, error_at, read_folder
from model.lessons.questions import Question
from model.lessons.reckoning import fits, minutes_alone
from model.lessons.state import State, Subject
from model.lessons.trained import trained_subject
from model.lessons.wording import wording
from model.message import InputError, Message

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"


class Check(NamedTuple):
    """Check of one lesson, or of a file that is none. undecided: lines of questions that the model does not decide."""

    lesson: Lesson | None
    faults: list[str]
    undecided: list[int]

    @property
    def line(self) -> str:
        """Line about the lesson: its steps and questions, and how many faults it has."""
        lesson = self.lesson
        assert lesson is not None
        questions = sum(step.question is not None for step in lesson.steps)
        parts = f"{_count(len(lesson.steps), 'step')}, {_count(questions, 'question')}"
        if self.undecided:
            parts += f" ({len(self.undecided)} not decided by the model: line {', '.join(map(str, self.undecided))})"
        return f"{lesson.file}: {lesson.title}, {lesson.minutes} min: {parts}, {_count(len(self.faults), 'fault')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def check_folder(folder: Path) -> Iterator[Check]:
    """Check of each file of a folder.

    Raises:
        ValueError: there is no such folder.
    """
    lessons, faults = read_folder(folder)
    for fault in faults:
        yield Check(None, [str(fault)], [])
    for lesson in lessons:
        yield check_lesson(lesson, folder)


def check_lesson(lesson: Lesson, folder: Path) -> Check:
    """Check of a lesson in its folder, where other lessons and models may be."""
    check = Check(lesson, [], [])
    planned = sum(step.minutes or 0 for step in lesson.steps)
    if planned > lesson.minutes:
        words = Message(
            "the minutes of its steps are {planned}, its own {minutes}", planned=planned, minutes=lesson.minutes
        )
        check.faults.append(str(error_at(lesson.file, 1, words)))
    if lesson.alone is not None and not fits(lesson.alone, lesson):
        reckoned = round(minutes_alone(lesson))
        words = Message(
            "alone ({alone}) is more than a third off: its texts, figures and questions take about {reckoned} minutes",
            alone=lesson.alone,
            reckoned=reckoned,
        )
        check.faults.append(str(error_at(lesson.file, 1, words)))
    state: State | None = None
    for step in lesson.steps:
        state = step.state or state
        assert state is not None
        line = step.state_line or step.line
        try:
            require_choices(state)
            subject = subject_of(lesson, state if step.question else state.untrained, folder)
            line = step.line
            for link in step.links:
                _follow(link, lesson, folder)
            for light in step.lights:
                light.require(subject, state)
            if step.question is not None:
                wording(step.question, subject)
                if not _is_decided(replace(step.question, hints=("", "")), _path(lesson, state, folder), state.address):
                    check.undecided.append(step.line)
        except ValueError as error:
            check.faults.append(str(error_at(lesson.file, line, str(error))))
    return check


def _follow(link: str, lesson: Lesson, folder: Path) -> None:
    """Open where a link leads: not to other sites, which need a network.

    Raises:
        ValueError: it leads nowhere.
    """
    if link.endswith(ENDING) and "/" not in link:
        if not (folder / link).is_file():
            raise InputError("{link} is no lesson of this folder", link=link[:80])
    elif link.startswith("/"):
        state = State.read(link)
        require_choices(state)
        subject_of(lesson, state.untrained, folder)


def subject_of(lesson: Lesson, state: State, folder: Path) -> Subject:
    """Model and texts of a step.

    Raises:
        ValueError: the model cannot be opened, or the state does not fit it.
    """
    return _subject(_path(lesson, state, folder), state.address)


def _path(lesson: Lesson, state: State, folder: Path) -> Path:
    """Folder of the model of a step: a bundled one, or one beside the lesson."""
    name = state.parameters.get("model", lesson.model)
    bundled = CHECKPOINTS / name
    inside = bundled.parent == CHECKPOINTS and (bundled / "config.json").is_file()
    return bundled if inside else folder / name


# A lesson has the same states and questions in each of its languages: they are computed once.


@lru_cache(maxsize=32)
def _subject(path: Path, address: str) -> Subject:
    state = State.read(address)
    return trained_subject(state) if state.trained else Subject.of(_open(path), state)


@lru_cache(maxsize=32)
def _is_decided(question: Question, path: Path, address: str) -> bool:
    return question.answer(_subject(path, address)).right is not None


@lru_cache(maxsize=4)
def _open(path: Path) -> TextModel:
    return open_checkpoint(path)
