"""Results of an experiment so far, and the sentence about what ended it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Generic, TypeVar

from model.message import Message
from model.runtime.errors import MissingQuantityError, first_line, is_out_of_memory

Result = TypeVar("Result")

NO_ROOM = "this experiment does not fit into memory: choose smaller numbers"
BROKEN_OFF = "this experiment broke off with {name}: {first}; begin it again, or with other numbers"


@dataclass(frozen=True)
class Report(Generic[Result]):
    """Share of an experiment that is done, 0 to 1, and its results so far."""

    share: float
    result: Result


def explained(error: Exception) -> str:
    """Sentence about the error that ended an experiment; an unexpected one is logged too."""
    if isinstance(error, MissingQuantityError):
        return error.reason
    if isinstance(error, ValueError | FloatingPointError):
        return str(error)
    if is_out_of_memory(error):
        return NO_ROOM
    logging.getLogger(__name__).error("an experiment broke off", exc_info=error)
    return Message(BROKEN_OFF, name=type(error).__name__, first=first_line(error))
