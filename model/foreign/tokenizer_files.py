"""The tokenizers that lie beside the weights of others, in whatever files they were saved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers

from model.errors import CheckpointError
from model.foreign.bare_ids import BareIds
from model.foreign.older_files import Files, of_class, pieces_of, read_older
from model.foreign.sentencepieces import CLASSES, cuts_as, like_its_model, require_same_cuts
from model.foreign.slow_tokenizer import OPTIONS, SlowTokenizer, made_by_transformers, slow_tokenizer
from model.foreign.special_tokens import names_of, special_tokens
from model.foreign.tokenizer import PROBES, ForeignTokenizer
from model.hosted.library import library
from model.safe_json import read_record
from model.safe_tokenizer import PANIC, read_tokenizer
from model.text import Tokenizer

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
    return _twice([BareIds(size, reason, each) for size, each in zip(dict.fromkeys(sizes), special, strict=True)])


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
    return ForeignTokenizer(inner, special, size, names)


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
            made = library().LlamaTokenizer.from_pretrained(str(folder), **OPTIONS, add_bos_token=True)
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
