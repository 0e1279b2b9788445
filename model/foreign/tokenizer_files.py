"""The tokenizers that lie beside the weights of others, in whatever files they were saved."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tokenizers

from model.errors import CheckpointError
from model.foreign.bare_ids import BareIds
from model.foreign.slow_tokenizer import SlowTokenizer
from model.foreign.special_tokens import names_of, special_tokens
from model.foreign.tokenizer import PROBES, ForeignTokenizer
from model.hosted.library import library, quietly
from model.safe_json import read_bytes, read_record
from model.safe_pieces import require_pieces
from model.safe_tokenizer import PANIC, read_tokenizer
from model.text import Tokenizer

TOKENIZER = "tokenizer.json"
TARGET = "target_tokenizer"  # a folder, where what is written has a tokenizer of its own: as our export leaves it
GPT2_END = "<|endoftext|>"  # begins and ends texts, where nothing but GPT-2's tokenizer.json says what is special
SENTENCEPIECE = ("*.spm", "*.model")
PROBE = "a b"
TEXTS = ("vocab.txt", "vocab.json", "merges.txt")
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
        if _has_older(folder):
            return _older(folder, names, settings, generation, sizes)
        reason = f"there is no {TOKENIZER} beside the weights"
    except CheckpointError as error:
        reason = _sentence(error)
    except BaseException as error:  # the libraries raise bare Exception, and panics of Rust are not even that
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
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
    try:
        transformers = library()
    except ImportError as error:
        raise CheckpointError("its tokenizer is in files that transformers reads: pip install transformers") from error

    said = {**settings, **names}.get("tokenizer_class")

    def read(kind: str = "AutoTokenizer", **more: Any) -> Any:
        options = {"local_files_only": True, "trust_remote_code": False, **more}
        return getattr(transformers, kind).from_pretrained(str(folder), **options)

    with quietly():
        made = read()
        if (folder / LLAMA).is_file() and not said and not _cuts_as(made, folder / LLAMA):
            made = read("LlamaTokenizer", add_bos_token=True)  # as its authors' code does
        if not any(made.tokenize(probe) for probe in PROBES):
            raise CheckpointError("its tokenizer finds no token in any text: give a tokenizer.json")
        inner = getattr(made, "backend_tokenizer", None)
        if isinstance(inner, tokenizers.Tokenizer):
            return _twice([_foreign(inner, names, settings, generation, size) for size in dict.fromkeys(sizes)])
        source, target = (
            special_tokens(names, settings, generation, made.convert_tokens_to_ids, size) for size in sizes
        )
        return SlowTokenizer(made, source, sizes[0], "source"), SlowTokenizer(read(), target, sizes[1], "target")


def _has_older(folder: Path) -> bool:
    """Whether there are files that transformers makes a tokenizer of.

    Raises:
        CheckpointError: one of them must not be read, or cannot be here.
    """
    pieces = sorted(file for name in SENTENCEPIECE for file in folder.glob(name) if file.is_file())
    if pieces and find_spec("sentencepiece") is None:
        raise CheckpointError("its tokenizer needs sentencepiece: pip install sentencepiece")
    for file in pieces:
        require_pieces(file)
    texts = [folder / name for name in TEXTS if (folder / name).is_file()]
    for file in texts:
        (read_record if file.suffix == ".json" else read_bytes)(file)
    return bool(pieces or texts)


def _cuts_as(made: Any, file: Path) -> bool:
    """Whether a tokenizer cuts a text into the pieces that sentencepiece cuts it into."""
    from sentencepiece import SentencePieceProcessor

    wanted: list[str] = SentencePieceProcessor(model_file=str(file)).encode(PROBE, out_type=str)
    return bool(made.tokenize(PROBE) == wanted)


def _sentence(error: BaseException) -> str:
    """What a library says in many lines, in one."""
    return " ".join(str(error).split())[:200] or type(error).__name__
