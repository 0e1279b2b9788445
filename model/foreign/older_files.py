"""The files of a tokenizer without a tokenizer.json: read once, checked, and given to transformers in a folder of
their own, so that it reads the bytes that were checked and nothing else.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

from model.errors import CheckpointError
from model.safe_json import LARGEST, parse_json, read_bytes
from model.safe_pieces import read_pieces, require_pieces

Files = Mapping[str, bytes]  # by name
SENTENCEPIECE = (".spm", ".model")
TEXTS = ("vocab.txt", "vocab.json", "merges.txt")
CONFIG, NAMES = "config.json", "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
BESIDE = ("target_vocab.json", "added_tokens.json", SPECIAL, NAMES, CONFIG)
# Arguments that name files, or are handed on to what reads files, as sentencepiece's model_file in sp_model_kwargs is.
PATHS = ("source_spm", "target_spm", "vocab", "merges", "auto_map", "init_inputs")
PATHS_END = ("_file", "_files", "_kwargs")


def read_older(folder: Path) -> Files:
    """The files that transformers makes a tokenizer of; empty if there are none.

    Raises:
        CheckpointError: one of them must not be read, or cannot be here.
    """
    pieces = sorted(file for end in SENTENCEPIECE for file in folder.glob(f"*{end}") if file.is_file())
    texts = [folder / name for name in TEXTS if (folder / name).is_file()]
    if not pieces and not texts:
        return {}
    files = {file.name: read_pieces(file) for file in pieces}
    beside = [folder / name for name in BESIDE if (folder / name).is_file()]
    files |= {file.name: read_bytes(file) for file in (*texts, *beside)}
    _require_sound(files)
    return _harmless(files)


@contextmanager
def staged(files: Files) -> Iterator[Path]:
    """A folder with the files, for as long as the block lasts."""
    with TemporaryDirectory() as place:
        write_older(files, Path(place))
        yield Path(place)


def write_older(files: Files, folder: Path) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)


def of_class(files: Files, name: str) -> Files:
    """The files without the model's config, for a tokenizer of a class of transformers."""
    said = json.dumps(_record(files, NAMES) | {"tokenizer_class": name}, ensure_ascii=False)
    kept = {each: content for each, content in files.items() if each != CONFIG}
    return {**kept, NAMES: said.encode()}


def in_json(files: Files) -> dict[str, str]:
    return {name: b64encode(content).decode() for name, content in files.items()}


def from_json(record: Mapping[str, str]) -> Files:
    """What `in_json` made.

    Raises:
        CheckpointError: there is no tokenizer in it, or one that must not be read.
        ValueError: it is damaged.
    """
    for name in record:
        known = name in (*TEXTS, *BESIDE) or name.endswith(SENTENCEPIECE)
        if not known or PurePath(name).name != name or {"\\", "\0"} & set(name):
            raise CheckpointError(f"{name!r} is no file of a tokenizer: copy the model again from its own folder")
    files = {name: b64decode(content, validate=True) for name, content in record.items()}
    for name in pieces_of(files):
        require_pieces(files[name], name)
    _require_sound(files)
    return _harmless(files)


def pieces_of(files: Files) -> list[str]:
    """Which of them are sentencepiece models."""
    return [name for name in files if name.endswith(SENTENCEPIECE)]


def _require_sound(files: Files) -> None:
    for name in files:
        if name.endswith(".json"):
            _record(files, name)


def _harmless(files: Files) -> Files:
    """Without what would make transformers read other files: the map of special tokens sets any argument, too."""
    made = dict(files)
    for file in {NAMES, SPECIAL} & files.keys():
        said = _record(files, file)
        kept = {name: value for name, value in said.items() if name not in PATHS and not name.endswith(PATHS_END)}
        made[file] = json.dumps(kept).encode()
    return made


def _record(files: Files, name: str) -> dict[str, Any]:
    if name not in files:
        return {}
    if len(files[name]) > LARGEST:
        raise CheckpointError(f"{name} has more than {LARGEST:,} bytes, the most that such a file may have")
    said = parse_json(files[name], name, nan=True)
    if not isinstance(said, dict):
        raise CheckpointError(f"{name} must hold a JSON object, not {type(said).__name__}")
    return said
