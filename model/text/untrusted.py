"""A tokenizer.json of strangers: read by a library that believes it, so bounded before and made harmless after."""

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


# A sentencepiece model of strangers: bounded before a library believes it. Nothing in it is run.
#
# Its format is a protocol buffer: field 1 holds a piece, 2 how it was trained, 3 and 5 how texts are normalized; in
# these two field 2 is a table of what characters become (`sentencepiece_model.proto` of its repository).

LARGEST = 32 << 20  # bytes: those of 250,000 pieces have 5 MB
MOST_WORK = 1 << 28  # the squares of the pieces' lengths: merges are found by cutting each at every place
PIECE, NORMALIZERS, TABLE = 1, (3, 5), 2


def read_pieces(path: Path) -> bytes:
    """The whole of such a file.

    Raises:
        CheckpointError: it is too large, damaged or no sentencepiece model, or makes texts grow without measure.
    """
    content = read_bytes(path, LARGEST)
    require_pieces(content, path.name)
    return content


def require_pieces(content: bytes, name: str) -> None:
    """
    Raises:
        CheckpointError: as of `read_pieces`. name: of the file, for the sentence.
    """
    try:
        if content[:1] != b"\n":
            raise CheckpointError("it does not begin with a piece")
        work = 0
        for number, begin, end in _fields(content, 0, len(content)):
            work += (end - begin) ** 2 if number == PIECE else 0
            if number in NORMALIZERS:
                _require_modest_table(content, begin, end)
        if work > MOST_WORK:
            raise CheckpointError("its pieces are too long")
    except CheckpointError as error:
        raise CheckpointError(
            f"{name} cannot be read as a sentencepiece model: {error}; give a tokenizer.json instead"
        ) from error
    _require_loads(content, name)


def _require_loads(content: bytes, name: str) -> None:
    """That sentencepiece takes it: it follows the table's trie, which others do only when a text makes them."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError as error:
        raise CheckpointError("its tokenizer needs sentencepiece: pip install sentencepiece") from error
    try:
        SentencePieceProcessor(model_proto=content)
    except (RuntimeError, OSError, ValueError) as error:
        raise CheckpointError(
            f"sentencepiece refuses {name}: {first_line(error)}; give a tokenizer.json instead"
        ) from error


def _require_modest_table(content: bytes, begin: int, end: int) -> None:
    """Of a table: a trie, whose length comes first, then texts that end in 0, which characters become."""
    for number, first, last in _fields(content, begin, end):
        if number == TABLE and last > first:
            trie = int.from_bytes(content[first : first + 4], "little")
            if not 0 < trie <= last - first - 4:
                raise CheckpointError("its table of characters is damaged")
            grown = max(map(len, content[first + 4 + trie : last].split(b"\0")))
            if grown > MOST_GROWTH:
                raise CheckpointError(
                    f"one character may become {grown:,} bytes, and at most {MOST_GROWTH:,} are taken"
                )


def _fields(content: bytes, place: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The number of each field of a message, and from where to where its value is.

    Raises:
        CheckpointError: it is none.
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
    """A number of 7 bits a byte, least first, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= end:
            raise CheckpointError("it is cut off")
        byte, place = content[place], place + 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise CheckpointError("it is damaged")
