"""Tokenizer files of strangers, bounded before a library reads them, for libraries trust them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tokenizers

from model.runtime.errors import CheckpointError, first_line
from model.runtime.untrusted_json import parse_json, read_bytes

PANIC = "PanicException"  # of pyo3, which no module exports
MOST_STEPS = 256  # of normalizing, splitting and decoding together
MOST_GROWTH = 1024  # characters that replace one: forty times "a" → "aa" would make it 2⁴⁰
MOST_ADDED = 1024  # special tokens around a text


def read_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """Tokenizer of a tokenizer.json, without padding and truncation.

    Raises:
        CheckpointError: the file is missing, too large or no tokenizer, or lets texts grow beyond bounds.
    """
    try:
        content = read_bytes(path)
    except CheckpointError as error:
        raise CheckpointError("{name} cannot be read as a tokenizer: {error}", name=path.name, error=error) from error
    return parse_tokenizer(content, path.name)


def parse_tokenizer(content: bytes, name: str) -> tokenizers.Tokenizer:
    """Tokenizer of the content of a tokenizer.json, without padding and truncation. name: of the file, for sentences.

    Raises:
        CheckpointError: the content is no tokenizer, or lets texts grow beyond bounds.
    """
    try:
        record = parse_json(content, "it")
        if not isinstance(record, dict):
            raise CheckpointError("it must hold a JSON object")
        _require_bounded(record)
        tokenizer = tokenizers.Tokenizer.from_str(content.decode("utf-8"))
        tokenizer.no_padding()  # a fixed length could be any number
        tokenizer.no_truncation()
    except BaseException as error:  # the library raises bare Exception, and panics of Rust are not even that
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        raise CheckpointError("{name} cannot be read as a tokenizer: {error}", name=name, error=error) from error
    return tokenizer


@contextmanager
def panics_named(doing: str) -> Iterator[None]:
    """Block in which a panic of the library, which no `except Exception` catches, becomes an error that says `doing`.

    Raises:
        CheckpointError: the library panicked.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        raise CheckpointError(
            "the tokenizer fails at {doing}: {error}; give another tokenizer.json", doing=doing, error=error
        ) from error


def _require_bounded(record: dict[str, Any]) -> None:
    steps = [step for part in ("normalizer", "pre_tokenizer", "decoder") for step in _steps(record.get(part))]
    growth = math.prod(_growth(step) for step in steps)
    if len(steps) > MOST_STEPS or growth > MOST_GROWTH:
        raise CheckpointError(
            "it replaces and splits in {count:,} steps, and one character may become {growth:,}: at most "
            "{most_steps} and {most_growth:,} are taken",
            count=len(steps),
            growth=growth,
            most_steps=MOST_STEPS,
            most_growth=MOST_GROWTH,
        )
    templates = [_template(step) for step in _steps(record.get("post_processor"))]
    added, copies = sum(added for added, _copies in templates), math.prod(copies for _added, copies in templates)
    if added > MOST_ADDED or copies > 1:
        raise CheckpointError(
            "it puts {added:,} special tokens around {copies:,} copies of a text: at most {most_added:,} around "
            "one are taken",
            added=added,
            copies=copies,
            most_added=MOST_ADDED,
        )


def _template(step: dict[str, Any]) -> tuple[int, int]:
    """Largest number of special tokens that a step puts around a text, and the number of copies of the text."""
    pieces, special = step.get("single"), step.get("special_tokens")
    if not isinstance(pieces, list):
        return 0, 1
    tokens = special.values() if isinstance(special, dict) else ()
    ids = [token.get("ids") for token in tokens if isinstance(token, dict)]
    longest = max((len(run) for run in ids if isinstance(run, list)), default=1)
    texts = sum(isinstance(piece, dict) and "Sequence" in piece for piece in pieces)
    return (len(pieces) - texts) * longest, max(1, texts)


def _growth(step: dict[str, Any]) -> int:
    """Largest number of characters that a step makes of one; a regular expression may match between any two."""
    content, pattern = step.get("content"), step.get("pattern")
    if not isinstance(content, str):
        return 1
    replaced = pattern.get("String") if isinstance(pattern, dict) else None
    return max(1, -(-len(content) // len(replaced))) if replaced and isinstance(replaced, str) else 1 + len(content)


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """A step and the steps within it."""
    waiting = [part]
    while waiting:
        step = waiting.pop()
        if isinstance(step, dict):
            yield step
            waiting += step.values()
        elif isinstance(step, list):
            waiting += step


# A sentencepiece model of strangers, bounded before a library reads it. Nothing in it is run.
#
# Its format is a protocol buffer: field 1 is a piece, 2 the settings of its training, 3 and 5 normalizers, whose field
# 2 is a table of replacements of characters (`sentencepiece_model.proto` of its repository).

LARGEST = 32 << 20  # bytes: those of 250,000 pieces have 5 MB
MOST_WORK = 1 << 28  # sum of the squares of the pieces' lengths: merges are found by cutting each at every place
PIECE, NORMALIZERS, TABLE = 1, (3, 5), 2


def read_pieces(path: Path) -> bytes:
    """Content of a file of a sentencepiece model.

    Raises:
        CheckpointError: the file is too large, damaged or no sentencepiece model, or lets texts grow beyond bounds.
    """
    content = read_bytes(path, LARGEST)
    require_pieces(content, path.name)
    return content


def require_pieces(content: bytes, name: str) -> None:
    """Require a sound sentencepiece model. name: of the file, for the sentence.

    Raises:
        CheckpointError: the content is damaged or no such model, or lets texts grow beyond bounds.
    """
    try:
        if content[:1] != b"\n":
            raise CheckpointError("it does not begin with a piece")
        work = 0
        for number, begin, end in _fields(content, 0, len(content)):
            work += (end - begin) ** 2 if number == PIECE else 0
            if number in NORMALIZERS:
                _require_bounded_table(content, begin, end)
        if work > MOST_WORK:
            raise CheckpointError("its pieces are too long")
    except CheckpointError as error:
        raise CheckpointError(
            "{name} cannot be read as a sentencepiece model: {error}; give a tokenizer.json instead",
            name=name,
            error=error,
        ) from error
    _require_loads(content, name)


def _require_loads(content: bytes, name: str) -> None:
    """Require that sentencepiece loads the model: it follows the table's trie, which others do only with a text."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise CheckpointError("its tokenizer needs sentencepiece: pip install sentencepiece") from error
    try:
        SentencePieceProcessor(model_proto=content)
    except (RuntimeError, OSError, ValueError) as error:
        raise CheckpointError(
            "sentencepiece refuses {name}: {first_line}; give a tokenizer.json instead",
            name=name,
            first_line=first_line(error),
        ) from error


def _require_bounded_table(content: bytes, begin: int, end: int) -> None:
    """Bound the replacements in a table: the length of a trie, the trie, then replacements that end in 0."""
    for number, first, last in _fields(content, begin, end):
        if number == TABLE and last > first:
            trie = int.from_bytes(content[first : first + 4], "little")
            if not 0 < trie <= last - first - 4:
                raise CheckpointError("its table of characters is damaged")
            grown = max(map(len, content[first + 4 + trie : last].split(b"\0")))
            if grown > MOST_GROWTH:
                raise CheckpointError(
                    "one character may become {grown:,} bytes, and at most {most_growth:,} are taken",
                    grown=grown,
                    most_growth=MOST_GROWTH,
                )


def _fields(content: bytes, place: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Number of each field of a message, and begin and end of its value.

    Raises:
        CheckpointError: the bytes are no message.
    """
    while place < end:
        tag, place = _number(content, place, end)
        kind, begin = tag & 7, place
        if kind == 0:
            _value, place = _number(content, place, end)
        elif kind == 2:
            length, begin = _number(content, place, end)
            place = begin + length
        elif kind in (1, 5):
            place += 8 if kind == 1 else 4
        else:
            raise CheckpointError("it is damaged")
        if place > end:
            raise CheckpointError("it is cut off")
        yield tag >> 3, begin, place


def _number(content: bytes, place: int, end: int) -> tuple[int, int]:
    """Number of 7 bits a byte, least first, and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= end:
            raise CheckpointError("it is cut off")
        byte, place = content[place], place + 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise CheckpointError("it is damaged")
