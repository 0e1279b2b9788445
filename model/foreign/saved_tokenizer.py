"""A tokenizer of others as our own checkpoints keep it: one JSON file with all that its model expects of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from model.errors import CheckpointError, first_line
from model.foreign.bare_ids import BareIds
from model.foreign.older_files import from_json
from model.foreign.slow_tokenizer import slow_tokenizer
from model.foreign.special_tokens import SpecialTokens
from model.foreign.tokenizer import ForeignTokenizer
from model.rules import Rules
from model.safe_json import read_json
from model.safe_tokenizer import parse_tokenizer
from model.text import Tokenizer

BEGINS = b'{"foreign":'  # how such a file begins, and none of the tokenizers library


def is_saved(path: Path) -> bool:
    """Whether a file was written by `to_json` of a tokenizer of others."""
    try:
        with path.open("rb") as file:
            return file.read(len(BEGINS)) == BEGINS
    except OSError:
        return False


def read_saved(path: Path) -> Tokenizer:
    """The tokenizer in such a file.

    Raises:
        CheckpointError: it is damaged.
    """
    record = read_json(path)
    try:
        return _made(record["foreign"], record.get("tokenizer"))
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path.name} cannot be read as a tokenizer: {error!r}") from error


def _made(said: dict[str, Any], inner: Any) -> Tokenizer:
    size, special, around = int(said["size"]), _special(said["special"]), said["around"]
    ids = [*around[0], *around[1], *special.ids, *special.rules.ids]
    if not all(isinstance(token, int) and 0 <= token < size for token in ids):
        raise ValueError(f"its special tokens are not ids below {size}")
    if files := said.get("files"):
        return _slow(files, said["side"], special, size)
    if inner is None:
        return BareIds(size, str(said["reason"]), special)
    made = parse_tokenizer(json.dumps(inner).encode(), "its tokenizer")
    return ForeignTokenizer(made, special, size, around=(list(around[0]), list(around[1])))


def _slow(files: dict[str, str], side: Any, special: SpecialTokens, size: int) -> Tokenizer:
    kept = from_json(files)
    if side not in ("source", "target"):
        raise CheckpointError(f"a tokenizer reads a source or a target, and not {side!r}: copy the model again")
    try:
        return slow_tokenizer(kept, special, size, side)
    except CheckpointError:
        raise
    except Exception as error:  # transformers and sentencepiece raise what they like
        raise CheckpointError(f"its tokenizer cannot be read: {first_line(error)}") from error


def _special(said: dict[str, Any]) -> SpecialTokens:
    rules = dict(said.get("rules", {}))
    rules["runs"] = tuple(tuple(run) for run in rules.get("runs", ()) if run)  # an empty one forbids nothing
    for name in ("never", "first"):
        rules[name] = tuple(rules.get(name, ()))
    made = {"stops": frozenset(said["stops"]), "target": tuple(said["target"]), "rules": Rules(**rules)}
    return SpecialTokens(**{**said, **made})
