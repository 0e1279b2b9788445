"""JSON of strangers: bounded in bytes and in nesting, each name once, no NaN unless it is asked for."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from model.runtime.errors import CheckpointError

LARGEST = 64 << 20  # bytes of a file: the largest tokenizers have half of it
LONGEST_NUMBER = 40  # digits
PARTS = 3_000_000  # values and containers: each takes up to 100 bytes when it is read


def read_json(path: Path, nan: bool = False, largest: int = LARGEST) -> Any:
    """What the file says. nan: NaN and ±Infinity are numbers, as Python writes them.

    Raises:
        CheckpointError: it is no such file, too large, not UTF-8, no JSON, too deep, or says something twice.
    """
    return parse_json(read_bytes(path, largest), path.name, nan)


def read_record(path: Path) -> dict[str, Any]:
    """The object in a file, its values by name, NaN and ±Infinity among them; empty if there is no such file.

    Raises:
        CheckpointError: as of `read_json`; or it holds something else than an object.
    """
    said = read_json(path, nan=True) if path.exists() else {}
    if not isinstance(said, dict):
        raise CheckpointError(f"{path.name} must hold a JSON object, not {type(said).__name__}")
    return said


def read_bytes(path: Path, largest: int = LARGEST) -> bytes:
    """The whole of a small file.

    Raises:
        CheckpointError: there is none, it is too large, or something else than a file (a pipe never ends).
    """
    try:
        if path.exists() and not path.is_file():
            raise CheckpointError(f"{path.name} cannot be read: it is not a file")
        with path.open("rb") as file:
            content = file.read(largest + 1)
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read: {error}") from error
    if len(content) > largest:
        raise CheckpointError(f"{path.name} has more than {largest:,} bytes, the most that such a file may have")
    return content


def read_text(path: Path, largest: int = LARGEST) -> str:
    """The whole of a small text.

    Raises:
        CheckpointError: it cannot be read, or is not UTF-8.
    """
    try:
        return read_bytes(path, largest).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path.name} cannot be read: {error}") from error


def parse_json(content: bytes, name: str, nan: bool = False, parts: int = PARTS) -> Any:
    """What `content` says. name: of the file, for the sentence. parts: the most values and containers in it.

    Raises:
        CheckpointError: it is not UTF-8, no JSON, too deep, or says something twice.
    """
    if sum(content.count(sign) for sign in (b",", b"[", b"{")) > parts:
        raise CheckpointError(f"{name} has more than {parts:,} values, the most that are read")
    try:
        return json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_each_once,
            parse_int=_whole,
            parse_constant=None if nan else _refuse_constant,
        )
    except (ValueError, RecursionError) as error:  # wrong bytes, wrong JSON, numbers of thousands of digits
        why = "it nests too deep" if isinstance(error, RecursionError) else str(error)
        raise CheckpointError(f"{name} is not valid JSON: {why}") from error


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two values with the same name every reader believes another one."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"it says {twice[:60]!r} twice")
    return made


def _whole(digits: str) -> int:
    """Arithmetic with numbers of thousands of digits is slow, or ends in other errors than were thought of."""
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"a number has {len(digits):,} digits")
    return int(digits)


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number of JSON")
