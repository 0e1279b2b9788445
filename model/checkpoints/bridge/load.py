"""A folder of `transformers` opened as a bridged model: the library's classes run, and no code of the folder."""

from __future__ import annotations

import errno
import inspect
import json
import os
import re
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir, mkdtemp
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.modules import module

from model.checkpoints.bridge.hooks import NAME, register
from model.checkpoints.bridge.network import (
    BridgedNetwork,
    build_bridged,
    keep_its_masks,
    reads_texts,
    sees_earlier_alone,
)
from model.checkpoints.leftover import Leftover, is_harmless, leftover
from model.checkpoints.native import BUILT, MOST_LAYERS
from model.checkpoints.quantized import require_no_codes
from model.checkpoints.tensors import TensorInfo, size, tensor_table, under
from model.checkpoints.wrapped_names import wrapping
from model.inference.models import text_model
from model.inference.text_model import TextModel
from model.network.config import Kind
from model.runtime.device import choose_device_map
from model.runtime.errors import CheckpointError, MissingWeightsError, first_line
from model.runtime.file_pages import MAPS, FilePages, places_of_files, within
from model.runtime.memory import require_room
from model.runtime.transformers_import import import_transformers, quietly
from model.text.huggingface.load import open_tokenizers

TEXTS_ALONE = "texts alone are read (its parts for pictures or sounds take no part)"
ROWS = re.compile(r"(^|\.)embeddings\.position_embeddings\.weight$")  # of positions, which rotary ones have no use for
LONGEST = 300  # characters of an error of transformers
FULL = os.strerror(errno.ENOSPC)  # in errors of safetensors, which have no number
MASKED, CAUSAL = "AutoModelForMaskedLM", "AutoModelForCausalLM"
TWO, BARE, ENCODER = "AutoModelForSeq2SeqLM", "AutoModel", "AutoModelForTextEncoding"
SEEING, HEARING = "AutoModelForImageTextToText", "AutoModelForMultimodalLM"  # and writing
DECODER = re.compile(r"(^|\.)decoder\.")  # in names of tensors
WORD_HEAD = re.compile(r"(^|\.)(lm_head|embed_out)\.weight$")  # of a head over words that is one matrix
JOINED = "eh_proj.weight"  # of a layer that predicts a further token, to which it joins states and embeddings
WRITES = re.compile(r"CausalLM|LMHead|ConditionalGeneration|Text2Text")  # in names of classes
ONE_EXPERT = re.compile(r"\bexperts\.\d+\.")
OWN_ARGUMENTS = re.compile(r"missing \d+ required positional arguments?: (.{1,120})")
# Classes whose output is not of words; ELECTRA's is trained to find replaced tokens.
OTHER_OUTPUT = re.compile(
    r"For(\w+Classification|QuestionAnswering|MultipleChoice|NextSentencePrediction)$|^ElectraForPreTraining$"
)


def open_bridged(
    folder: Path,
    settings: dict[str, Any],
    device: torch.device,
    dtype: torch.dtype,
    device_map: str | dict[str, Any] | None = None,
    table: list[TensorInfo] | None = None,
    texts: Path | None = None,
) -> TextModel:
    """Model of a folder with its tokenizers; arguments as of `open_network`. device_map: by default VITRINE_DEVICE_MAP.
    texts: folder of the tokenizers, by default the same.

    Raises:
        CheckpointError: the folder cannot be opened.
    """
    model = open_network(folder, settings, device, dtype, device_map or choose_device_map(), table)
    tokenizers = open_tokenizers(texts or folder, settings, model.config.vocabularies)
    model.runner.read_types(tokenizers[0].separator)
    record: dict[str, Any] = {"format": f"Hugging Face, {settings.get('model_type')}, run by transformers"}
    unused = model.runner.model.vitrine_unused
    record |= {key: names for key, names in (("unused", unused.harmless), ("beside", unused.beside)) if names}
    if model.runner.model.vitrine_texts_alone:
        record["assumed"] = [TEXTS_ALONE]
    return text_model(folder.resolve().name, model, tokenizers, record)


def open_network(
    folder: Path,
    settings: dict[str, Any],
    device: torch.device,
    dtype: torch.dtype,
    device_map: str | dict[str, Any] | None = None,
    table: list[TensorInfo] | None = None,
) -> BridgedNetwork:
    """Bridged network of a folder with a config.json of transformers (settings).

    device_map: devices over which accelerate spreads the model, "auto" or by module; None: all of it is on `device`.
    table: tensors to load in the place of the folder's, into which an adapter is merged.

    Raises:
        CheckpointError: the model needs code of its own, is of no kind that is known here, does not fit into memory,
            or its parts cannot be told apart.
    """
    if _asks_for_code(settings):
        raise CheckpointError(
            "{file} brings Python code of its own (auto_map in config.json), which is never run here: open a "
            "model of a family that transformers itself knows",
            file=folder.name,
        )
    tensors = tensor_table(folder) if table is None else table
    return _network(folder, settings, tensors, table is not None, device, dtype, device_map)


def open_weights(
    name: str, settings: dict[str, Any], table: list[TensorInfo], device: torch.device, dtype: torch.dtype
) -> BridgedNetwork:
    """Bridged network of tensors that lie in no folder of transformers. name: of the model, a part of a path.

    settings: of the config.json that the folder would have. table: the tensors, by its names.

    Raises:
        CheckpointError: as `open_network`, or there is a tensor that the model does not have.
    """
    with TemporaryDirectory() as place:
        folder = Path(place) / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
        network = _network(folder, settings, table, True, device, dtype, None)
    model = network.runner.model
    if more := [*model.vitrine_unused.harmless, *model.vitrine_unused.beside]:
        raise CheckpointError(
            "{file} has a tensor {more!r} ({count} such), which {kind} does not have: its tensors can be looked "
            "at under Checkpoints → Read",
            file=name,
            more=more[0][:60],
            count=len(more),
            kind=type(model).__name__,
        )
    return network


def _network(
    folder: Path,
    settings: dict[str, Any],
    table: list[TensorInfo],
    apart: bool,
    device: torch.device,
    dtype: torch.dtype,
    device_map: str | dict[str, Any] | None,
) -> BridgedNetwork:
    """Bridged network of a config.json in a folder and of tensors. apart: whether these lie elsewhere."""
    family = str(settings.get("model_type", ""))
    require_within_limits(settings, table, folder.name)
    changed = 0 if apart else sum(info.bytes for info in table if is_changed(info, dtype)) // dtype.itemsize
    require_room(size(table)[0] + changed, dtype, device if device_map is None else None)
    with quietly():
        with bounded(table, settings, folder.name):
            kind, model = _load(folder, settings, table, apart, device, dtype, device_map)
        try:
            if device_map is None and model.config.get_text_config()._attn_implementation == NAME:
                keep_its_masks(model, kind)
            if kind == "encoder-only" and sees_earlier_alone(model):
                kind = "decoder-only"
            return build_bridged(model, kind, settings)
        except CheckpointError:
            raise
        except Exception as error:  # sizes that do not fit each other are found by the first tokens
            if argument := OWN_ARGUMENTS.search(str(error)):
                raise CheckpointError(
                    "{file}: a stack of this {family} model asks for arguments of its own ({asked}), so that it "
                    "cannot be run alone and looked into; its tensors can be looked at under Checkpoints → Read",
                    file=folder.name,
                    family=family,
                    asked=argument[1],
                ) from error
            reason = f"{first_line(error)} ({type(error).__name__})"
            if reads_texts(model, kind):
                raise CheckpointError(
                    "{file}: this {family} model reads texts as a whole, and not stack by stack, as is needed to "
                    "look into it: {reason}; its tensors can be looked at under Checkpoints → Read",
                    file=folder.name,
                    family=family,
                    reason=reason,
                ) from error
            raise CheckpointError(
                "{file}: this {family} model cannot read a few tokens: {reason}",
                file=folder.name,
                family=family,
                reason=reason,
            ) from error


def is_changed(info: TensorInfo, dtype: torch.dtype) -> bool:
    """True if transformers makes another tensor of one while the pages of its file are still there: in the precision of
    the computation, or one of all experts.
    """
    return info.values != str(dtype).removeprefix("torch.") or bool(ONE_EXPERT.search(info.name))


def _asks_for_code(settings: Any) -> bool:
    """True if a config, or one inside it, names classes in files of the folder."""
    if isinstance(settings, list):
        return any(map(_asks_for_code, settings))
    if not isinstance(settings, dict):
        return False
    return "auto_map" in settings or any(_asks_for_code(inner) for inner in settings.values())


def _load(
    folder: Path,
    settings: dict[str, Any],
    table: list[TensorInfo],
    apart: bool,
    device: torch.device,
    dtype: torch.dtype,
    device_map: str | dict[str, Any] | None,
) -> tuple[Kind, Any]:
    """Kind of a model, and the model of transformers with its weights.

    settings: of its config.json. apart: whether its tensors are those of the table and not the folder's.

    Raises:
        CheckpointError: transformers cannot open it, or its weights are not those that its config asks for.
    """
    transformers = import_transformers()
    family = str(settings.get("model_type", ""))
    config, outside = _read_config(transformers, folder, family), list[str]()
    texts_alone = _senses(config)
    if getattr(config, "default_language", "") is None:
        raise CheckpointError(
            "{file}: config.json says no default_language, without which this {family} model reads no text: "
            "write one of its languages there, such as {next}",
            file=folder.name,
            family=family,
            next=str(next(iter(config.languages), "en_XX"))[:20],
        )
    if _compares(transformers, config):
        config, inside = _text_model(transformers, config, family, table)
        outside = sorted({info.name for info in table} - {f"{TEXT_MODEL}.{info.name}" for info in inside})
        table, apart = inside, True
    if apart and settings.get("tie_word_embeddings") is False:
        config.tie_word_embeddings = config.get_text_config().tie_word_embeddings = False
    if apart and "quantization_config" not in settings and hasattr(config, "quantization_config"):
        del config.quantization_config  # undone: the tensors are plain weights
    headed = any(WORD_HEAD.search(info.name) for info in table)
    decodes = any(DECODER.search(info.name) for info in table)
    kind, model_class = _kind(transformers, config, family, headed, decodes)
    # A model whose code never selects an attention function would get masks that its own does not expect.
    selects = model_class._supports_attention_backend or model_class._can_set_attn_implementation()
    offload = None if device_map is None else _OffloadFolder()
    options: dict[str, Any] = {} if offload is None else {"device_map": device_map, "offload_folder": offload.path}
    pools = "add_pooling_layer" in inspect.signature(model_class).parameters
    if pools and not any("pooler" in info.name for info in table):  # which has no part in states and attentions
        options["add_pooling_layer"] = False
    options |= {"attn_implementation": register() if selects else "eager", "dtype": dtype}
    if apart:
        options |= {"config": config, "state_dict": {info.name: _copied(info, dtype) for info in table}}
    read = partial(
        _from_pretrained,
        None if apart else folder,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=any(folder.glob("*.safetensors")),
        weights_only=True,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # they are refused below, by name
    )
    try:
        model_class, model, loading = _weighted(read, model_class, _plain(transformers, config), table, options)
        if not apart:
            _detach_from_files(model)
    except CheckpointError:
        raise
    except Exception as error:
        raise _refusal(error, folder, config, family, offload is not None) from error
    if outside and loading["missing_keys"]:
        _refuse_comparing(family)
    _require_plain(model, settings, table, folder)
    _require_all_loaded(loading, folder, model_class)
    unused = _leftover(loading, table, folder, model)
    outside = [name for name in outside if not is_harmless(name)]
    model.vitrine_unused = Leftover(unused.harmless, sorted({*unused.beside, *outside}))
    model.vitrine_texts_alone = texts_alone and kind != "encoder-decoder"
    model = model.eval().requires_grad_(False)
    if offload is not None and offload.is_used():
        model.vitrine_offload = offload  # which must live as long as the model
    return kind, model if device_map is not None else model.to(device)


def _refusal(error: Exception, folder: Path, config: Any, family: str, offloaded: bool) -> CheckpointError:
    """Sentence of what transformers raised while it read the weights. offloaded: whether some wait on the disk."""
    if offloaded and FULL in str(error):
        return CheckpointError(
            "{file}: the weights that do not fit into memory wait in {gettempdir}, whose disk is full: make room there",
            file=folder.name,
            gettempdir=gettempdir(),
        )
    if hasattr(config, "quantization_config"):
        return CheckpointError(
            "{file} is quantized, and transformers cannot open it here: {reason}; open the model that it was "
            "made from, or look at its tensors under Checkpoints → Read",
            file=folder.name,
            reason=_reason(error, folder),
        )
    return CheckpointError(
        "{file}: transformers cannot open this {family} model: {reason}",
        file=folder.name,
        family=family,
        reason=_reason(error, folder),
    )


def _weighted(
    read: Callable[..., tuple[Any, dict[str, Any]]],
    model_class: Any,
    plain: Any,
    table: list[TensorInfo],
    options: dict[str, Any],
) -> tuple[Any, Any, dict[str, Any]]:
    """Class, model, and what transformers says of its loading, by the first way of reading that finds all weights.

    plain: the class without the output, None where there is none.
    """
    own = [f"{model_class.base_model_prefix}."] if model_class.base_model_prefix else []
    around = wrapping([info.name for info in table], own)
    try:
        model, loading = read(model_class, **options)
    except KeyError as error:  # a part of the model, unlike others in its file, selects no attention function
        if error.args != (NAME,):
            raise
        options["attn_implementation"] = "eager"
        model, loading = read(model_class, **options)
    if around and loading["missing_keys"]:
        model, loading = read(model_class, **options, key_mapping=dict.fromkeys(around, ""))
    if loading["missing_keys"] and plain not in (None, model_class):
        options.pop("add_pooling_layer", None)
        model_class = plain  # whose weights are all there
        model, loading = read(model_class, **options)
    return model_class, model, loading


def _from_pretrained(folder: Path | None, model_class: Any, **options: Any) -> tuple[Any, dict[str, Any]]:
    model, loading = model_class.from_pretrained(folder, **options)
    return model, loading


def _read_config(transformers: Any, folder: Path, family: str) -> Any:
    """Config of a folder as transformers reads it.

    Raises:
        CheckpointError: there is no model_type, transformers does not know it, or the config is damaged.
    """
    try:
        return transformers.AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the library may raise anything on a damaged config
        if not family:
            raise CheckpointError(
                "{file}: config.json does not say its model_type, by which transformers finds the code that runs "
                'it: write it there, such as "gpt2"',
                file=folder.name,
            ) from error
        if family not in transformers.CONFIG_MAPPING:
            raise CheckpointError(
                "{file}: transformers {version} knows no model_type {family!r}, as config.json calls it: install "
                "a version that does; its tensors can be looked at under Checkpoints → Read",
                file=folder.name,
                version=transformers.__version__,
                family=family,
            ) from error
        raise CheckpointError(
            "{file}: transformers cannot read its config.json: {reason}",
            file=folder.name,
            reason=_reason(error, folder),
        ) from error


def _copied(info: TensorInfo, dtype: torch.dtype) -> Tensor:
    """Values in memory of their own, in the precision of the computation."""
    values = info.load()
    return values.to(dtype if values.is_floating_point() else values.dtype, copy=True).contiguous()


def _detach_from_files(model: nn.Module) -> None:
    """Copy the weights into memory of their own: those that transformers maps would change when the file is written
    over, and end the process when it becomes shorter.
    """
    tensors = [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.device.type == "cpu"]
    pages, places = FilePages(), places_of_files([tensor.data_ptr() for tensor in tensors])
    with torch.no_grad():
        for tensor in tensors:  # tied ones once
            if not MAPS.exists() or within(tensor.data_ptr(), places):
                mapped, tensor.data = tensor.data, tensor.data.clone(memory_format=torch.preserve_format)
                pages.copied(mapped)


def _require_plain(model: nn.Module, settings: dict[str, Any], table: list[TensorInfo], folder: Path) -> None:
    """Require that a quantized model has become one of plain weights, or else one whose weights are no codes.

    Raises:
        CheckpointError: transformers knows no such quantization, or computes with codes.
    """
    quantization = settings.get("quantization_config")
    if (
        quantization
        and getattr(model, "hf_quantizer", None) is None
        and getattr(model.config, "quantization_config", None)
    ):
        require_no_codes(table, folder.name)
    values = {name: tensor.dtype for name, tensor in model.named_parameters()}
    values |= {name: tensor.dtype for name, tensor in model.named_buffers() if name.endswith("weight")}
    codes = [name for name, dtype in values.items() if not dtype.is_floating_point or dtype.itemsize < 2]
    if codes:
        method = quantization.get("quant_method", "") if isinstance(quantization, dict) else ""
        raise CheckpointError(
            "{file} is quantized {method}: {codes} holds codes ({values}), with which transformers computes, and "
            "not weights that can be looked into: open the model that it was made from; its tensors can be "
            "looked at under Checkpoints → Read",
            file=folder.name,
            method=method,
            codes=codes[0],
            values=values[codes[0]],
        )


def _require_all_loaded(loading: dict[str, Any], folder: Path, model_class: Any) -> None:
    """Require that the files had every weight of the model, in its shape. loading: as transformers reports it.

    Raises:
        MissingWeightsError: a weight is missing.
        CheckpointError: one is of another shape.
    """
    if lacking := sorted(map(str, loading["missing_keys"])):
        raise MissingWeightsError(
            "{file} lacks weights of {kind}, such as {lacking} ({count} in all): the file is of another model, "
            "or not whole",
            file=folder.name,
            kind=model_class.__name__,
            lacking=lacking[0],
            count=len(lacking),
        )
    if others := sorted(loading["mismatched_keys"]):
        name, shape, model_shape = others[0]
        raise CheckpointError(
            "{name}: {name_2} has shape {shape}, and config.json asks for {asked} ({count} such tensors in all): "
            "the two files do not belong together",
            name=folder.name,
            name_2=name,
            shape=tuple(shape),
            asked=tuple(model_shape),
            count=len(others),
        )


def _leftover(loading: dict[str, Any], table: list[TensorInfo], folder: Path, model: Any) -> Leftover:
    """Tensors of the files that the model has no use for, such as those of a head of another task, or of a layer behind
    the last that predicts a further token (DeepSeek-AI, 2024, DeepSeek-V3, section 2.2).

    Raises:
        CheckpointError: one is of another layer behind the last that config.json asks for, or of a part of the model.
    """
    names, known = sorted(map(str, loading["unexpected_keys"])), model.state_dict().keys()
    text = model.config.get_text_config()
    relative = getattr(text, "position_embedding_type", None)
    if str(relative).startswith("relative_key") and not any("distance_embedding" in name for name in known):
        raise CheckpointError(
            "{file} has position_embedding_type {relative} in its config.json, and the code that runs this model "
            "knows no relative positions: it would compute something else; its tensors can be looked at under "
            "Checkpoints → Read",
            file=folder.name,
            relative=relative,
        )
    last, further = getattr(text, "num_hidden_layers", 0), getattr(text, "num_nextn_predict_layers", None) or 0
    predicting = tuple(name.removesuffix(JOINED) for name in names if name.endswith(JOINED))
    if isinstance(last, int):  # and not, as of LXMERT, of each kind of layer
        predicting += tuple(f"model.layers.{number}." for number in range(last, last + further))
    beyond = [name for name in names if any(first in known for first in _first_layers(name))]
    beyond = [name for name in beyond if not name.startswith(predicting)]
    if beyond:
        raise CheckpointError(
            "{file} holds {beyond} ({count} such), a layer that config.json leaves out: its number of layers "
            "must be that of the weights",
            file=folder.name,
            beyond=beyond[0],
            count=len(beyond),
        )
    passed = [name for name in names if name.startswith(predicting)]
    turned = getattr(text, "position_embedding_type", None) == "rotary"
    passed += [name for name in names if turned and ROWS.search(name)]
    for pattern in model._keys_to_ignore_on_load_unexpected or ():  # known to transformers, which does not report them
        passed += [info.name for info in table if info.name not in known and re.search(pattern, info.name)]
    modules, prefix = {name for name, _module in model.named_modules()}, model.base_model_prefix
    trunk, bare = prefix if prefix in modules else "", not any(info.name.startswith(f"{prefix}.") for info in table)
    rest = leftover({*names} - {*passed}, modules, trunk, folder.name, bare)
    return Leftover(sorted({*rest.harmless, *passed}), rest.beside)


def _first_layers(name: str) -> list[str]:
    """Names of the same tensor in the first of its layers."""
    numbers = re.finditer(r"(?<=\.)\d+(?=\.)", name)
    return [f"{name[: number.start()]}0{name[number.end() :]}" for number in numbers if number[0] != "0"]


class _OffloadFolder:
    """Folder, removed with this object, for weights that wait on the disk: those of .safetensors stay in their files,
    unless transformers rearranges them, as of experts; others are written here.
    """

    def __init__(self) -> None:
        self.path = mkdtemp(prefix="vitrine-")
        weakref.finalize(self, rmtree, self.path, ignore_errors=True)

    def is_used(self) -> bool:
        return bool(os.listdir(self.path))


def _reason(error: Exception, folder: Path) -> str:
    """Text of an error with the folder's name alone: the user does not know the path of an upload."""
    return first_line(error, 2 * LONGEST).replace(str(folder), folder.name)[:LONGEST]


def _kind(transformers: Any, config: Any, family: str, headed: bool, decodes: bool) -> tuple[Kind, Any]:
    """Kind of a model, and the class that runs it, if possible the one that wrote the file. headed, decodes: as of
    `_order`.

    Raises:
        CheckpointError: the family has no class for language models of one or two stacks.
    """
    known = (MASKED, CAUSAL, TWO, BARE, ENCODER, SEEING, HEARING)
    mappings = {name: getattr(transformers, name)._model_mapping for name in known}
    classes = {name: _classes(mapping[type(config)]) for name, mapping in mappings.items() if type(config) in mapping}
    for kind, name in _order(
        config, {name: [member.__name__ for member in members] for name, members in classes.items()}, headed, decodes
    ):
        if name in classes and hasattr(config.get_text_config(), "vocab_size"):
            wrote = (config.architectures or [""])[0]
            return kind, next((each for each in classes[name] if each.__name__ == wrote), classes[name][0])
    text = config.get_text_config()
    if not hasattr(text, "vocab_size"):
        raise CheckpointError(
            "model_type {family!r} is of no language model: by its config.json it has no vocabulary of texts; "
            "its tensors can be looked at under Checkpoints → Read",
            family=family,
        )
    two = getattr(config, "is_encoder_decoder", False)
    if two and TWO not in classes:
        raise CheckpointError(
            "the encoder of model_type {family!r} reads pictures, sounds or pages, and transformers lists no "
            "class of it that makes texts of texts alone; its tensors can be looked at under Checkpoints → Read",
            family=family,
        )
    writer = _writer(transformers, config)
    if writer is None or OTHER_OUTPUT.search(writer.__name__):
        raise CheckpointError(
            "transformers {version} lists no class of model_type {family!r} that writes or fills in words, and "
            "config.json names none under architectures; its tensors can be looked at under Checkpoints → Read",
            version=transformers.__version__,
            family=family,
        )
    return "decoder-only" if WRITES.search(writer.__name__) else "encoder-only", writer


def _writer(transformers: Any, config: Any) -> Any:
    """Class of transformers that wrote the file, by config.json; None: it names none of such a config."""
    name = (config.architectures or [""])[0]
    model_class = getattr(transformers, name, None) if name.isidentifier() else None
    return model_class if getattr(model_class, "config_class", None) is type(config) else None


def _plain(transformers: Any, config: Any) -> Any:
    """Class of transformers that wrote the file, if it is one without an output; else None."""
    mapping, writer = transformers.AutoModel._model_mapping, _writer(transformers, config)
    return writer if type(config) in mapping and writer in _classes(mapping[type(config)]) else None


def _senses(config: Any) -> bool:
    """True if a model sees pictures or hears sounds too, by itself or by what it attends to."""
    beside = ("vision_config", "audio_config", "cross_attention_layers")
    return config.get_text_config() is not config or any(getattr(config, name, None) is not None for name in beside)


def _compares(transformers: Any, config: Any) -> bool:
    """True if a model only compares texts with images or sounds, as CLIP, and writes none."""
    writing = (getattr(transformers, name)._model_mapping for name in (MASKED, CAUSAL, TWO, SEEING, HEARING))
    beside = {name for name in getattr(config, "sub_configs", {}) if hasattr(config, name)}
    return {"text_config"} < beside and not any(type(config) in mapping for mapping in writing)


TEXT_MODEL = "text_model"  # how the names of its tensors begin in a model that compares texts


def _text_model(transformers: Any, config: Any, family: str, table: list[TensorInfo]) -> tuple[Any, list[TensorInfo]]:
    """Config of the text model within a model that compares texts with pictures or sounds, and its tensors.

    Raises:
        CheckpointError: transformers has no class that runs it alone.
    """
    text = config.text_config
    wrote = (config.architectures or [""])[0].removesuffix("Model")
    listed = [getattr(transformers, name)._model_mapping for name in (BARE, ENCODER)]
    own = getattr(transformers, f"{wrote}TextModel", None)
    classes: list[Any] = [own] if getattr(own, "config_class", None) is type(text) else []
    classes += [_classes(mapping[type(text)])[0] for mapping in listed if type(text) in mapping]
    if not classes or not any(info.name.startswith(f"{TEXT_MODEL}.") for info in table):
        _refuse_comparing(family)
    text.architectures = [classes[0].__name__]
    return text, under(table, TEXT_MODEL, family)


def _refuse_comparing(family: str) -> NoReturn:
    raise CheckpointError(
        "model_type {family!r} compares texts with pictures or sounds and writes none, and transformers has no "
        "class that runs its text model alone from these files; its tensors can be looked at under Checkpoints → "
        "Read",
        family=family,
    )


def _classes(entry: Any) -> tuple[Any, ...]:
    return entry if isinstance(entry, tuple) else (entry,)


def _order(config: Any, names: dict[str, list[str]], headed: bool, decodes: bool) -> list[tuple[Kind, str]]:
    """Kinds to try with their auto class, by the class that wrote the file: BERT may be a causal model, or have no
    output.

    names: of the family's classes, by auto class. headed: whether the files hold an output over words, whatever class
    config.json names. decodes: whether they hold a decoder, which T5's classifiers of tokens have not.
    """
    wrote = (config.architectures or [""])[0]
    tied = getattr(config.get_text_config(), "tie_word_embeddings", True)
    # A bare decoder has its output too where that is the embedding.
    plain = wrote in names.get(BARE, []) and not headed
    bare = OTHER_OUTPUT.search(wrote) or (plain and (MASKED in names or not tied or wrote.endswith("Encoder")))
    alone = wrote.endswith("EncoderModel") or (TWO in names and OTHER_OUTPUT.search(wrote) and not decodes)
    if alone and ENCODER in names:  # of T5: one of its two stacks
        return [("encoder-only", ENCODER)]
    if getattr(config, "is_encoder_decoder", False):
        return [("encoder-decoder", BARE if bare else TWO)]
    if "CausalLM" in wrote or "LMHead" in wrote:
        return [("decoder-only", CAUSAL)]
    if not names.keys() & {MASKED, CAUSAL} and (writing := [name for name in (SEEING, HEARING, TWO) if name in names]):
        return [("decoder-only", BARE if plain or OTHER_OUTPUT.search(wrote) else writing[0])]
    if bare and names.keys() & {MASKED, CAUSAL}:
        return [("encoder-only" if MASKED in names or wrote.endswith("Encoder") else "decoder-only", BARE)]
    return [("encoder-only", MASKED), ("decoder-only", CAUSAL), ("encoder-only", BARE)]


# Size of the model that a stranger's config.json makes transformers build, bounded by its files before memory is taken.

# Settings that count: configs make lists of that many entries, and models as many modules, before weights are read.
COUNTED = re.compile(r"layers?$|^n(um)?_.*(layer|block)|^num_labels$|^attention_types$")
NAMES = ("id2label", "label2id")  # of classes, with a number each
PARTS = 8  # parameters and buffers that a tensor of the files may become: those of the experts lie in one
TIMES = 3  # numbers for one of the files: a table of tokens may be built for both stacks and the output
PACKED = 8  # numbers for one of a quantized file


def require_within_limits(settings: dict[str, Any], table: list[TensorInfo], name: str) -> None:
    """Require that no setting asks for many more layers than the tensors can be. name: of the model, for sentences.

    Raises:
        CheckpointError: a setting asks for more, or a setting that names classes or files is of another type.
    """
    wrote = settings.get("architectures") or []
    if not isinstance(wrote, list) or not all(isinstance(each, str) for each in wrote):
        raise CheckpointError("{file}: architectures in config.json must be a list of names", file=name)
    if "transformers_weights" in settings:
        raise CheckpointError("{file}: config.json names another file of weights: call it model.safetensors", file=name)
    most = max(MOST_LAYERS, len(table))
    for setting, count in _counts(settings):
        if count > most:
            raise CheckpointError(
                "{file}: config.json says {setting} {count:,}, more than the weights have tensors ({tensors:,}): the "
                "two files do not belong together",
                file=name,
                setting=setting,
                count=count,
                tensors=len(table),
            )


@contextmanager
def bounded(table: list[TensorInfo], settings: dict[str, Any], name: str) -> Iterator[None]:
    """Block in which the model that this thread builds, on the device "meta" and so without memory, is bounded.

    Raises:
        CheckpointError: the model has many more parameters than the files.
    """
    _watch()
    stored = sum(info.elements for info in table)
    times = TIMES * (PACKED if settings.get("quantization_config") else 1)
    _building.name, _building.held, _building.parts, _building.numbers = name, stored, 0, 0
    _building.limits = PARTS * len(table) + 100 * MOST_LAYERS, times * stored + BUILT
    try:
        yield
    finally:
        _building.limits = None


class _Building(threading.local):
    """Numbers of parts and of values that this thread has built. limits: of both; None: outside of `bounded`."""

    limits: tuple[int, int] | None = None
    name, held, parts, numbers = "", 0, 0, 0


_building = _Building()


@cache
def _watch() -> None:
    """Register the counting hooks, once and for good: other threads may be in them."""
    module.register_module_parameter_registration_hook(_count)
    module.register_module_buffer_registration_hook(_count)


def _count(_module: Any, _name: str, tensor: Tensor | None) -> None:
    if _building.limits is None or tensor is None or not tensor.is_meta:
        return
    _building.parts += 1
    _building.numbers += tensor.numel()
    if _building.parts > _building.limits[0] or _building.numbers > _building.limits[1]:
        raise CheckpointError(
            "{name}: the config asks for more than {numbers:,} weights, and the files hold {held:,}: they do not "
            "belong together",
            name=_building.name,
            numbers=_building.numbers,
            held=_building.held,
        )


def _counts(settings: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """Values of settings that count parts, also of configs within the config."""
    waiting: list[tuple[str, Any]] = list(settings.items())
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict) and name not in NAMES:
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(name, item) for item in value]
        elif isinstance(value, int | float) and COUNTED.search(name):
            yield name, int(value) if abs(value) < 1 << 62 else 1 << 62
