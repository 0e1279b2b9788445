"""What a checkpoint is, from its headers alone: its kind, its format, how large it is. No weights are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from model.checkpoints import CONFIG
from model.config import Kind, TransformerConfig
from model.safe_json import read_object
from model.tensors import size, tensor_table

FILES = {".safetensors": "safetensors", ".pt": "PyTorch", ".pth": "PyTorch", ".bin": "PyTorch", ".gguf": "GGUF"}
KINDS: dict[str, Kind] = {"CausalLM": "decoder-only", "LMHeadModel": "decoder-only", "MaskedLM": "encoder-only"}
# Families whose kind no name of an architecture tells.
ENCODERS = ("bert", "roberta", "distilbert", "electra", "mpnet", "albert", "camembert", "xlm-roberta", "deberta-v2")


@dataclass(frozen=True)
class Listed:
    """A line of the list of checkpoints.

    format: "Vitrine", "Hugging Face" or that of a file. family: of Hugging Face's models. kind: as far as it is known.
    problem: why it cannot be opened, in a sentence; empty where nothing speaks against it.
    """

    format: str
    family: str = ""
    kind: Kind | None = None
    parameters: int = 0
    bytes: int = 0
    problem: str = ""


def listed(path: Path) -> Listed:
    """What a folder or file is; what is wrong with it is said in `problem`, and nothing is raised."""
    try:
        known = _said(path)
        parameters, held = size(tensor_table(path))
    except (ValueError, OSError) as error:
        return Listed(_format_of(path), problem=str(error))
    return replace(known, parameters=parameters, bytes=held)


def _said(path: Path) -> Listed:
    """As far as names and a config say it."""
    if not path.is_dir():
        return Listed(_format_of(path))
    if not (path / CONFIG).is_file():
        return Listed("safetensors")
    options = read_object(path / CONFIG, nan=True)
    if "model_type" in options or "architectures" in options:
        return Listed("Hugging Face", str(options.get("model_type", "")), _kind(options))
    return Listed("Vitrine", kind=TransformerConfig.from_dict(options).kind)


def _format_of(path: Path) -> str:
    if path.is_dir():
        return "Vitrine" if not _is_foreign(path) else "Hugging Face"
    return FILES.get(path.suffix.lower(), path.suffix.removeprefix("."))


def _is_foreign(path: Path) -> bool:
    try:
        return "model_type" in read_object(path / CONFIG, nan=True)
    except ValueError:
        return False


def _kind(options: dict[str, Any]) -> Kind | None:
    if options.get("is_encoder_decoder") is True:
        return "encoder-decoder"
    named = options.get("architectures")
    for name in named if isinstance(named, list) else []:
        for end, kind in KINDS.items():
            if str(name).endswith(end):
                return kind
    return "encoder-only" if options.get("model_type") in ENCODERS else None
