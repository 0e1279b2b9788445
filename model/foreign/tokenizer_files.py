"""The tokenizers that lie beside the weights of others, in whatever files they were saved."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tokenizers

from model.errors import CheckpointError
from model.foreign.bare_ids import BareIds
from model.foreign.slow_tokenizer import SlowTokenizer
from model.foreign.special_tokens import names_of, special_tokens
from model.foreign.tokenizer import ForeignTokenizer
from model.hosted.library import library
from model.safe_json import read_record
from model.safe_tokenizer import read_tokenizer
from model.text import Tokenizer

TOKENIZER = "tokenizer.json"
GPT2_END = "<|endoftext|>"  # begins and ends texts, where nothing but GPT-2's tokenizer.json says what is special
SENTENCEPIECE = ("spiece.model", "source.spm", "sentencepiece.bpe.model", "spm.model")
OLDER = ("vocab.txt", "vocab.json", "tokenizer.model", *SENTENCEPIECE)


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
            return _twice([_foreign(inner, names, settings, generation, size) for size in dict.fromkeys(sizes)])
        if any((folder / name).is_file() for name in OLDER):
            return _older(folder, names, settings, generation, sizes)
        reason = f"there is no {TOKENIZER} beside the weights"
    except CheckpointError as error:
        reason = _sentence(error)
    except BaseException as error:  # the libraries raise bare Exception, and panics of Rust are not even that
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = f"its tokenizer cannot be read: {_sentence(error)}"
    special = [special_tokens({}, settings, generation, lambda _name: None, size) for size in dict.fromkeys(sizes)]
    return _twice([BareIds(size, reason, each) for size, each in zip(dict.fromkeys(sizes), special, strict=True)])


def _twice(made: list[Tokenizer]) -> tuple[Tokenizer, Tokenizer]:
    return made[0], made[-1]


def _foreign(
    inner: tokenizers.Tokenizer,
    names: Mapping[str, Any],
    settings: Mapping[str, Any],
    generation: Mapping[str, Any],
    size: int,
) -> Tokenizer:
    alone = not names and not settings and inner.token_to_id(GPT2_END) is not None
    given = {"bos_token": GPT2_END, "eos_token": GPT2_END} if alone else names
    special = special_tokens(given, settings, generation, inner.token_to_id, size)
    return ForeignTokenizer(inner, special, size, names)


def _older(
    folder: Path,
    names: Mapping[str, Any],
    settings: Mapping[str, Any],
    generation: Mapping[str, Any],
    sizes: tuple[int, int],
) -> tuple[Tokenizer, Tokenizer]:
    """Through transformers, which takes seconds to import: only for folders that have no tokenizer.json."""
    if any((folder / name).is_file() for name in SENTENCEPIECE) and find_spec("sentencepiece") is None:
        raise CheckpointError("its tokenizer needs sentencepiece: pip install sentencepiece")
    try:
        transformers = library()
    except ImportError as error:
        raise CheckpointError("its tokenizer is in files that transformers reads: pip install transformers") from error

    def read() -> Any:
        return transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)

    with _quiet():
        made = read()
        inner = getattr(made, "backend_tokenizer", None)
        if isinstance(inner, tokenizers.Tokenizer):
            return _twice([_foreign(inner, names, settings, generation, size) for size in dict.fromkeys(sizes)])
        source, target = (
            special_tokens(names, settings, generation, made.convert_tokens_to_ids, size) for size in sizes
        )
        return SlowTokenizer(made, source, sizes[0], "source"), SlowTokenizer(read(), target, sizes[1], "target")


def _sentence(error: BaseException) -> str:
    """What a library says in many lines, in one."""
    return " ".join(str(error).split())[:200] or type(error).__name__


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the advice that transformers gives to those who call it."""
    logger = logging.getLogger("transformers")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
