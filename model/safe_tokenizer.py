"""A tokenizer.json of strangers: read by a library that believes it, so bounded before and made harmless after."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tokenizers

from model.errors import CheckpointError
from model.safe_json import parse_json, read_bytes

PANIC = "PanicException"  # of pyo3, which no module exports
MOST_STEPS = 256  # of normalizing, splitting and decoding together
MOST_GROWTH = 1024  # characters that one may become: forty times "a" → "aa" would make it 2⁴⁰
MOST_ADDED = 1024  # special tokens around a text


def read_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """The tokenizer in a tokenizer.json, which neither pads nor cuts.

    Raises:
        CheckpointError: the file is missing, too large or no tokenizer, or it makes texts grow without measure.
    """
    try:
        content = read_bytes(path)
    except CheckpointError as error:
        raise CheckpointError(f"{path.name} cannot be read as a tokenizer: {error}") from error
    return parse_tokenizer(content, path.name)


def parse_tokenizer(content: bytes, name: str) -> tokenizers.Tokenizer:
    """The same of the bytes of such a file; name: of the file, for the sentence.

    Raises:
        CheckpointError: it is no tokenizer, or it makes texts grow without measure.
    """
    try:
        record = parse_json(content, "it")
        if not isinstance(record, dict):
            raise CheckpointError("it must hold a JSON object")
        _require_modest(record)
        made = tokenizers.Tokenizer.from_str(content.decode("utf-8"))
        made.no_padding()  # a fixed length could be any number
        made.no_truncation()
    except BaseException as error:  # the library raises bare Exception, and panics of Rust are not even that
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        raise CheckpointError(f"{name} cannot be read as a tokenizer: {error}") from error
    return made


@contextmanager
def panics_named(doing: str) -> Iterator[None]:
    """What a tokenizer of strangers does with a text may end in a panic of Rust, which no `except Exception` sees.

    Raises:
        CheckpointError: it did.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        raise CheckpointError(f"the tokenizer fails at {doing}: {error}; give another tokenizer.json") from error


def _require_modest(record: dict[str, Any]) -> None:
    steps = [step for part in ("normalizer", "pre_tokenizer", "decoder") for step in _steps(record.get(part))]
    growth = math.prod(_growth(step) for step in steps)
    if len(steps) > MOST_STEPS or growth > MOST_GROWTH:
        raise CheckpointError(
            f"it replaces and splits in {len(steps):,} steps, and one character may become {growth:,}: at most "
            f"{MOST_STEPS} and {MOST_GROWTH:,} are taken"
        )
    templates = [_template(step) for step in _steps(record.get("post_processor"))]
    added, copies = sum(added for added, _copies in templates), math.prod(copies for _added, copies in templates)
    if added > MOST_ADDED or copies > 1:
        raise CheckpointError(
            f"it puts {added:,} special tokens around {copies:,} copies of a text: at most {MOST_ADDED:,} around one "
            "are taken"
        )


def _template(step: dict[str, Any]) -> tuple[int, int]:
    """How many special tokens a step puts around a text, at most, and how often the text itself."""
    pieces, special = step.get("single"), step.get("special_tokens")
    if not isinstance(pieces, list):
        return 0, 1
    tokens = special.values() if isinstance(special, dict) else ()
    ids = [each.get("ids") for each in tokens if isinstance(each, dict)]
    longest = max((len(each) for each in ids if isinstance(each, list)), default=1)
    texts = sum(isinstance(piece, dict) and "Sequence" in piece for piece in pieces)
    return (len(pieces) - texts) * longest, max(1, texts)


def _growth(step: dict[str, Any]) -> int:
    """How many characters a replacement may make of one; a regular expression may find nothing between any two."""
    content, pattern = step.get("content"), step.get("pattern")
    if not isinstance(content, str):
        return 1
    found = pattern.get("String") if isinstance(pattern, dict) else None
    return max(1, -(-len(content) // len(found))) if found and isinstance(found, str) else 1 + len(content)


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """A step, and those within it."""
    waiting = [part]
    while waiting:
        step = waiting.pop()
        if isinstance(step, dict):
            yield step
            waiting += step.values()
        elif isinstance(step, list):
            waiting += step
