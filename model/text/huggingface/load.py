"""The tokenizers that lie beside the weights of others, in whatever files they were saved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers

from model.runtime.errors import CheckpointError, first_line
from model.runtime.transformers_import import import_transformers
from model.runtime.untrusted_json import read_json, read_record
from model.text.generation_rules import GenerationRules
from model.text.huggingface.slow_tokenizer import (
    CLASSES,
    OPTIONS,
    Files,
    SlowTokenizer,
    cuts_as,
    from_json,
    like_its_model,
    made_by_transformers,
    of_class,
    pieces_of,
    read_older,
    require_same_cuts,
    slow_tokenizer,
)
from model.text.huggingface.special_tokens import SpecialTokens, names_of, special_tokens
from model.text.huggingface.tokenizer import PROBES, HuggingFaceTokenizer, IdTokenizer
from model.text.tokenizer import Tokenizer
from model.text.untrusted import PANIC, parse_tokenizer, read_tokenizer

TOKENIZER = "tokenizer.json"
TARGET = "target_tokenizer"  # a folder, where what is written has a tokenizer of its own: as our export leaves it
GPT2_END = "<|endoftext|>"  # begins and ends texts, where nothing but GPT-2's tokenizer.json says what is special
LLAMA = "tokenizer.model"  # Llama's, whose settings of spaces transformers forgets where no file names its class


def open_tokenizers(folder: Path, settings: Mapping[str, Any], sizes: tuple[int, int]) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of what a model of Hugging Face reads and writes, mostly one and the same.

    settings: config.json. sizes: how many tokens the model knows of each. Without readable files both are of bare ids,
    and say why. No code that lies in the folder is run.

    Raises:
        CheckpointError: generation_config.json is damaged.
    """
    generation = read_record(folder / "generation_config.json")
    try:
        names = names_of(folder)
        if (folder / TOKENIZER).is_file():
            inner = read_tokenizer(folder / TOKENIZER)
            made = _twice([_foreign(inner, names, settings, generation, size) for size in dict.fromkeys(sizes)])
            if not (folder / TARGET / TOKENIZER).is_file():
                return made
            own, said = read_tokenizer(folder / TARGET / TOKENIZER), names_of(folder / TARGET)
            return made[0], _foreign(own, said, settings, generation, sizes[1])
        if files := read_older(folder):
            return _older(files, names, settings, generation, sizes)
        reason = f"there is no {TOKENIZER} beside the weights"
    except CheckpointError as error:
        reason = _sentence(error)
    except BaseException as error:  # the libraries raise bare Exception, and panics of Rust are not even that
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        reason = f"its tokenizer cannot be read: {_sentence(error)}"
    special = [special_tokens({}, settings, generation, lambda _name: None, size) for size in dict.fromkeys(sizes)]
    return _twice([IdTokenizer(size, reason, each) for size, each in zip(dict.fromkeys(sizes), special, strict=True)])


def _twice(made: list[Tokenizer]) -> tuple[Tokenizer, Tokenizer]:
    return made[0], made[-1]


def _foreign(
    inner: tokenizers.Tokenizer,
    names: Mapping[str, Any],
    settings: Mapping[str, Any],
    generation: Mapping[str, Any],
    size: int,
    usual: Mapping[str, Any] | None = None,
) -> Tokenizer:
    alone = not names and not settings and inner.token_to_id(GPT2_END) is not None
    given = {"bos_token": GPT2_END, "eos_token": GPT2_END} if alone else names
    special = special_tokens(given, settings, generation, inner.token_to_id, size, usual)
    return HuggingFaceTokenizer(inner, special, size, names)


def _older(
    files: Files,
    names: Mapping[str, Any],
    settings: Mapping[str, Any],
    generation: Mapping[str, Any],
    sizes: tuple[int, int],
) -> tuple[Tokenizer, Tokenizer]:
    """Through transformers, which takes seconds to import: only for folders that have no tokenizer.json."""
    said, family = {**settings, **names}.get("tokenizer_class"), str(settings.get("model_type", ""))
    usual_class = "AutoTokenizer" if said else CLASSES.get(family, "AutoTokenizer")
    with made_by_transformers(files, usual_class) as (made, folder):
        if LLAMA in files and not said and not cuts_as(made, folder / LLAMA):
            # as its authors' code does
            made = import_transformers().LlamaTokenizer.from_pretrained(str(folder), **OPTIONS, add_bos_token=True)
        if not any(made.tokenize(probe) for probe in PROBES):
            raise CheckpointError("its tokenizer finds no token in any text: give a tokenizer.json")
        usual, inner = made.special_tokens_map, getattr(made, "backend_tokenizer", None)
        if isinstance(inner, tokenizers.Tokenizer):
            if pieces := pieces_of(files):
                require_same_cuts(made, folder / pieces[0])
                inner = like_its_model(inner, family, made.unk_token)
            return _twice([_foreign(inner, names, settings, generation, size, usual) for size in dict.fromkeys(sizes)])
        source, target = (
            special_tokens(names, settings, generation, made.convert_tokens_to_ids, size, usual) for size in sizes
        )
        kept = of_class(files, type(made).__name__)
        first = SlowTokenizer(made, kept, source, sizes[0], "source")
    return first, slow_tokenizer(kept, target, sizes[1], "target")


def _sentence(error: BaseException) -> str:
    """What a library says in many lines, in one."""
    return " ".join(str(error).split())[:200] or type(error).__name__


# A tokenizer of others as our own checkpoints keep it: one JSON file with all that its model expects of it.

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
        return IdTokenizer(size, str(said["reason"]), special)
    made = parse_tokenizer(json.dumps(inner).encode(), "its tokenizer")
    return HuggingFaceTokenizer(made, special, size, around=(list(around[0]), list(around[1])))


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
    made = {"stops": frozenset(said["stops"]), "target": tuple(said["target"]), "rules": GenerationRules(**rules)}
    return SpecialTokens(**{**said, **made})
