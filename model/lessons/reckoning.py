"""Reckoning of the minutes that a lesson takes whoever reads it alone."""

from __future__ import annotations

import re

from model.lessons.lesson import Lesson, Step

# A slow reading of a text that teaches: words a minute, and characters a minute of Chinese.
WORDS, CHARACTERS = 180, 300
FIGURE, QUESTION = 0.75, 1.0  # minutes that a new figure is looked at, and that a guess takes with its answer
OFF = 1 / 3  # the share by which minutes may differ from the reckoning
CHINESE = re.compile(r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")  # characters, and signs of their width
WORD = re.compile(r"[^\W_]+(?:[.,'’][^\W_]+)*")


def minutes_alone(lesson: Lesson) -> float:
    """Minutes of one who reads every step, looks at its figure and answers its question."""
    return sum(_step(step) for step in lesson.steps)


def fits(minutes: int, lesson: Lesson) -> bool:
    """True if minutes are those of the reckoning, to a third."""
    reckoned = minutes_alone(lesson)
    return abs(minutes - reckoned) <= OFF * reckoned


def _step(step: Step) -> float:
    text = "\n".join("".join(span.content for span in paragraph.spans) for paragraph in step.paragraphs)
    characters, words = len(CHINESE.findall(text)), len(WORD.findall(CHINESE.sub(" ", text)))
    reading = characters / CHARACTERS + words / WORDS
    return reading + FIGURE * (step.state is not None) + QUESTION * (step.question is not None)
