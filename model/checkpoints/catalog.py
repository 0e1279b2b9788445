"""Kind, format and size of checkpoints, from their headers alone. No weights are read."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from model.checkpoints.adapters import MERGED, is_adapter, read_adapter
from model.checkpoints.convert.from_gguf import GgufModel, gguf_in
from model.checkpoints.convert.layouts import is_known
from model.checkpoints.formats.weight_files import PICKLED, weights_of
from model.checkpoints.incomplete_weights import refuse_incomplete
from model.checkpoints.native import CONFIG, TRAINING, is_hugging_face, is_ours, whole_of
from model.checkpoints.tensors import TensorInfo, size, tensor_table
from model.message import Message
from model.network.config import Kind, TransformerConfig
from model.runtime.errors import CheckpointError, printable
from model.runtime.untrusted_json import read_record

FILES = {".safetensors": "safetensors", **dict.fromkeys(PICKLED, "PyTorch"), ".gguf": "GGUF"}
KINDS: dict[str, Kind] = {
    **dict.fromkeys(("CausalLM", "LMHeadModel"), "decoder-only"),
    **dict.fromkeys(("MaskedLM", "EncoderModel"), "encoder-only"),
}
TOKENIZER_CONFIG = "tokenizer_config.json"
LONGEST_PATH = 300  # characters of a path in a sentence
# Families by kind, for configs without the name of an architecture.
ENCODERS = ("bert", "roberta", "distilbert", "electra", "mpnet", "albert", "camembert", "xlm-roberta", "deberta-v2")
DECODERS = ("gpt2", "gpt_neox", "gptj", "opt", "phi", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2")


@dataclass(frozen=True)
class CatalogEntry:
    """A line of the list of checkpoints.

    format: "Vitrine", "Hugging Face", "PEFT" or that of a file. family: of Hugging Face's models, of GGUF files with
    their precision, or the kind of an adapter. base, revision: path or name of the model that an adapter changes, None:
    it is no adapter; and which state of it at Hugging Face. kind: None: unknown.
    task: built-in task that it was trained on, or "". languages: codes of those that it translates from and into, as
    its files name them; () where they do not. predicts: it has a head that predicts tokens, as far as is known.
    parameters: their number, without those of an optimizer. problem: reason why it cannot be opened, in a sentence, or
    "". computes: whether it may be a model; of other files the tensors can be read. part: reason why a file that is
    known to be a part of a model is none, in a sentence, or "".
    """

    format: str
    family: str = ""
    kind: Kind | None = None
    task: str = ""
    languages: tuple[str, ...] = ()
    predicts: bool = True
    parameters: int = 0
    bytes: int = 0
    problem: str = ""
    computes: bool = True
    part: str = ""
    base: str | None = None
    revision: str | None = None


def typed_path(text: str) -> Path:
    """Path that a user typed: relative to the server's working directory, or to a home (~); with quotes or without.

    Raises:
        CheckpointError: nothing is there, or this process may not read it.
    """
    plain = text.strip()
    if len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "\"'":
        plain = plain[1:-1]
    path = Path(os.path.abspath(os.path.expanduser(plain)))  # resolves "..", too
    path_text = str(path)[:LONGEST_PATH]
    try:
        path.stat()
        readable = os.access(path, os.R_OK | os.X_OK if path.is_dir() else os.R_OK)
    except PermissionError:
        readable = False
    except (OSError, ValueError) as error:  # a name that is too long, or has a zero in it
        if os.path.islink(path):
            raise CheckpointError(
                "{shown} leads to {readlink}, which is not there: mend the link",
                shown=path_text,
                readlink=os.readlink(path),
            ) from error
        raise CheckpointError(
            "{shown} is not there: give the path of a checkpoint's folder or file", shown=path_text
        ) from error
    if not readable:
        raise CheckpointError("{shown} may not be read by Vitrine: give its user the right to read it", shown=path_text)
    return path


def catalog_entry(path: Path) -> CatalogEntry:
    """Entry of a folder or file; errors become its `problem`."""
    try:
        table = tensor_table(path)
        entry = _recognised(path, table)
        parameters, stored = size(table)
    except (ValueError, OSError) as error:
        return CatalogEntry(_format_of(path), problem=_by_name(error, path))
    return replace(entry, parameters=parameters, bytes=stored)


def _by_name(error: Exception, path: Path) -> str:
    """Sentence of an error with the path's name alone: the user does not know where an upload lies."""
    sentence, name = str(error), path.name or str(path)
    if not isinstance(sentence, Message):
        return sentence.replace(str(path), name)
    return printable(sentence.replacing(str(path), name))


def _recognised(path: Path, table: list[TensorInfo]) -> CatalogEntry:
    """Entry without sizes, by the config and the names and shapes of tensors."""
    path = whole_of(path)
    if is_adapter(path):
        return _adapter(path)
    if (gguf := gguf_in(path)) is not None:
        try:
            return CatalogEntry("GGUF", GgufModel(gguf).described, "decoder-only")
        except CheckpointError as error:
            return CatalogEntry("GGUF", computes=False, part=str(error))
    options = read_record(path / CONFIG)
    if is_hugging_face(options):
        names = read_record(path / TOKENIZER_CONFIG)
        languages = _languages([names.get("source_lang"), names.get("target_lang")])
        family = str(options.get("model_type", ""))
        return CatalogEntry("Hugging Face", family, _kind(options), languages=languages, predicts=_predicts(options))
    if is_ours(path, options):
        training = read_record(path / TRAINING)
        task, languages = str(training.get("task") or ""), _languages(training.get("languages"))
        return CatalogEntry("Vitrine", kind=TransformerConfig.from_dict(options).kind, task=task, languages=languages)
    file = weights_of(path).files[0]
    try:
        refuse_incomplete(file, {info.name: info.shape for info in table})
    except CheckpointError as error:
        return CatalogEntry(_format_of(file), computes=False, part=str(error))
    return CatalogEntry(_format_of(file), computes=is_known(info.name for info in table))


def _languages(codes: object) -> tuple[str, ...]:
    """Codes of two languages; () where they are something else."""
    if not isinstance(codes, list) or len(codes) != 2:
        return ()
    named = tuple(code for code in codes if isinstance(code, str) and re.fullmatch(r"[A-Za-z_-]{2,16}", code))
    return named if len(named) == 2 else ()


def _predicts(options: Mapping[str, Any]) -> bool:
    architectures = options.get("architectures")
    names = [str(name) for name in architectures] if isinstance(architectures, list) else []
    return not any(name.endswith("Model") and not name.endswith("LMHeadModel") for name in names)


def _adapter(path: Path) -> CatalogEntry:
    try:
        adapter = read_adapter(path)
    except CheckpointError as error:
        return CatalogEntry("PEFT", computes=False, part=str(error))
    return CatalogEntry("PEFT", MERGED[adapter.kind], base=adapter.base, revision=adapter.revision)


def _format_of(path: Path) -> str:
    if is_adapter(path):
        return "PEFT"
    if path.is_dir():
        return "Vitrine" if not _is_foreign(path) else "Hugging Face"
    return FILES.get(path.suffix.lower(), path.suffix.removeprefix("."))


def _is_foreign(path: Path) -> bool:
    try:
        return is_hugging_face(read_record(path / CONFIG))
    except ValueError:
        return False


def _kind(options: dict[str, Any]) -> Kind | None:
    architectures = options.get("architectures")
    for name in architectures if isinstance(architectures, list) else []:
        for end, kind in KINDS.items():
            if str(name).endswith(end):
                return kind
    if options.get("is_encoder_decoder") is True:
        return "encoder-decoder"
    family = options.get("model_type")
    return "encoder-only" if family in ENCODERS else "decoder-only" if family in DECODERS else None
