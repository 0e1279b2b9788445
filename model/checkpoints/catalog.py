"""What a checkpoint is, from its headers alone: its kind, its format, how large it is. No weights are read."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from model.checkpoints.convert.layouts import is_known
from model.checkpoints.formats.weight_files import require_whole, weights_of
from model.checkpoints.native import CONFIG, is_hugging_face, is_ours
from model.checkpoints.tensors import TensorInfo, size, tensor_table
from model.network.config import Kind, TransformerConfig
from model.runtime.errors import CheckpointError
from model.runtime.untrusted_json import read_record

FILES = {".safetensors": "safetensors", ".pt": "PyTorch", ".pth": "PyTorch", ".bin": "PyTorch", ".gguf": "GGUF"}
KINDS: dict[str, Kind] = {
    **dict.fromkeys(("CausalLM", "LMHeadModel"), "decoder-only"),
    **dict.fromkeys(("MaskedLM", "EncoderModel"), "encoder-only"),
}
SHOWN = 300  # characters of a path in a sentence
# Families whose kind no name of an architecture tells.
ENCODERS = ("bert", "roberta", "distilbert", "electra", "mpnet", "albert", "camembert", "xlm-roberta", "deberta-v2")
DECODERS = ("gpt2", "gpt_neox", "gptj", "opt", "phi", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2")


@dataclass(frozen=True)
class CatalogEntry:
    """A line of the list of checkpoints.

    format: "Vitrine", "Hugging Face" or that of a file. family: of Hugging Face's models. kind: as far as it is known.
    problem: why it cannot be opened, in a sentence; empty where nothing speaks against it. computes: whether it may be
    a model; of other files the tensors can be read. part: why it is none, in a sentence, of what is known to be a
    part of one. parameters: the model's, without those of an optimizer.
    """

    format: str
    family: str = ""
    kind: Kind | None = None
    parameters: int = 0
    bytes: int = 0
    problem: str = ""
    computes: bool = True
    part: str = ""


def typed_path(text: str) -> Path:
    """The path that somebody typed: relative to where the server was started, or to a home (~); with quotes or without.

    Raises:
        CheckpointError: there is nothing, or nothing that this process may read.
    """
    plain = text.strip()
    if len(plain) > 1 and plain[0] == plain[-1] and plain[0] in "\"'":
        plain = plain[1:-1]
    path = Path(os.path.abspath(os.path.expanduser(plain)))  # without "..", which would be a name
    shown = str(path)[:SHOWN]
    try:
        path.stat()
        readable = os.access(path, os.R_OK | os.X_OK if path.is_dir() else os.R_OK)
    except PermissionError:
        readable = False
    except (OSError, ValueError) as error:  # a name that is too long, or has a zero in it
        if os.path.islink(path):
            raise CheckpointError(f"{shown} leads to {os.readlink(path)}, which is not there: mend the link") from error
        raise CheckpointError(f"{shown} is not there: give the path of a checkpoint's folder or file") from error
    if not readable:
        raise CheckpointError(f"{shown} may not be read by Vitrine: give its user the right to read it")
    return path


def listed(path: Path) -> CatalogEntry:
    """What a folder or file is; what is wrong with it is said in `problem`, and nothing is raised."""
    try:
        table = tensor_table(path)
        known = _said(path, table)
        parameters, held = size(table)
    except (ValueError, OSError) as error:
        # By its name: the folder of an upload is ours, and no place that the user knows.
        return CatalogEntry(_format_of(path), problem=str(error).replace(str(path), path.name or str(path)))
    return replace(known, parameters=parameters, bytes=held)


def _said(path: Path, table: list[TensorInfo]) -> CatalogEntry:
    """As far as names and a config say it."""
    options = read_record(path / CONFIG)
    if is_hugging_face(options):
        return CatalogEntry("Hugging Face", str(options.get("model_type", "")), _kind(options))
    if is_ours(path, options):
        return CatalogEntry("Vitrine", kind=TransformerConfig.from_dict(options).kind)
    file = weights_of(path).files[0]
    try:
        require_whole(file, {info.name: info.shape for info in table})
    except CheckpointError as error:
        return CatalogEntry(_format_of(file), computes=False, part=str(error))
    return CatalogEntry(_format_of(file), computes=is_known(info.name for info in table))


def _format_of(path: Path) -> str:
    if path.is_dir():
        return "Vitrine" if not _is_foreign(path) else "Hugging Face"
    return FILES.get(path.suffix.lower(), path.suffix.removeprefix("."))


def _is_foreign(path: Path) -> bool:
    try:
        return is_hugging_face(read_record(path / CONFIG))
    except ValueError:
        return False


def _kind(options: dict[str, Any]) -> Kind | None:
    named = options.get("architectures")
    for name in named if isinstance(named, list) else []:
        for end, kind in KINDS.items():
            if str(name).endswith(end):
                return kind
    if options.get("is_encoder_decoder") is True:
        return "encoder-decoder"
    family = options.get("model_type")
    return "encoder-only" if family in ENCODERS else "decoder-only" if family in DECODERS else None
