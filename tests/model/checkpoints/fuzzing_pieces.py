"""Damaged sentencepiece models: whole ones, trained here, and ways to change them."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from model.runtime.errors import CheckpointError
from model.text.huggingface.load import open_tokenizers
from tests.model.checkpoints.fuzzing_files import damaged
from tests.model.text.huggingface.sentencepiece_models import ALBERT, CHINESE, ENGLISH, LLAMA, T5, pieces, trained

TEXTS = ("I am a 😀 teacher. ﬁ ＡＢ①㌔", "我是老师。\N{RIGHT-TO-LEFT OVERRIDE}</script>", "", " \t\n\0 ")
SCORES = (0.0, -0.0, 1.0, 1e38, -1e38, float("nan"), float("inf"), float("-inf"))
PIECE, TRAINER, NORMALIZER, TABLE = 1, 2, 3, 2
Fields = list[tuple[int, bytes]]


class Pieces:
    """Folders of which one sentencepiece model is damaged."""

    def __init__(self) -> None:
        english, chinese = trained(*ENGLISH), trained(*CHINESE)
        known = dict.fromkeys([*pieces(english), *pieces(chinese)])
        names = ["</s>", "<unk>", *(name for name in known if name not in ("<unk>", "<s>", "</s>")), "<pad>"]
        words = json.dumps({name: row for row, name in enumerate(names)}).encode()
        self.folders: dict[str, dict[str, bytes]] = {
            "t5": {"spiece.model": trained(*ENGLISH, **T5)},
            "albert": {"spiece.model": trained(*ENGLISH, **ALBERT)},
            "llama": {"tokenizer.model": trained(*ENGLISH, **LLAMA)},
            "xlm-roberta": {"sentencepiece.bpe.model": chinese},
            "marian": {"source.spm": english, "target.spm": chinese, "vocab.json": words},
        }

        with TemporaryDirectory() as place:  # the whole ones open, and what transformers imports for them is imported
            for family, files in self.folders.items():
                read_tokenizers(_folder(Path(place), family, files))

    def folder(self, random: Random, place: Path) -> Path:
        family = random.choice(list(self.folders))
        files = dict(self.folders[family])
        name = random.choice([name for name in files if not name.endswith(".json")])
        files[name] = random.choice((damaged, _table_changed, _fields_changed))(random, files[name])
        return _folder(place, family, files)


def _folder(place: Path, family: str, files: dict[str, bytes]) -> Path:
    path = place / "pieces"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    for name, content in {**files, "config.json": json.dumps({"model_type": family}).encode()}.items():
        (path / name).write_bytes(content)
    return path


def read_tokenizers(folder: Path) -> None:
    """
    Raises:
        CheckpointError: its files are refused, so that texts are of bare ids.
    """
    settings = json.loads((folder / "config.json").read_bytes())
    for each in open_tokenizers(folder, settings, (500, 500)):
        if each.reason:
            raise CheckpointError(each.reason)
        for text in TEXTS:
            ids = each.encode(text).ids
            assert all(0 <= token < 500 for token in ids)
            each.ends(text)
            each.decode(ids)


def fields(content: bytes) -> Iterator[tuple[int, int, int]]:
    """The number of each field of a whole message, and from where to where its value is."""
    place = 0
    while place < len(content):
        tag, place = _number(content, place)
        if tag & 7 == 2:
            length, place = _number(content, place)
            end = place + length
        elif tag & 7 == 0:
            _value, end = _number(content, place)
        else:
            end = place + (8 if tag & 7 == 1 else 4)
        yield tag >> 3, place, end
        place = end


def _table_changed(random: Random, content: bytes) -> bytes:
    """Numbers of the trie of characters, which the library follows from one to the next, or its length."""
    for number, begin, end in fields(content):
        for inner, first, last in fields(content[begin:end]) if number == NORMALIZER else ():
            if inner == TABLE and last > first:
                table = bytearray(content[begin + first : begin + last])
                trie = int.from_bytes(table[:4], "little")
                for _ in range(random.choice((1, 3, 30, 1000))):
                    table[random.randrange(4, random.choice((len(table), 4 + trie, 400)))] = random.randrange(256)
                if random.random() < 0.2:
                    table[:4] = struct.pack("<I", random.choice((0, 4, 8, 100, trie // 2, len(table))))
                return content[: begin + first] + bytes(table) + content[begin + last :]
    return damaged(random, content)


def _fields_changed(random: Random, content: bytes) -> bytes:
    """Pieces left out, doubled, of strange scores and kinds; settings damaged; one thing in another's place."""
    parts: Fields = [(number, content[begin:end]) for number, begin, end in fields(content)]
    for _ in range(random.choice((1, 2, 5))):
        at, action = random.randrange(len(parts)), random.randint(0, 5)
        number, value = parts[at]
        if action == 0 and len(parts) > 1:
            del parts[at]
        elif action == 1:
            parts.insert(random.randrange(len(parts)), parts[at])
        elif action == 2:
            parts[at] = (number, damaged(random, value))
        elif action == 3:
            score = struct.pack("<f", random.choice(SCORES))
            kind = bytes([random.randrange(8)])
            parts[at] = (PIECE, b"\n" + _written(1) + bytes([random.randrange(256)]) + b"\x15" + score + b"\x18" + kind)
        elif action == 4:
            parts = [(each, damaged(random, old) if each == TRAINER else old) for each, old in parts]
        else:
            parts[at] = (random.choice((1, 2, 3, 4, 5)), value)
    return b"".join(bytes([number << 3 | 2]) + _written(len(value)) + value for number, value in parts)


def _number(content: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte, place = content[place], place + 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place


def _written(number: int) -> bytes:
    made = b""
    while number > 127:
        made, number = made + bytes([number & 127 | 128]), number >> 7
    return made + bytes([number])
