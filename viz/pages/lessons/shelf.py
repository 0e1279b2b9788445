"""Lessons that can be given here: the bundled ones, and those of the folder that VITRINE_LESSONS names."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from model.message import InputError
from viz.i18n.catalogue import language

if TYPE_CHECKING:
    from model.lessons.lesson import Lesson

BOX = Path(__file__).parent / "box"
FOLDER = "VITRINE_LESSONS"  # in the environment
# The bundled ones as they build on each other; others come after them, by the names of their files.
ORDER = (
    *("attention-seen", "order-and-masks", "learning"),
    *("residual-stream", "layer-norm", "feed-forward", "causal-mask", "padding", "decoding", "kv-cache"),
    *("label-smoothing", "experts", "recurrence", "map-not-shown"),
)


def folders() -> list[Path]:
    wanted = os.environ.get(FOLDER, "").strip()
    return [BOX, *([Path(wanted).expanduser()] if wanted else [])]


def lessons() -> tuple[list[Lesson], list[InputError]]:
    """Lessons, each in the language in use where it has a file in that, and the sentences of files that are none."""
    by_name: dict[str, Lesson] = {}
    faults: list[InputError] = []
    for folder in folders():
        try:
            here, problems = _read(folder, _stamp(folder))
        except InputError as error:
            faults.append(error)
            continue
        faults += problems
        for lesson in sorted(here, key=lambda each: each.language == language()):
            by_name[lesson.name] = lesson
    place = {name: number for number, name in enumerate(ORDER)}
    return sorted(by_name.values(), key=lambda each: place.get(each.name, len(ORDER))), faults


def lesson_named(name: str) -> Lesson | None:
    """Lesson of this name in the language in use, if there is one."""
    return next((each for each in lessons()[0] if each.name == name), None)


def lesson_after(lesson: Lesson) -> Lesson | None:
    """Lesson that follows in the list; None after the last one."""
    here = lessons()[0]
    names = [each.name for each in here]
    place = names.index(lesson.name) + 1 if lesson.name in names else len(names)
    return here[place] if place < len(names) else None


def _stamp(folder: Path) -> tuple[tuple[str, int], ...]:
    """Files of a folder, each with the time of its last change."""
    return tuple(sorted((file.name, file.stat().st_mtime_ns) for file in folder.glob("*.md")))


@lru_cache(maxsize=8)
def _read(folder: Path, _files: tuple[tuple[str, int], ...]) -> tuple[list[Lesson], list[InputError]]:
    from model.lessons.lesson import read_folder

    return read_folder(folder)
