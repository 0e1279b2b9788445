"""A sentencepiece model of strangers: bounded before a library believes it. Nothing in it is run.

Its format is a protocol buffer: field 1 holds a piece, 2 how it was trained, 3 and 5 how texts are normalized; in these
two field 2 is a table of what characters become (`sentencepiece_model.proto` of its repository).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from model.errors import CheckpointError, first_line
from model.safe_json import read_bytes
from model.safe_tokenizer import MOST_GROWTH

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
                _require_modest(content, begin, end)
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


def _require_modest(content: bytes, begin: int, end: int) -> None:
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
