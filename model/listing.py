"""What a checkpoint is, from its headers alone: its kind, its format, how large it is. No weights are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.config import Kind, TransformerConfig
from model.errors import CheckpointError
from model.safe_json import read_json

CONFIG = "config.json"
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
        return _folder(path) if path.is_dir() else _file(path)
    except (CheckpointError, ValueError, OSError) as error:
        return Listed(_format_of(path), problem=str(error))


def _folder(path: Path) -> Listed:
    if not (path / CONFIG).is_file():
        parameters, size = _tensors(path)
        return Listed("safetensors", parameters=parameters, bytes=size)
    options = _options(path / CONFIG)
    if "model_type" in options or "architectures" in options:
        family, kind = str(options.get("model_type", "")), _kind(options)
        parameters, size = _tensors(path)
        return Listed("Hugging Face", family, kind, parameters, size)
    config = TransformerConfig.from_dict(options)
    parameters, size = _tensors(path)
    return Listed("Vitrine", "", config.kind, parameters, size)


def _file(path: Path) -> Listed:
    parameters, size = _tensors(path)
    return Listed(_format_of(path), parameters=parameters, bytes=size)


def _format_of(path: Path) -> str:
    if path.is_dir():
        return "Vitrine" if not _is_foreign(path) else "Hugging Face"
    return FILES.get(path.suffix.lower(), path.suffix.removeprefix("."))


def _is_foreign(path: Path) -> bool:
    try:
        return "model_type" in _options(path / CONFIG)
    except ValueError:
        return False


def _tensors(path: Path) -> tuple[int, int]:
    """Parameters and bytes, a tensor that lies in another's place counted once."""
    from model.tensors import tensor_table

    table = [info for info in tensor_table(path) if info.place == info.name]
    return sum(info.elements for info in table), sum(info.bytes for info in table)


def _options(path: Path) -> dict[str, Any]:
    options = read_json(path)
    if not isinstance(options, dict):
        raise CheckpointError(f"{path.name} must hold a JSON object, not {type(options).__name__}")
    return options


def _kind(options: dict[str, Any]) -> Kind | None:
    if options.get("is_encoder_decoder") is True:
        return "encoder-decoder"
    named = options.get("architectures")
    for name in named if isinstance(named, list) else []:
        for end, kind in KINDS.items():
            if str(name).endswith(end):
                return kind
    return "encoder-only" if options.get("model_type") in ENCODERS else None
