"""What others have trained, opened as an Inspectable: which of the ways to it a file or folder needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.checkpoints import CONFIG, is_hugging_face
from model.foreign.assembling import assembled
from model.foreign.families import rebuilt_config, renamed
from model.foreign.incomplete import LLAMA_CPP, require_whole
from model.foreign.layouts import KNOWN, SUFFIXES, find_layout, open_state
from model.foreign.told import Told
from model.inference.model import Inspectable
from model.inference.models import inspectable
from model.network.config import TransformerConfig
from model.runtime.errors import CheckpointError
from model.runtime.memory import require_room
from model.runtime.untrusted_json import read_record
from model.safe_folder import require_weights
from model.safe_formats import READ, REFUSED, require_weights_themselves, weights_of
from model.tensors import size, tensor_table
from model.text.huggingface.load import open_tokenizers


def open_foreign(path: Path, device: torch.device, dtype: torch.dtype, told: Told | None = None) -> Inspectable:
    """A checkpoint folder of Hugging Face, or a file of weights alone, also as the only one of a folder.

    Well-known families and layouts are put together as our network; other models of Hugging Face run as they are.
    told: what somebody says of weights that do not tell everything.

    Raises:
        CheckpointError: it is neither, or it is damaged; the sentence says which and what is needed.
    """
    if path.is_dir() and is_hugging_face(settings := read_record(path / CONFIG)):
        return _open_folder(path, settings, device, dtype)
    file = _file_of(path)
    layout, tokenizers = open_state(file, told or Told())
    name = path.resolve().name if path.is_dir() else file.stem
    record = {"format": layout.name, "assumed": list(layout.assumed), "open": dict(layout.open)}
    return inspectable(name, assembled(layout.config, layout.weights, device, dtype), tokenizers, record)


def renamed_weights(path: Path, told: Told) -> tuple[TransformerConfig, dict[str, Tensor]] | None:
    """What others have trained as a config of ours and weights by our names, still in the file; None where it is not
    put together as ours.

    Raises:
        CheckpointError: as of `open_foreign`.
    """
    if path.is_dir() and is_hugging_face(settings := read_record(path / CONFIG)):
        return _rebuilt(path, settings)
    layout = find_layout(_file_of(path), told)
    return layout.config, layout.weights


def _file_of(path: Path) -> Path:
    """
    Raises:
        CheckpointError: there is not a single file of weights, or it is of another kind.
    """
    file = _only_file(path) if path.is_dir() else path
    if file.is_file() and file.suffix.lower() not in (*READ, *REFUSED):
        raise CheckpointError(f"{file.name} must be a checkpoint folder or end in {', '.join(SUFFIXES)}")
    (file,) = weights_of(file).files  # a file, and no pipe, which never ends
    require_weights_themselves(file, file.stat().st_size)
    require_whole(file, {})
    return file


def _open_folder(folder: Path, settings: dict[str, Any], device: torch.device, dtype: torch.dtype) -> Inspectable:
    found = _rebuilt(folder, settings, (dtype, device))
    if found is None:
        from model.hosted.opening import open_hosted

        return open_hosted(folder, settings, device, dtype)
    config, ours = found
    network = assembled(config, ours, device, dtype)
    tokenizers = open_tokenizers(folder, settings, config.vocabularies)
    return inspectable(
        folder.resolve().name, network, tokenizers, {"format": f"Hugging Face, {settings['model_type']}"}
    )


def _rebuilt(
    folder: Path, settings: dict[str, Any], place: tuple[torch.dtype, torch.device] | None = None
) -> tuple[TransformerConfig, dict[str, Tensor]] | None:
    """place: where the weights must have room, before the files, which may be larger than memory, are mapped."""
    if not isinstance(settings.get("model_type"), str):
        return None
    table = tensor_table(folder)
    config = rebuilt_config(settings, [info.name for info in table])
    if config is None:
        return None
    if place is not None:
        require_room(size(table)[0], *place)
    ours = renamed(settings, config, {info.name: info.load() for info in table})
    require_weights(config, {name: tuple(each.shape) for name, each in ours.items()}, folder.name)
    return config, ours


def _only_file(folder: Path) -> Path:
    """
    Raises:
        CheckpointError: there is no file of weights in the folder, or several.
    """
    files = sorted(file for file in folder.iterdir() if file.is_file())
    found = [file for file in files if file.suffix.lower() in SUFFIXES]
    found = found or [file for file in files if file.suffix.lower() == LLAMA_CPP]  # what it is, is said of the file
    if len(found) == 1:
        return found[0]
    raise CheckpointError(
        f"{folder.name} has {len(found)} files of weights and no {CONFIG} that says what they are: open a checkpoint "
        f"folder of Vitrine or Hugging Face, or one file of {KNOWN}; tensors of any file can be looked at under "
        "Checkpoints → Read"
    )
