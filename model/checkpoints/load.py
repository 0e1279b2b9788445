"""Checkpoints of any kind opened as a TextModel: ours, folders of Hugging Face, files of weights alone."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.checkpoints.adapter_base import base_name, find_base, read_base
from model.checkpoints.adapters import MERGED, Adapter, Merged, is_adapter, merge, read_adapter
from model.checkpoints.assembled import CPU, assembled
from model.checkpoints.convert.from_gguf import GgufModel, gguf_in
from model.checkpoints.convert.from_huggingface import (
    FAMILIES,
    checked_weights,
    file_parameters,
    rebuilt_config,
)
from model.checkpoints.convert.layouts import (
    KNOWN,
    SUFFIXES,
    find_layout,
    is_own,
    open_state,
)
from model.checkpoints.convert.state_dict import Layout
from model.checkpoints.families import require_openable
from model.checkpoints.formats.weight_files import (
    READ,
    REFUSED,
    files_of_weights,
    refuse_folder,
    require_weights_themselves,
    weights_of,
)
from model.checkpoints.incomplete_weights import refuse_incomplete
from model.checkpoints.leftover import WORD_HEADS, is_harmless
from model.checkpoints.load_hints import Causal, Function, LoadHints, NormOrder, Positions
from model.checkpoints.native import CONFIG, WEIGHTS, is_hugging_face, is_ours, open_ours, require_weights, whole_of
from model.checkpoints.quantized import fp8_notes, plain_weights, require_no_codes
from model.checkpoints.tensors import TensorInfo, described, size, tensor_table, under
from model.checkpoints.wrapped_names import chosen_model, models_in, unwrapped, wrapping
from model.inference.models import text_model
from model.inference.text_model import TextModel
from model.message import Message
from model.network.config import TransformerConfig
from model.runtime.device import choose_device, choose_dtype
from model.runtime.errors import CheckpointError, MissingWeightsError
from model.runtime.files import finish_replacing
from model.runtime.memory import loading, require_room
from model.runtime.untrusted_json import read_record
from model.text.huggingface.load import TOKENIZER, open_gguf_tokenizers, open_tokenizers

BARE = re.compile(r"^(?!EncoderDecoder)\w+(?<!LMHead)(?<!DoubleHeads)(?<!MT)Model$")  # classes without an output
TOKEN_TYPES = "token_type_embeddings.weight"


def open_foreign(path: Path, device: torch.device, dtype: torch.dtype, hints: LoadHints | None = None) -> TextModel:
    """Model of a folder of Hugging Face, of an adapter of PEFT, or of a file of weights alone, also in a folder without
    others.

    Known families and layouts are rebuilt as our network; other models of Hugging Face are bridged. hints: of the user,
    for weights that do not tell everything.

    Raises:
        CheckpointError: the path is neither, or damaged; the sentence says which and what is needed.
    """
    if is_adapter(path):
        return _open_adapter(path, hints or LoadHints(), device, dtype)
    if (gguf := gguf_in(path)) is not None:
        return _open_gguf(gguf, device, dtype)
    if path.is_dir() and is_hugging_face(settings := read_record(path / CONFIG)) and not _has_own_names(path, settings):
        return _open_folder(path, settings, device, dtype, prefix=None if hints is None else hints.prefix)
    file = _file_of(path)
    layout, tokenizers = open_state(file, hints or LoadHints())
    name = path.resolve().name if path.is_dir() else file.stem
    run = "" if layout.config else ", run by transformers"
    record = {"format": f"{layout.name}{run}", "assumed": list(layout.assumed), "open": dict(layout.open)}
    record |= {} if layout.prefix is None else {"models": list(layout.models), "prefix": layout.prefix}
    record |= {"beside": list(layout.beside)} if layout.beside else {}
    return text_model(name, _network_of(layout, file.stem, device, dtype), tokenizers, record)


def _has_own_names(folder: Path, settings: Mapping[str, Any]) -> bool:
    """True if the weights of a folder of transformers have names that none of its classes has, as Meta's and litgpt's,
    which are written beside the same config.json. What it wrote itself of other families it translates, as Mistral's.
    """
    files = files_of_weights(folder)
    if len(files) != 1 or (files[0].name == WEIGHTS and settings.get("model_type") not in FAMILIES):
        return False
    return is_own(info.name for info in tensor_table(files[0]))


def _network_of(layout: Layout, name: str, device: torch.device, dtype: torch.dtype) -> Any:
    if layout.config is not None:
        return assembled(layout.config, layout.weights, device, dtype)
    from model.checkpoints.bridge.load import open_weights

    return open_weights(
        name, dict(layout.settings), [described(*pair) for pair in layout.weights.items()], device, dtype
    )


def renamed_weights(path: Path, hints: LoadHints) -> tuple[TransformerConfig, Mapping[str, Tensor]] | None:
    """Config of ours, and weights by our names in the shapes of our parameters, of a path that `open_foreign` takes;
    pages of weights are read when used, those of GGUF dequantized then. None: the model is not rebuilt as ours.

    Raises:
        CheckpointError: as `open_foreign` does.
    """
    path = whole_of(path)
    if is_adapter(path):
        base, _adapter, merged = merged_adapter(path, hints)
        return _rebuilt(base, merged.settings, merged.table)
    if (gguf := gguf_in(path)) is not None:
        model = GgufModel(gguf)
        config = model.config
        if config is None:
            return None
        require_room(size(model.tensors)[0], torch.float32, CPU)
        return config, model.weights(config)
    if path.is_dir() and is_hugging_face(settings := read_record(path / CONFIG)) and not _has_own_names(path, settings):
        stored = tensor_table(path)
        stored = stored if hints.prefix is None else under(stored, hints.prefix, path.name)
        table, settings = plain_weights(stored, settings, path.name)
        return _rebuilt(path, settings, table)
    layout = find_layout(_file_of(path), hints)
    return None if layout.config is None else (layout.config, layout.weights)


def merged_adapter(path: Path, hints: LoadHints, dtype: torch.dtype = torch.float32) -> tuple[Path, Adapter, Merged]:
    """Base of an adapter of PEFT, the adapter, and both merged; no weights are read.

    hints: their `base` is the path of the base's folder, or its name in Hugging Face's cache; by default the one that
    the adapter names. dtype: of the merged weights.

    Raises:
        AdapterBaseError: there is no such base here, or the adapter does not fit it.
        CheckpointError: a file is damaged, or the adapter cannot be merged; the sentence says why.
    """
    adapter = read_adapter(path)
    base = find_base(adapter, hints.base)
    settings, table = read_base(base, adapter)
    return base, adapter, merge(adapter, settings, table, dtype)


def _open_adapter(path: Path, hints: LoadHints, device: torch.device, dtype: torch.dtype) -> TextModel:
    base, adapter, merged = merged_adapter(path, hints, dtype)
    changed = sum(change.weight.elements for change in merged.changes)
    require_room(size(merged.table)[0] + changed, dtype, device)  # the merged weights, and their copies in the network
    texts = path if (path / TOKENIZER).is_file() else base
    model = _open_folder(base, merged.settings, device, dtype, merged.table, texts)
    model.name = path.resolve().name
    form = f"{MERGED[adapter.kind]}, merged into {base_name(base)} ({model.training['format']})"
    model.training = {**model.training, "format": form, "base": base_name(base)}
    return model


def _file_of(path: Path) -> Path:
    """File of weights at a path, or the only one of a folder.

    Raises:
        CheckpointError: there is not a single file of weights, or it is of another kind.
    """
    file = _only_file(path) if path.is_dir() else path
    if file.is_file() and file.suffix.lower() not in (*READ, *REFUSED):
        raise CheckpointError(
            "{file} must be a checkpoint folder or end in {suffixes}", file=file.name, suffixes=", ".join(SUFFIXES)
        )
    (file,) = weights_of(file).files  # refuses pipes, which never end
    require_weights_themselves(file, file.stat().st_size)
    refuse_incomplete(file, {})
    return file


def _open_gguf(file: Path, device: torch.device, dtype: torch.dtype) -> TextModel:
    """Model of a GGUF file, whose weights must have room as they are dequantized, one after another."""
    model = GgufModel(file)
    config, table = model.config, model.tensors
    require_no_codes(table, file.name)
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


def _open_folder(
    folder: Path,
    settings: dict[str, Any],
    device: torch.device,
    dtype: torch.dtype,
    table: list[TensorInfo] | None = None,
    texts: Path | None = None,
    prefix: str | None = None,
) -> TextModel:
    """table: tensors in the place of the folder's. texts: folder of the tokenizers, by default the same. prefix: of one
    of several models in the folder; by default the one that is named as its family, else the first.
    """
    require_openable(str(settings.get("model_type", "")), folder.name)
    stored = tensor_table(folder) if table is None else table
    names = [info.name for info in stored]
    parts = isinstance(settings.get("text_config"), dict)  # of one model, whose config tells them apart
    paths, place = [] if parts else models_in(names), (folder, settings, device, dtype, texts)
    if prefix is not None:
        return _one_of(
            _open_tensors(*place, under(stored, prefix, folder.name), True), names, paths, prefix, chosen=True
        )
    if "" in paths:  # a model, and beside it another one whose names have a beginning
        begins = tuple(f"{path}." for path in paths if path)
        model = _open_tensors(*place, [info for info in stored if not info.name.startswith(begins)], True)
        return _one_of(model, names, paths, "")
    try:
        model = _open_tensors(*place, stored, table is not None)
    except MissingWeightsError:
        if not paths:
            raise
        model = _open_tensors(*place, under(stored, paths[0], folder.name), True)
        return _one_of(model, names, paths, paths[0])
    beside = model.training.get("beside", [])
    others = [path for path in paths if any(name.startswith(f"{path}.") for name in beside)]
    return _one_of(model, names, ["", *others], "") if others else model


def _one_of(model: TextModel, names: list[str], paths: list[str], prefix: str, chosen: bool = False) -> TextModel:
    """The model, which says that it is one of several and which tensors are outside of it.

    names: of all tensors. paths: beginnings of the models' names, of which `prefix` is this one's. chosen: by a hint.
    """
    begins = tuple(f"{path}." for path in paths if len(path) > len(prefix))
    inside = [name for name in names if name.startswith(f"{prefix}." if prefix else "")]
    inside = [name for name in inside if not (begins and name.startswith(begins))]
    outside = [name for name in names if name not in {*inside} and not is_harmless(name)]
    training = {**model.training, "prefix": prefix}
    if len(paths) > 1:
        training |= {"models": paths, "open": {"prefix": prefix}}
        if not chosen:
            training["assumed"] = [*training.get("assumed", []), chosen_model(prefix, paths)]
    if beside := sorted({*training.get("beside", []), *outside}):
        training["beside"] = beside
    model.training = training
    return model


def _open_tensors(
    folder: Path,
    settings: dict[str, Any],
    device: torch.device,
    dtype: torch.dtype,
    texts: Path | None,
    stored: list[TensorInfo],
    apart: bool,
) -> TextModel:
    """stored: tensors, of the folder or (apart) in their place."""
    plain, settings = plain_weights(stored, settings, folder.name)
    notes = fp8_notes(plain)
    rebuilt = _rebuilt(folder, settings, plain, (dtype, device))
    if rebuilt is None:
        from model.checkpoints.bridge.load import open_bridged

        changed = apart or any(info.loaded for info in plain)
        model = open_bridged(folder, settings, device, dtype, table=plain if changed else None, texts=texts)
        assumed = [*model.training.get("assumed", []), *notes, *_output_of_embeddings(model, settings, stored)]
        model.training = {**model.training, **({"assumed": assumed} if assumed else {})}
        return model
    config, weights = rebuilt
    network = assembled(config, weights, device, dtype)
    tokenizers = open_tokenizers(texts or folder, settings, config.vocabularies)
    record: dict[str, Any] = {"format": f"Hugging Face, {settings['model_type']}"}
    record |= {"assumed": notes} if notes else {}
    names = _names(settings, plain)
    in_file = file_parameters(settings, config, {names[info.name]: info.shape for info in plain})
    if in_file != network.parameter_count():
        record["in_file"] = in_file
    return text_model(folder.resolve().name, network, tokenizers, record)


def _output_of_embeddings(model: TextModel, settings: Mapping[str, Any], stored: list[TensorInfo]) -> list[str]:
    """Sentence where a model predicts by its embeddings, and its class, as config.json names it, predicts nothing."""
    wrote = str((settings.get("architectures") or [""])[0])
    if not model.predicts or not BARE.search(wrote) or any(WORD_HEADS.search(info.name) for info in stored):
        return []
    return [
        Message(
            "its predictions are by its embeddings: config.json names {kind}, which predicts nothing",
            kind=wrote,
        )
    ]


def _rebuilt(
    folder: Path,
    settings: dict[str, Any],
    table: list[TensorInfo],
    place: tuple[torch.dtype, torch.device] | None = None,
) -> tuple[TransformerConfig, Mapping[str, Tensor]] | None:
    """Config and weights of ours; None: the family is not rebuilt.

    table: of plain weights. place: precision and device in which the weights must have room, before files are mapped.
    """
    if not isinstance(settings.get("model_type"), str):
        return None
    names = _names(settings, table)
    config = rebuilt_config(settings, list(names.values()))
    if config is None:
        return None
    require_weights(config, {info.name: info.shape for info in table}, folder.name)
    shapes = {names[info.name]: info.shape for info in table}
    config = _with_second_text(folder, settings, config, shapes)
    if place is not None:
        require_room(size(table)[0], *place)
    loads = {names[info.name]: info.load for info in table}
    return config, checked_weights(settings, config, shapes, lambda name: loads[name]())  # one after another


def _names(settings: Mapping[str, Any], table: list[TensorInfo]) -> dict[str, str]:
    """Name of each tensor in its family, by its name in the file."""
    family = FAMILIES.get(settings["model_type"])
    around = wrapping([info.name for info in table], list(filter(None, [family.prefix]))) if family else []
    return {info.name: unwrapped(info.name, around) for info in table}


def _with_second_text(
    folder: Path, settings: dict[str, Any], config: TransformerConfig, shapes: Mapping[str, tuple[int, ...]]
) -> TransformerConfig:
    """Config with the separator of its tokenizer, where the weights have a vector for the tokens of a second text."""
    types = [shape for name, shape in shapes.items() if name.endswith(TOKEN_TYPES) and len(shape) == 2 and shape[0] > 1]
    if config.kind != "encoder-only" or not types:
        return config
    return replace(config, separator=open_tokenizers(folder, settings, config.vocabularies)[0].separator)


def _only_file(folder: Path) -> Path:
    """The only file of weights in a folder.

    Raises:
        CheckpointError: there is none, or several.
    """
    weights = [file for file in files_of_weights(folder) if file.suffix.lower() in SUFFIXES]
    if len(weights) == 1:
        return weights[0]
    refuse_folder(folder, files_of_weights(folder))
    raise CheckpointError(
        "{file} has {count} files of weights and no config.json that says what they are: open a checkpoint "
        "folder of Vitrine or Hugging Face, or one file of {known}; tensors of any file can be looked at under "
        "Checkpoints → Read",
        file=folder.name,
        count=len(weights),
        known=KNOWN,
    )


def open_checkpoint(
    path: Path | str,
    device: torch.device | None = None,
    dtype: torch.dtype | None = None,
    heads: int | None = None,
    positions: Positions | None = None,
    start: int | None = None,
    causal: Causal | None = None,
    norm: NormOrder | None = None,
    activation: Function | None = None,
    alphabet: str | None = None,
    base: Path | str | None = None,
    prefix: str | None = None,
) -> TextModel:
    """Trained model of a checkpoint folder of ours or of Hugging Face, of an adapter of PEFT, or of a file of weights
    alone in a known layout (`convert.layouts`).

    device, dtype: of the computation; by default those that `runtime.device` chooses. heads and all that follow: for a
    file that does not tell them, as in `LoadHints`. base: of an adapter, where it is not found by the name that the
    adapter gives it.

    Raises:
        CheckpointError: the path is missing, incomplete, damaged or of another kind, or the model is not as it is told
            to be; the sentence says which file and why.
    """
    path, place, precision = Path(path), device or choose_device(), dtype or choose_dtype()
    base_path = None if base is None else str(base)
    hints = LoadHints(heads, positions, start, causal, norm, activation, alphabet, base_path, prefix)
    finish_replacing(path)
    if not path.exists():
        raise CheckpointError("{file} is not a checkpoint: no folder or file of that name", file=path)
    path = whole_of(path)
    try:
        with loading():
            model = open_ours(path, place, precision) if is_ours(path) else open_foreign(path, place, precision, hints)
    except CheckpointError:
        raise
    except (ValueError, OSError) as error:
        raise CheckpointError("{file} cannot be opened: {error}", file=path.name, error=error) from error
    _require_followed(hints, model, path.name)
    return model


def _require_followed(hints: LoadHints, model: TextModel, name: str) -> None:
    """Refuse a model that is not what its user says: a hint is followed, or refused by its name.

    Raises:
        CheckpointError: the model is otherwise, by its file or by its format.
    """
    config, letters = model.config, getattr(model.source_tokenizer, "letters", None)
    one_stack = {"decoder-only": "yes", "encoder-only": "no"}
    begin = model.target_tokenizer.margins("target")[0]
    own = {
        "heads": config.n_heads,
        "positions": "sinusoidal" if config.position.startswith("sinusoidal") else config.position,
        "start": begin[0] if len(begin) == 1 else None,
        "causal": one_stack.get(config.kind),
        "norm": config.norm_placement,
        "activation": config.activation,
        "alphabet": letters and "".join(letters),
        "base": hints.base if "base" in model.training else None,
        "prefix": model.training.get("prefix"),
    }
    for hint, value in dataclasses.asdict(hints).items():
        if value is None or value == own[hint]:
            continue
        if own[hint] is None:
            raise CheckpointError(
                "{file} is of a kind to which {hint} means nothing: leave {hint}:{value} out",
                file=name,
                hint=hint,
                value=value,
            )
        raise CheckpointError(
            "{file} has {hint} {own}, whatever it is told: leave {hint}:{value} out",
            file=name,
            hint=hint,
            own=own[hint],
            value=value,
        )
