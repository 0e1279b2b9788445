"""Checkpoints of any kind opened as a TextModel: ours, folders of Hugging Face, files of weights alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from model.checkpoints.adapters_and_shards import require_whole
from model.checkpoints.convert.from_gguf import GgufModel, gguf_in
from model.checkpoints.convert.from_huggingface import rebuilt_config, rebuilt_weights
from model.checkpoints.convert.layouts import KNOWN, SUFFIXES, find_layout, open_state
from model.checkpoints.formats.weight_files import (
    READ,
    REFUSED,
    require_weights_themselves,
    weights_of,
)
from model.checkpoints.load_hints import LoadHints, Positions
from model.checkpoints.native import CONFIG, is_hugging_face, is_ours, open_ours, require_weights
from model.checkpoints.tensors import size, tensor_table
from model.inference.models import text_model
from model.inference.text_model import TextModel
from model.network.config import TransformerConfig
from model.network.transformer import Network, skeleton
from model.runtime.device import choose_device, choose_dtype
from model.runtime.errors import CheckpointError
from model.runtime.files import finish_replacing
from model.runtime.memory import loading, require_room
from model.runtime.untrusted_json import read_record
from model.text.huggingface.load import open_gguf_tokenizers, open_tokenizers


def open_foreign(path: Path, device: torch.device, dtype: torch.dtype, hints: LoadHints | None = None) -> TextModel:
    """Model of a folder of Hugging Face, or of a file of weights alone, also as the only one of a folder.

    Known families and layouts are rebuilt as our network; other models of Hugging Face are bridged. hints: of the user,
    for weights that do not tell everything.

    Raises:
        CheckpointError: the path is neither, or damaged; the sentence says which and what is needed.
    """
    if (gguf := gguf_in(path)) is not None:
        return _open_gguf(gguf, device, dtype)
    if path.is_dir() and is_hugging_face(settings := read_record(path / CONFIG)):
        return _open_folder(path, settings, device, dtype)
    file = _file_of(path)
    layout, tokenizers = open_state(file, hints or LoadHints())
    name = path.resolve().name if path.is_dir() else file.stem
    record = {"format": layout.name, "assumed": list(layout.assumed), "open": dict(layout.open)}
    return text_model(name, assembled(layout.config, layout.weights, device, dtype), tokenizers, record)


def renamed_weights(path: Path, hints: LoadHints) -> tuple[TransformerConfig, Mapping[str, Tensor]] | None:
    """Config of ours, and weights by our names in the shapes of our parameters, of a path that `open_foreign` takes;
    pages of weights are read when used, those of GGUF dequantized then. None: the model is not rebuilt as ours.

    Raises:
        CheckpointError: as `open_foreign` does.
    """
    if (gguf := gguf_in(path)) is not None:
        model = GgufModel(gguf)
        config = model.config
        if config is None:
            return None
        require_room(size(model.tensors)[0], torch.float32, CPU)
        return config, model.weights(config)
    if path.is_dir() and is_hugging_face(settings := read_record(path / CONFIG)):
        return _rebuilt(path, settings)
    layout = find_layout(_file_of(path), hints)
    return layout.config, layout.weights


def _file_of(path: Path) -> Path:
    """File of weights at a path, or the only one of a folder.

    Raises:
        CheckpointError: there is not a single file of weights, or it is of another kind.
    """
    file = _only_file(path) if path.is_dir() else path
    if file.is_file() and file.suffix.lower() not in (*READ, *REFUSED):
        raise CheckpointError(f"{file.name} must be a checkpoint folder or end in {', '.join(SUFFIXES)}")
    (file,) = weights_of(file).files  # refuses pipes, which never end
    require_weights_themselves(file, file.stat().st_size)
    require_whole(file, {})
    return file


def _open_gguf(file: Path, device: torch.device, dtype: torch.dtype) -> TextModel:
    """Model of a GGUF file, whose weights must have room as they are dequantized, one after another."""
    model = GgufModel(file)
    config, table = model.config, model.tensors
    if config is None:
        from model.checkpoints.bridge.load import open_weights

        network: Any = open_weights(file.stem, model.settings, table, device, dtype)
        config, run = network.config, ", run by transformers"
    else:
        require_weights(config, {info.name: info.shape for info in table}, file.name)
        require_room(size(table)[0], dtype, device)
        network, run = assembled(config, model.weights(config), device, dtype), ""
    tokenizers, assumed = open_gguf_tokenizers(model.vocabulary, model.settings, config.vocabularies)
    record = {"format": f"GGUF, {model.described}{run}", "assumed": [*model.assumed, *assumed]}
    return text_model(file.stem, network, tokenizers, record)


def _open_folder(folder: Path, settings: dict[str, Any], device: torch.device, dtype: torch.dtype) -> TextModel:
    rebuilt = _rebuilt(folder, settings, (dtype, device))
    if rebuilt is None:
        from model.checkpoints.bridge.load import open_bridged

        return open_bridged(folder, settings, device, dtype)
    config, weights = rebuilt
    network = assembled(config, weights, device, dtype)
    tokenizers = open_tokenizers(folder, settings, config.vocabularies)
    return text_model(folder.resolve().name, network, tokenizers, {"format": f"Hugging Face, {settings['model_type']}"})


def _rebuilt(
    folder: Path, settings: dict[str, Any], place: tuple[torch.dtype, torch.device] | None = None
) -> tuple[TransformerConfig, dict[str, Tensor]] | None:
    """Config and weights of ours; None: the family is not rebuilt.

    place: precision and device in which the weights must have room, before the files are mapped.
    """
    if not isinstance(settings.get("model_type"), str):
        return None
    table = tensor_table(folder)
    config = rebuilt_config(settings, [info.name for info in table])
    if config is None:
        return None
    require_weights(config, {info.name: info.shape for info in table}, folder.name)
    if place is not None:
        require_room(size(table)[0], *place)
    return config, rebuilt_weights(settings, config, {info.name: info.load() for info in table})


def _only_file(folder: Path) -> Path:
    """The only file of weights in a folder.

    Raises:
        CheckpointError: there is none, or several.
    """
    weights = sorted(file for file in folder.iterdir() if file.is_file() and file.suffix.lower() in SUFFIXES)
    if len(weights) == 1:
        return weights[0]
    raise CheckpointError(
        f"{folder.name} has {len(weights)} files of weights and no {CONFIG} that says what they are: open a checkpoint "
        f"folder of Vitrine or Hugging Face, or one file of {KNOWN}; tensors of any file can be looked at under "
        "Checkpoints → Read"
    )


def open_checkpoint(
    path: Path | str,
    device: torch.device | None = None,
    dtype: torch.dtype | None = None,
    heads: int | None = None,
    positions: Positions | None = None,
    start: int | None = None,
) -> TextModel:
    """Trained model of a checkpoint folder of ours or of Hugging Face, or of a file of weights alone in a known layout
    (`convert.layouts`).

    device, dtype: of the computation; by default those that `runtime.device` chooses. heads, positions, start: for a
    file that does not tell them, as in `LoadHints`.

    Raises:
        CheckpointError: the path is missing, incomplete, damaged or of another kind; the sentence says which file and
            why.
    """
    path, place, precision = Path(path), device or choose_device(), dtype or choose_dtype()
    finish_replacing(path)
    if not path.exists():
        raise CheckpointError(f"{path} is not a checkpoint: no folder or file of that name")
    try:
        with loading():
            if is_ours(path):
                model = open_ours(path, place, precision)
            else:
                model = open_foreign(path, place, precision, LoadHints(heads, positions, start))
    except CheckpointError:
        raise
    except (ValueError, OSError) as error:
        raise CheckpointError(f"{path.name} cannot be opened: {error}") from error
    if heads not in (None, model.config.n_heads):
        raise CheckpointError(
            f"{path.name} says itself that it has {model.config.n_heads} heads: leave heads={heads} out"
        )
    return model


# A network of existing weights.

CPU = torch.device("cpu")


def assembled(
    config: TransformerConfig,
    weights: Mapping[str, Tensor],
    device: torch.device = CPU,
    dtype: torch.dtype = torch.float32,
) -> Network:
    """Network of a config with copies of these weights, in evaluation mode and without gradients.

    weights: by our names, in the shapes of our parameters; a tied matrix under any of its names. No weights are
    initialised first: memory holds the network and one tensor more.

    Raises:
        CheckpointError: a weight is missing, unknown, of another shape or of a type that a network cannot have, or they
            do not fit into memory.
    """
    network = skeleton(config)
    require_room(network.parameter_count(), dtype, device)
    names = dict(network.named_parameters(remove_duplicate=False))
    if unknown := sorted(weights.keys() - names.keys()):
        raise CheckpointError(f"the weights hold {unknown[0]} ({len(unknown)} such), which this config has not")
    copies: dict[int, nn.Parameter] = {}
    for name, tensor in weights.items():
        if tensor.shape != names[name].shape:
            shapes = tuple(tensor.shape), tuple(names[name].shape)
            raise CheckpointError(f"{name} has shape {shapes[0]}, the config asks for {shapes[1]}")
        copy = _copied(name, tensor, device, dtype)
        copies[id(names[name])] = nn.Parameter(copy, requires_grad=False)
    if missing := [name for name, parameter in names.items() if id(parameter) not in copies]:
        raise CheckpointError(f"the weights lack {missing[0]} ({len(missing)} such)")
    for parameter in names.values():
        parameter.requires_grad_(False)  # assign=True keeps requires_grad of the parameter that was there
    network.load_state_dict({name: copies[id(parameter)] for name, parameter in names.items()}, assign=True)
    for module in network.modules():
        for name, table in module.named_buffers(recurse=False):
            setattr(module, name, table.to(device, dtype))
    return network.eval()


def _copied(name: str, tensor: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    try:
        if tensor.is_complex():
            raise NotImplementedError("its numbers are complex")
        return tensor.to(device, dtype, copy=True).contiguous()
    except NotImplementedError as error:  # torch knows only the name of some types, as float4
        raise CheckpointError(
            f"{name} is of type {str(tensor.dtype).removeprefix('torch.')}, with which no network computes here: its "
            "tensors can be looked at under Checkpoints → Read"
        ) from error
