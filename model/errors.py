"""What can go wrong on the way from a file to a model, and what is said of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping

LONGEST = 600  # characters of a sentence: a file may hold names of any length
BROKEN_OFF = "computing this broke off with {name}: {first}; the log says where"


def first_line(error: BaseException, longest: int = 160) -> str:
    """What an error says, as a part of a sentence: libraries go on for many lines, or say nothing."""
    lines = str(error).strip().splitlines()
    return lines[0][:longest] if lines else type(error).__name__


def why_it_broke_off(error: Exception) -> str:
    """What ended a computation, as a sentence; what nobody expected goes to the log too."""
    if isinstance(error, ValueError | RuntimeError | OSError | MemoryError):
        return str(error) or type(error).__name__
    logging.getLogger(__name__).error("a computation broke off", exc_info=error)
    return BROKEN_OFF.format(name=type(error).__name__, first=first_line(error))


class CheckpointError(ValueError):
    """A file or folder that cannot be opened, or must not be: one sentence that says what is wrong and what to do.

    What a file says of itself can stand in the sentence, so line breaks, control characters and halves of surrogate
    pairs are written as escapes, and the sentence has an end.
    """

    def __init__(self, sentence: str) -> None:
        shown = sentence if len(sentence) <= LONGEST else f"{sentence[: LONGEST - 1]}…"
        super().__init__("".join(each if each.isprintable() else ascii(each)[1:-1] for each in shown))


class UnmeasuredError(CheckpointError):
    """Values of a type that nothing here computes with: a tensor is listed all the same."""


class AbsentError(KeyError):
    """A quantity that a model does not have. name: of it. reason: why, in a sentence."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name, self.reason = name, reason


def require(model: object, *names: str) -> None:
    """These quantities are none of those that the model says it lacks.

    Raises:
        AbsentError: one is.
    """
    missing: Mapping[str, str] = getattr(model, "missing", {})
    for name in names:
        if name in missing:
            raise AbsentError(name, missing[name])
