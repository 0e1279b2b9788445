"""Pickles of plain values alone: dictionaries, lists, tuples, texts and numbers, as pickle.dump writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from model.checkpoints.formats.pickle_steps import STEPS, KeepingReading, RefusedError, refusal
from model.runtime.errors import CheckpointError
from model.runtime.untrusted_json import read_bytes

LARGEST = 16 << 20  # bytes: the letters of any language with their numbers


def read_plain(path: Path) -> Any:
    """Value in a small pickle; nothing in it is run.

    Raises:
        CheckpointError: the file cannot be read, is damaged, or holds anything else.
    """
    try:
        return _PlainReading(read_bytes(path, LARGEST), {}).result()
    except RefusedError as error:
        raise CheckpointError(
            "{file} is a pickle that is damaged or holds more than texts and numbers, which could run code: it "
            "is not read",
            file=path.name,
        ) from error


class _PlainReading(KeepingReading):
    """Machine of today's pickles (protocols 2 to 5), which calls nothing."""

    versions = (2, 3, 4, 5)

    def refuse(self) -> None:
        raise refusal("objects of Python")

    def memoize(self) -> None:
        self.keep(len(self.memory))


MORE: dict[str, Callable[[_PlainReading], object]] = {
    "\x95": lambda it: it.number("<Q"),  # the size of a frame
    "\x94": _PlainReading.memoize,
    "\x8c": lambda it: it.text("<B", "strict"),
    "\x8d": lambda it: it.text("<Q", "strict"),
    **dict.fromkeys(("c", "R", "\x81", "b", "Q", "\x93"), _PlainReading.refuse),
}
_PlainReading.table = STEPS | {ord(code): step for code, step in MORE.items()}
