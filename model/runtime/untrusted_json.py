"""Untrusted JSON: bounded in bytes and nesting, every name once, no NaN unless allowed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from model.message import InputError
from model.runtime.errors import CheckpointError
from model.runtime.files import open_file

LARGEST = 64 << 20  # most bytes of a file: the largest tokenizers have half as many
LARGEST_YAML = 1 << 17  # bytes
LONGEST_NUMBER = 40  # most digits of a whole number
PARTS = 3_000_000  # most values and containers: each takes up to 100 bytes in memory


def read_json(path: Path, nan: bool = False, largest: int = LARGEST) -> Any:
    """Value in a JSON file. nan: whether NaN and ±Infinity are allowed, as Python writes them.

    Raises:
        CheckpointError: the file cannot be read, has more than `largest` bytes, or is not valid, see `parse_json`.
    """
    return parse_json(read_bytes(path, largest), path.name, nan)


def read_record(path: Path) -> dict[str, Any]:
    """Object in a JSON file, NaN and ±Infinity allowed; empty if there is no such file.

    Raises:
        CheckpointError: as of `read_json`, or the file holds something else than an object.
    """
    record = read_json(path, nan=True) if path.exists() else {}
    if not isinstance(record, dict):
        raise CheckpointError("{name} must hold a JSON object, not {kind}", name=path.name, kind=type(record).__name__)
    return record


def read_yaml(path: Path) -> dict[str, Any]:
    """Mapping in a small YAML file without aliases, by which a few lines name endless content; empty if there is no
    such file.

    Raises:
        CheckpointError: as of `read_text`, or the file is no such mapping.
    """
    if not path.exists():
        return {}
    text = read_text(path, LARGEST_YAML)
    try:
        aliases = any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text))
        record = None if aliases else yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CheckpointError("{name} is not valid YAML", name=path.name) from error
    if not isinstance(record, dict):
        raise CheckpointError("{name} must hold a mapping of YAML without aliases", name=path.name)
    return record


def read_bytes(path: Path, largest: int = LARGEST) -> bytes:
    """Content of a small file.

    Raises:
        CheckpointError: the file cannot be read, has more than `largest` bytes, or is no file (a pipe never ends).
    """
    try:
        with open_file(path) as file:
            content = file.read(largest + 1)
    except OSError as error:
        raise CheckpointError("{name} cannot be read: {error}", name=path.name, error=error) from error
    if len(content) > largest:
        raise CheckpointError(
            "{name} has more than {largest:,} bytes, the most that such a file may have",
            name=path.name,
            largest=largest,
        )
    return content


def read_text(path: Path, largest: int = LARGEST) -> str:
    """Content of a small text file.

    Raises:
        CheckpointError: as of `read_bytes`, or the file is not UTF-8.
    """
    try:
        return read_bytes(path, largest).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError("{name} cannot be read: {error}", name=path.name, error=error) from error


def parse_json(content: bytes, name: str, nan: bool = False, parts: int = PARTS) -> Any:
    """Value of JSON in UTF-8. name: of the file, for the sentence. parts: most values and containers.

    Raises:
        CheckpointError: `content` is not UTF-8, no JSON, nests too deep, has a name twice or more than `parts` values.
    """
    if sum(content.count(sign) for sign in (b",", b"[", b"{")) > parts:
        raise CheckpointError("{name} has more than {parts:,} values, the most that are read", name=name, parts=parts)
    try:
        return json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_each_once,
            parse_int=_whole,
            parse_constant=None if nan else _refuse_constant,
        )
    except (ValueError, RecursionError) as error:  # wrong bytes, wrong JSON, numbers of thousands of digits
        why = "it nests too deep" if isinstance(error, RecursionError) else str(error)
        raise CheckpointError("{name} is not valid JSON: {why}", name=name, why=why) from error


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Object with these names, each once: of two values with the same name, every reader believes another one."""
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise InputError("it says {twice!r} twice", twice=twice[:60])
    return values


def _whole(digits: str) -> int:
    """Whole number of few digits: arithmetic with thousands of them is slow, or raises unexpected errors."""
    if len(digits) > LONGEST_NUMBER:
        raise InputError("a number has {count:,} digits", count=len(digits))
    return int(digits)


def _refuse_constant(text: str) -> Any:
    raise InputError("{text} is not a number of JSON", text=text)
