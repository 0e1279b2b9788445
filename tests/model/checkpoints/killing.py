"""A process that dies at a chosen step of what it asks the system to do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import model.runtime.files

CALLS = ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync")


class Killed(BaseException):
    """The process is dead: no clean-up runs, as every call of it raises this again."""


@contextmanager
def dying_at(step: int, patch: pytest.MonkeyPatch, swallow: bool = True) -> Iterator[list[str]]:
    """Die at the given call, in the middle of it where it writes; yields a list that then names the call."""
    count, died = 0, []

    def dying(name: str, call: Callable[..., Any], half: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if died:
                raise Killed
            if count == step:
                half(*arguments)
                died.append(name)
                raise Killed
            return call(*arguments, **options)

        return wrapped

    with patch.context() as patched:
        for name in CALLS:
            patched.setattr(os, name, dying(name, getattr(os, name), lambda *arguments: None))
        patched.setattr(Path, "write_text", dying("write_text", Path.write_text, _write_half_a_text))
        save = model.runtime.files.save_file
        patched.setattr(model.runtime.files, "save_file", dying("save_file", save, _write_half_a_file))
        try:
            yield died
        except Killed:
            if not swallow:
                raise
    assert died or count < step


def _write_half_a_text(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text[: len(text) // 2])


def _write_half_a_file(tensors: object, path: Path, metadata: object) -> None:
    path.write_bytes(b"\x10\x00\x00\x00\x00\x00\x00\x00{")
