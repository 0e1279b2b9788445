"""Tokenizers of published models, from any of the files beside their weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers.pre_tokenizers import ByteLevel

from model.message import InputError, Message, read
from model.runtime.errors import CheckpointError, first_line
from model.runtime.files import open_file
from model.runtime.transformers_import import import_transformers
from model.runtime.untrusted_json import read_json, read_record
from model.text.generation_rules import GenerationRules
from model.text.huggingface.gguf import GgufVocabulary, tokenizer_json
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
from model.text.huggingface.special_tokens import TOOLS, SpecialTokens, names_of, special_tokens, template_in
from model.text.huggingface.tokenizer import CharacterTokenizer, HuggingFaceTokenizer, IdTokenizer, probes
from model.text.tokenizer import Tokenizer
from model.text.untrusted import PANIC, parse_tokenizer, read_tokenizer

TOKENIZER = "tokenizer.json"
TARGET = "target_tokenizer"  # folder of the target's tokenizer, where our export writes two
GPT2_END = "<|endoftext|>"  # begins and ends texts, where GPT-2's tokenizer.json is the only file
# Classes of transformers whose byte-level BPE puts a space before a text as tokenizer_config.json says, and families
# that have them where no file names a class.
BYTE_FAMILIES = {
    **dict.fromkeys(("gpt2", "gpt_neo", "gptj", "gpt_bigcode", "opt", "codegen"), "GPT2Tokenizer"),
    **dict.fromkeys(("roberta", "bart", "longformer", "led"), "RobertaTokenizer"),
    "gpt_neox": "GPTNeoXTokenizer",
}
BYTE_CLASSES = {*BYTE_FAMILIES.values(), "BartTokenizer", "LongformerTokenizer", "LEDTokenizer", "CodeGenTokenizer"}
LLAMA = "tokenizer.model"  # Llama's, whose settings of spaces transformers loses where no file names its class


def open_tokenizers(folder: Path, settings: Mapping[str, Any], sizes: tuple[int, int]) -> tuple[Tokenizer, Tokenizer]:
    """Tokenizers of source and target of a model of Hugging Face, mostly one and the same.

    settings: of config.json. sizes: of the model's vocabularies. Without readable files both are of bare ids, with the
    reason. No code in the folder is run.

    Raises:
        CheckpointError: generation_config.json is damaged.
    """
    generation = read_record(folder / "generation_config.json")
    return _or_ids(partial(_in_folder, folder, settings, generation, sizes), settings, generation, sizes)


def open_gguf_tokenizers(
    vocabulary: Callable[[], GgufVocabulary], settings: Mapping[str, Any], sizes: tuple[int, int]
) -> tuple[tuple[Tokenizer, Tokenizer], list[str]]:
    """Tokenizers of source and target, the same one, of a GGUF file; and what was assumed of it, in short sentences.

    vocabulary: reads its records. settings: of config.json. sizes: of the model's vocabularies. Without usable records
    the tokenizer is of bare ids, with the reason.
    """
    assumed: list[str] = []
    stops: dict[str, Any] = {}

    def make() -> tuple[Tokenizer, Tokenizer]:
        records = vocabulary()
        inner = parse_tokenizer(tokenizer_json(records), "the tokenizer in the GGUF file")
        if ends := [number for name in ("eos_token", "eot_token") if (number := records.ids.get(name)) is not None]:
            stops["eos_token_id"] = ends
        pair = _pair(partial(_foreign, inner, records.names(), settings, stops), sizes)
        assumed.extend(records.assumed)
        return pair

    return _or_ids(make, settings, stops, sizes), assumed


def _in_folder(
    folder: Path, settings: Mapping[str, Any], generation: Mapping[str, Any], sizes: tuple[int, int]
) -> tuple[Tokenizer, Tokenizer]:
    """Tokenizers of the files in a folder.

    Raises:
        CheckpointError: there are none, or they cannot be read.
    """
    names = names_of(folder)
    if (folder / TOKENIZER).is_file():
        inner = read_tokenizer(folder / TOKENIZER)
        source, target = _pair(partial(_foreign, inner, names, settings, generation), sizes)
        if (folder / TARGET / TOKENIZER).is_file():
            inner, names = read_tokenizer(folder / TARGET / TOKENIZER), names_of(folder / TARGET)
            target = _foreign(inner, names, settings, generation, sizes[1])
        return source, target
    if files := read_older(folder):
        return _older(files, names, settings, generation, sizes)
    raise CheckpointError("there is no tokenizer.json beside the weights")


def _or_ids(
    make: Callable[[], tuple[Tokenizer, Tokenizer]],
    settings: Mapping[str, Any],
    generation: Mapping[str, Any],
    sizes: tuple[int, int],
) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers that `make` makes, or of bare ids with the reason why it cannot."""
    try:
        return make()
    except CheckpointError as error:
        reason = _sentence(error)
    except BaseException as error:  # the libraries raise bare Exception, and panics of Rust are not even that
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        reason = Message("its tokenizer cannot be read: {sentence}", sentence=_sentence(error))

    def of_ids(size: int) -> Tokenizer:
        return IdTokenizer(size, reason, special_tokens({}, settings, generation, lambda _name: None, size))

    return _pair(of_ids, sizes)


def _pair(make: Callable[[int], Tokenizer], sizes: tuple[int, int]) -> tuple[Tokenizer, Tokenizer]:
    """Tokenizers of source and target, one for both where the vocabularies have one size."""
    source = make(sizes[0])
    return source, source if sizes[0] == sizes[1] else make(sizes[1])


def _foreign(
    inner: tokenizers.Tokenizer,
    names: Mapping[str, Any],
    settings: Mapping[str, Any],
    generation: Mapping[str, Any],
    size: int,
    usual: Mapping[str, Any] | None = None,
) -> Tokenizer:
    _set_prefix_space(inner, names, settings)
    gpt2_alone = not names and not settings and inner.token_to_id(GPT2_END) is not None
    special_names = {"bos_token": GPT2_END, "eos_token": GPT2_END} if gpt2_alone else names
    special = special_tokens(special_names, settings, generation, inner.token_to_id, size, usual)
    template, tool_template = template_in(names), template_in(names, TOOLS)
    return HuggingFaceTokenizer(inner, special, size, names, template=template, tool_template=tool_template)


def _set_prefix_space(inner: tokenizers.Tokenizer, names: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Put a space before a text, or do not, as tokenizer_config.json says: transformers' classes of byte-level BPE
    follow that rather than tokenizer.json.
    """
    wanted, cut = names.get("add_prefix_space"), inner.pre_tokenizer
    name = names.get("tokenizer_class") or BYTE_FAMILIES.get(str(settings.get("model_type")), "")
    if isinstance(wanted, bool) and str(name).removesuffix("Fast") in BYTE_CLASSES and isinstance(cut, ByteLevel):
        cut.add_prefix_space = wanted
        inner.pre_tokenizer = cut


def _older(
    files: Files,
    names: Mapping[str, Any],
    settings: Mapping[str, Any],
    generation: Mapping[str, Any],
    sizes: tuple[int, int],
) -> tuple[Tokenizer, Tokenizer]:
    """Tokenizers of older files, by transformers, which takes seconds to import.

    Raises:
        CheckpointError: the files make no tokenizer that cuts texts as its model does.
    """
    class_name, family = {**settings, **names}.get("tokenizer_class"), str(settings.get("model_type", ""))
    if class_name == "LLaMATokenizer":  # of the first conversions, before transformers had the class
        class_name = None
    usual_class = "AutoTokenizer" if class_name else CLASSES.get(family, "AutoTokenizer")
    with made_by_transformers(files, usual_class) as (tokenizer, folder):
        if LLAMA in files and not class_name and not cuts_as(tokenizer, folder / LLAMA):
            begins = names.get("add_bos_token") is not False  # as its authors' code does, where no file says it
            llama = import_transformers().LlamaTokenizer
            tokenizer = llama.from_pretrained(str(folder), **OPTIONS, add_bos_token=begins)
        if not any(_cuts(tokenizer, probe) for probe in probes(tokenizer.get_vocab(), tokenizer.all_special_tokens)):
            raise CheckpointError("its tokenizer finds no token in any text: give a tokenizer.json")
        usual, inner = tokenizer.special_tokens_map, getattr(tokenizer, "backend_tokenizer", None)
        if isinstance(inner, tokenizers.Tokenizer):
            if pieces := pieces_of(files):
                require_same_cuts(tokenizer, folder / pieces[0])
                inner = like_its_model(inner, family, tokenizer.unk_token)
            return _pair(partial(_foreign, inner, names, settings, generation, usual=usual), sizes)
        source, target = (
            special_tokens(names, settings, generation, tokenizer.convert_tokens_to_ids, size, usual) for size in sizes
        )
        slow_files = of_class(files, type(tokenizer).__name__)
        first = SlowTokenizer(tokenizer, slow_files, source, sizes[0], "source")
    return first, slow_tokenizer(slow_files, target, sizes[1], "target")


def _cuts(tokenizer: Any, text: str) -> bool:
    """True if a tokenizer of transformers finds tokens in a text; one without an unknown token may refuse it."""
    try:
        return bool(tokenizer.tokenize(text))
    except Exception:  # noqa: BLE001 - the libraries raise bare Exception
        return False


def _sentence(error: BaseException) -> str:
    """Text of an error in one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__


# A published model's tokenizer as our checkpoints keep it: one JSON file with all that its model expects of it.

BEGINS = b'{"foreign":'  # beginning of such a file, and of none of the tokenizers library


def is_saved(path: Path) -> bool:
    """True if a file was written by `to_json` of a published model's tokenizer."""
    try:
        with open_file(path) as file:
            return file.read(len(BEGINS)) == BEGINS
    except OSError:
        return False


def read_saved(path: Path) -> Tokenizer:
    """Tokenizer of a file that `is_saved`.

    Raises:
        CheckpointError: the file is damaged.
    """
    record = read_json(path)
    try:
        return _from_record(record["foreign"], record.get("tokenizer"))
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = repr(error)
        raise CheckpointError(
            "{name} cannot be read as a tokenizer: {reason}", name=path.name, reason=reason
        ) from error


def _from_record(record: dict[str, Any], inner: Any) -> Tokenizer:
    size, special, around = int(record["size"]), _special(record["special"]), record["around"]
    ids = [*around[0], *around[1], *special.ids, *special.rules.ids]
    if not all(isinstance(token, int) and 0 <= token < size for token in ids):
        raise InputError("its special tokens are not ids below {size}", size=size)
    if files := record.get("files"):
        return _slow(files, record["side"], special, size)
    if isinstance(letters := record.get("letters"), list):
        return CharacterTokenizer([str(letter) for letter in letters], special)
    if inner is None:
        return IdTokenizer(size, read(record["reason"]), special)
    tokenizer = parse_tokenizer(json.dumps(inner).encode(), "its tokenizer")
    around = (list(around[0]), list(around[1]))
    template, tool_template = (str(record.get(name, "")) for name in ("template", "tool_template"))
    return HuggingFaceTokenizer(tokenizer, special, size, around=around, template=template, tool_template=tool_template)


def _slow(files: dict[str, str], side: Any, special: SpecialTokens, size: int) -> Tokenizer:
    slow_files = from_json(files)
    if side not in ("source", "target"):
        raise CheckpointError(
            "a tokenizer reads a source or a target, and not {side!r}: copy the model again", side=side
        )
    try:
        return slow_tokenizer(slow_files, special, size, side)
    except CheckpointError:
        raise
    except Exception as error:  # transformers and sentencepiece may raise anything
        raise CheckpointError("its tokenizer cannot be read: {first_line}", first_line=first_line(error)) from error


def _special(record: dict[str, Any]) -> SpecialTokens:
    rules = dict(record.get("rules", {}))
    rules["runs"] = tuple(tuple(run) for run in rules.get("runs", ()) if run)  # an empty one forbids nothing
    for name in ("never", "first"):
        rules[name] = tuple(rules.get(name, ()))
    parsed = {"stops": frozenset(record["stops"]), "target": tuple(record["target"]), "rules": GenerationRules(**rules)}
    return SpecialTokens(**{**record, **parsed})
